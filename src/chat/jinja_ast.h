/* The tree of a parsed template. Nodes lie in the template's arena and are never changed after parsing.
 *
 * Sequences (statements of a body, items of a list, branches of an if) are linked by `next`; a node stands in one
 * sequence at most.
 */
#ifndef MLXCEL_CHAT_JINJA_AST_H
#define MLXCEL_CHAT_JINJA_AST_H

#include "base/arena.h"
#include "chat/jinja_value.h"

enum node_kind {
    /* expressions */
    NODE_CONST,     /* value */
    NODE_NAME,      /* name */
    NODE_LIST,      /* first: items */
    NODE_TUPLE,     /* first: items; also a target */
    NODE_DICT,      /* first: key, value, key, value, ... */
    NODE_NOT,       /* a */
    NODE_NEGATE,    /* a */
    NODE_PLUS,      /* a */
    NODE_BINARY,    /* a op b; op: enum token_type of the arithmetic operator; constant; folded */
    NODE_AND,       /* a, b */
    NODE_OR,        /* a, b */
    NODE_CONCAT,    /* first: operands of ~ */
    NODE_COMPARE,   /* a, then first: NODE_OPERANDs */
    NODE_OPERAND,   /* op, a */
    NODE_CHOICE,    /* a if test else b; b may be NULL */
    NODE_ATTRIBUTE, /* a.name; also a target, a being a NODE_NAME */
    NODE_ITEM,      /* a[b] */
    NODE_SLICE,     /* test:a:b, each may be NULL (from, to, step); only as an index */
    NODE_CALL,      /* a(args) */
    NODE_FILTER,    /* a|row(args); a is NULL at the head of a filter block's chain; row is NULL when unknown */
    NODE_TEST,      /* a is row(args) */
    /* statements */
    NODE_TEXT,         /* name: the text */
    NODE_OUTPUT,       /* first: expressions */
    NODE_IF,           /* first: NODE_BRANCHes */
    NODE_BRANCH,       /* test (NULL: else), body */
    NODE_FOR,          /* target, a: iterable, test, body, otherwise, recursive */
    NODE_SET,          /* target, a */
    NODE_SET_BLOCK,    /* target, a: filter chain or NULL, body */
    NODE_MACRO,        /* name, params, body, uses */
    NODE_CALL_BLOCK,   /* a: the call, params, body, uses: of the caller */
    NODE_FILTER_BLOCK, /* a: filter chain, body */
    NODE_WITH,         /* params: targets and values, body */
    NODE_BLOCK,        /* name, body, scoped */
    NODE_AUTOESCAPE,   /* a, body */
    NODE_SCOPE,        /* body in a scope of its own: generation */
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_LOAD /* include, import, from, extends: fails, there is no loader */
};

/* Special names that a macro's body mentions. */
enum macro_uses { USES_CALLER = 1, USES_VARARGS = 2, USES_KWARGS = 4 };

enum arg_kind { ARG_POSITIONAL, ARG_KEYWORD, ARG_STAR, ARG_DOUBLE_STAR };
struct arg {
    struct arg   *next;
    enum arg_kind kind;
    struct str    name; /* of a keyword */
    struct node  *value;
};

/* A parameter of a macro (name, fallback or NULL) or an assignment of `with` (target, fallback). */
struct param {
    struct param *next;
    struct str    name;
    struct node  *target, *fallback;
};

struct node {
    uint8_t      kind; /* enum node_kind */
    uint8_t      op;
    uint8_t      uses;
    bool         recursive, scoped;
    bool         constant; /* a NODE_BINARY of constants */
    bool         folded;   /* a power of a constant and a variable, see jinja_fold.c */
    bool         hidden;   /* a name that cannot mean a variable of the caller, see jinja_names.c */
    uint32_t     line, column;
    struct node *next;
    struct node *a, *b, *test, *first, *target, *body, *otherwise;
    struct str   name;
    union {
        struct value  value;
        struct arg   *args;
        struct param *params;
    };
    const struct jinja_row *row;
};

struct jinja {
    struct arena arena;
    const char  *name;
    struct node *body;
    struct str   source;
    struct node *blocks; /* the first of the NODE_BLOCKs, linked by `otherwise` */
};

#endif
