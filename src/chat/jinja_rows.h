/* The tables: every filter, test, global function and method is one row. */
#ifndef MLXCEL_CHAT_JINJA_ROWS_H
#define MLXCEL_CHAT_JINJA_ROWS_H

#include "chat/jinja_value.h"

#define JINJA_PARAMS_MAX 6

struct jinja_run;

struct jinja_keyword {
    struct str   name;
    struct value value;
};

/* The evaluated arguments of a call. */
struct jinja_args {
    size_t                n, n_keywords;
    struct value         *v;
    struct jinja_keyword *keywords;
};

/* One call of a row: the arguments as given, and bound to the row's parameters (VALUE_ABSENT where not given). */
struct jinja_call {
    const struct jinja_row  *row;
    const struct jinja_args *args;
    struct value             arg[JINJA_PARAMS_MAX];
};

/* self: the filtered or tested value, or the method's object; absent for globals. On a fault it calls jinja_fail and
 * its result is ignored. A test returns a boolean. */
typedef struct value (*jinja_fn)(struct jinja_run *r, struct value self, const struct jinja_call *c);

struct jinja_row {
    const char *name;
    const char
            *params; /* "a b? c?": names in order, ? may be missing; "/a": no keywords; "*": the function reads c->args
                          itself */
    jinja_fn fn;     /* NULL: a method that the sandbox refuses */
    bool     lazy;   /* as Python's generators: the call gives an iterator, and fn makes its list when that is walked */
};

/* NULL when there is none of that name. */
const struct jinja_row *jinja_filter_row(struct str name);
const struct jinja_row *jinja_test_row(struct str name);
const struct jinja_row *jinja_global_row(struct str name);
const struct jinja_row *jinja_method_row(uint8_t type, struct str name);

/* A table that ends with a row without a name. */
const struct jinja_row *jinja_find_row(const struct jinja_row *table, struct str name);

#endif
