/* The methods of strings. */
#ifndef MLXCEL_CHAT_JINJA_METHODS_H
#define MLXCEL_CHAT_JINJA_METHODS_H

#include "chat/jinja_rows.h"

/* Ends with a row without a name. */
extern const struct jinja_row jinja_string_methods[];

/* Of jinja_string_letters.c. */
#define STRING_LETTERS(METHOD)                                                                                         \
    METHOD(casefold)                                                                                                   \
    METHOD(center)                                                                                                     \
    METHOD(expandtabs)                                                                                                 \
    METHOD(isalnum)                                                                                                    \
    METHOD(isalpha)                                                                                                    \
    METHOD(isascii) METHOD(isdecimal) METHOD(isdigit) METHOD(isidentifier) METHOD(islower) METHOD(isnumeric)           \
        METHOD(isprintable) METHOD(isspace) METHOD(istitle) METHOD(isupper) METHOD(ljust) METHOD(rjust)                \
            METHOD(swapcase) METHOD(title) METHOD(zfill)
#define METHOD(name) struct value string_##name(struct jinja_run *r, struct value self, const struct jinja_call *c);
STRING_LETTERS(METHOD)
#undef METHOD

#endif
