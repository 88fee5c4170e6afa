/* The methods of strings and numbers. */
#ifndef MLXCEL_CHAT_JINJA_METHODS_H
#define MLXCEL_CHAT_JINJA_METHODS_H

#include "chat/jinja_rows.h"

/* Each ends with a row without a name. */
extern const struct jinja_row jinja_string_methods[], jinja_markup_methods[], jinja_bytes_methods[],
    jinja_int_methods[], jinja_float_methods[];

/* real, imag, numerator, denominator of numbers; start, stop, step of ranges; absent when there is no such one. */
struct value jinja_number_attribute(struct value v, struct str name);
/* dict.fromkeys, which the global `dict` has, too. */
struct value jinja_dict_fromkeys(struct jinja_run *r, struct value self, const struct jinja_call *c);

/* Of jinja_string_letters.c, jinja_string_tables.c and jinja_bytes.c. */
#define STRING_METHODS(METHOD)                                                                                         \
    METHOD(casefold)                                                                                                   \
    METHOD(center)                                                                                                     \
    METHOD(encode)                                                                                                     \
    METHOD(expandtabs)                                                                                                 \
    METHOD(format_map)                                                                                                 \
    METHOD(isalnum)                                                                                                    \
    METHOD(isalpha) METHOD(isascii) METHOD(isdecimal) METHOD(isdigit) METHOD(isidentifier) METHOD(islower)             \
        METHOD(isnumeric) METHOD(isprintable) METHOD(isspace) METHOD(istitle) METHOD(isupper) METHOD(ljust)            \
            METHOD(maketrans) METHOD(rjust) METHOD(swapcase) METHOD(title) METHOD(translate) METHOD(zfill)
#define METHOD(name) struct value string_##name(struct jinja_run *r, struct value self, const struct jinja_call *c);
STRING_METHODS(METHOD)
#undef METHOD

#endif
