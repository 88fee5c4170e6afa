/* The values that a template computes with: Python's types as far as chat templates can tell them apart.
 *
 * Values are small, passed by copy, and never change once built (namespaces, iterators, cyclers and the loop variable
 * excepted), so lists and strings are shared freely. Everything they point to lies in the arena of one rendering, in
 * the parsed template or in the caller's JSON. Strings are UTF-8; indices count code points, as in Python.
 */
#ifndef MLXCEL_CHAT_JINJA_VALUE_H
#define MLXCEL_CHAT_JINJA_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum value_type {
    VALUE_ABSENT,    /* an argument that was not given; a template never sees it */
    VALUE_UNDEFINED, /* u.undefined */
    VALUE_NONE,
    VALUE_BOOL,      /* u.b */
    VALUE_INT,       /* u.i */
    VALUE_BIG,       /* u.big: an integer that does not fit in 64 bits */
    VALUE_FLOAT,     /* u.d */
    VALUE_STRING,    /* u.s; markup: already escaped HTML (Markup) */
    VALUE_BYTES,     /* u.s */
    VALUE_LIST,      /* u.list */
    VALUE_TUPLE,     /* u.list */
    VALUE_DICT,      /* u.dict */
    VALUE_VIEW,      /* u.list: the keys(), values() or items() of a dict; has a length, no index */
    VALUE_ITERATOR,  /* u.iterator: what map, select, ... give; can be walked once */
    VALUE_RANGE,     /* u.range */
    VALUE_NAMESPACE, /* u.dict, mutable */
    VALUE_FUNCTION,  /* u.function: a global, or a method with its object */
    VALUE_MACRO,     /* u.macro */
    VALUE_BLOCK,     /* u.block: self.NAME */
    VALUE_SELF,      /* `self`, the blocks of this template */
    VALUE_LOOP,      /* u.loop */
    VALUE_CYCLER,    /* u.cycler */
    VALUE_JOINER     /* u.joiner */
};

struct value {
    uint8_t type; /* enum value_type */
    bool    markup;
    union {
        bool               b;
        int64_t            i;
        double             d;
        struct big        *big;
        struct str         s;
        struct undefined  *undefined;
        struct list       *list;
        struct dict       *dict;
        struct iterator   *iterator;
        struct range      *range;
        struct function   *function;
        struct macro      *macro;
        const struct node *block;
        struct loop       *loop;
        struct cycler     *cycler;
        struct joiner     *joiner;
    } u;
};

/* Why a value is undefined, for the message should it be used. */
struct undefined {
    struct str   hint;  /* the whole message, if not empty */
    struct value name;  /* of the variable, attribute (string) or element */
    uint8_t      owner; /* enum value_type of the object that lacks it; VALUE_ABSENT: a variable */
};

enum list_kind {
    LIST_PLAIN,
    LIST_GROUP, /* a tuple made by groupby: has .grouper and .list */
    LIST_KEYS,  /* the rest: of which view the list is */
    LIST_VALUES,
    LIST_ITEMS
};
struct list {
    size_t         n;
    struct value  *v;
    enum list_kind kind;
};

struct iterator {
    struct list             *list; /* NULL until it is made */
    size_t                   at;
    const struct jinja_call *make; /* the lazy call that gives the list, and what it applies to */
    struct value             source;
};

struct range {
    int64_t start, stop, step, n; /* n <= RANGE_MAX items; stop only for printing */
};
#define RANGE_MAX 100000

struct cycler {
    struct list *items;
    size_t       at;
};

struct joiner {
    struct value separator;
    bool         used;
};

/* Ordered by insertion; keys are none, booleans, numbers, strings and tuples. index is an open-addressing table of
 * entry numbers + 1, used once there are more than a few entries. */
struct dict_entry {
    struct value key, value;
    uint64_t     hash;
};
struct dict {
    size_t             n, cap;
    struct dict_entry *v;
    uint32_t          *index;
    size_t             n_index; /* a power of two, or 0 */
};

static inline struct value value_none(void)
{
    return (struct value){.type = VALUE_NONE};
}
static inline struct value value_bool(bool b)
{
    return (struct value){.type = VALUE_BOOL, .u.b = b};
}
static inline struct value value_int(int64_t i)
{
    return (struct value){.type = VALUE_INT, .u.i = i};
}
static inline struct value value_float(double d)
{
    return (struct value){.type = VALUE_FLOAT, .u.d = d};
}
static inline struct value value_str(struct str s)
{
    return (struct value){.type = VALUE_STRING, .u.s = s};
}
static inline struct value value_markup(struct str s, bool markup)
{
    return (struct value){.type = VALUE_STRING, .markup = markup, .u.s = s};
}
/* None when there is no list: after a fault, values stay well-formed. */
static inline struct value value_list(struct list *list)
{
    return list ? (struct value){.type = VALUE_LIST, .u.list = list} : value_none();
}
static inline struct value value_tuple(struct list *list)
{
    return list ? (struct value){.type = VALUE_TUPLE, .u.list = list} : value_none();
}
static inline struct value value_dict(struct dict *dict)
{
    return dict ? (struct value){.type = VALUE_DICT, .u.dict = dict} : value_none();
}

/* Python's name of the type for messages: "str", "NoneType", ... */
const char *value_type_name(uint8_t type);
/* Jinja's name of the object in "'X' has no attribute": "dict object", "None", ... */
const char *value_owner_name(uint8_t type);

/* bool(v) */
bool value_truth(struct value v);
/* Booleans count as integers, as in Python. */
bool    value_is_number(struct value v);
bool    value_is_int(struct value v);      /* of any size */
bool    value_is_integral(struct value v); /* fits in 64 bits */
int64_t value_integral(struct value v);    /* of such a one */
double  value_number(struct value v);      /* of a boolean, integer or float; infinite when too large */
/* -1, 0, 1 by the exact values of two numbers; 2 when one of them is not a number. */
int value_order_numbers(struct value a, struct value b);
/* Strings compare equal whether markup or not. Only for scalars and strings; containers go through jinja_equal. */
bool value_same_scalar(struct value a, struct value b);
/* Item i of a range. */
static inline struct value range_item(const struct range *g, int64_t i)
{
    return value_int(g->start + i * g->step);
}

#endif
