/* One rendering: its state, its limits, and what filters, tests, methods and the evaluator share.
 *
 * A fault is sticky: jinja_fail sets r->status once, later calls keep the first. Functions then return any value;
 * whoever loops checks r->status. Values are made in r->arena, which the rendering frees as a whole.
 */
#ifndef MLXCEL_CHAT_JINJA_RUN_H
#define MLXCEL_CHAT_JINJA_RUN_H

#include "base/arena.h"
#include "base/error.h"
#include "chat/jinja.h"
#include "chat/jinja_ast.h"
#include "chat/jinja_lex.h"
#include "chat/jinja_rows.h"

/* Names of one scope. Inner scopes read outer names; assignments stay in the innermost. A macro keeps the scope that it
 * was defined in and those around it; others are used again when they end, so that long loops take no memory. */
struct binding {
    struct binding *next;
    struct str      name;
    struct value    value;
};
struct scope {
    struct scope   *outer;
    struct binding *first;
    bool            kept; /* by a macro */
};

struct macro {
    const struct node *node; /* NODE_MACRO or NODE_CALL_BLOCK */
    struct scope      *scope;
};

struct function {
    const struct jinja_row *row;
    struct value            self; /* absent for globals */
};

/* The variable `loop`. */
struct loop {
    const struct node *node;  /* NODE_FOR */
    struct scope      *scope; /* around the loop, for loop(...) */
    struct list       *items;
    size_t             at;
    int                depth;   /* of recursion, from 0 */
    struct value       changed; /* arguments of the last changed(...), a tuple */
};

struct jinja_run {
    const struct jinja *j;
    struct jinja_limits limits;
    struct arena        arena;
    struct buf         *out; /* where output goes now: the result or a capture */
    struct buf         *result;
    size_t              captured; /* bytes ever written into captures, counted as memory */
    long                steps;
    int                 depth;
    int64_t             now;
    uint32_t            picks; /* of jinja_random */
    const json_t       *vars;
    struct dict        *known; /* vars that were converted already */
    struct scope       *root;
    struct scope       *spare_scopes; /* linked by outer */
    struct binding     *spare_bindings;
    const struct node  *at; /* for messages */
    bool                autoescape;
    int                 status;
    struct error       *e;
};

/* --- faults and limits (jinja_run.c) ----------------------------------------------------------------------------- */
/* Sets ERR_INVALID with the template's name and place before the sentence. */
struct value jinja_fail(struct jinja_run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct value jinja_fail_limit(struct jinja_run *r, const char *what);
struct value jinja_fail_memory(struct jinja_run *r, bool limit); /* our limit, else the allocator's */
struct value jinja_fail_type(struct jinja_run *r, const char *what, struct value v); /* "WHAT, got TYPE" */
bool         jinja_spend(struct jinja_run *r, size_t n); /* n items touched; false when the steps are used up */
bool         jinja_enter(struct jinja_run *r);           /* one level of recursion */
void         jinja_leave(struct jinja_run *r);
/* From the time and the number of picks: the same rendering picks the same. */
uint64_t jinja_random(struct jinja_run *r);
void    *jinja_alloc(struct jinja_run *r, size_t size); /* NULL is a fault already set */

/* --- building values (jinja_build.c) ----------------------------------------------------------------------------- */
struct value jinja_undefined(struct jinja_run *r, struct value name, uint8_t owner);
struct value jinja_undefined_hint(struct jinja_run *r, struct str hint);
/* "'x' is undefined" or "'dict object' has no attribute 'x'": a fault. */
struct value jinja_fail_undefined(struct jinja_run *r, struct value v);
/* Names that transformers keeps out of namespaces. */
bool         jinja_private_name(struct value name);
struct value jinja_fail_private(struct jinja_run *r, struct value name);
void         jinja_buf_init(struct jinja_run *r, struct buf *b);
struct value jinja_take(struct jinja_run *r, struct buf *b); /* a string of b's content; frees b */
struct value jinja_copy(struct jinja_run *r, struct str s);
struct list *jinja_list(struct jinja_run *r, size_t n); /* n absent items; NULL is a fault */
struct list *jinja_pair(struct jinja_run *r, struct value a, struct value b);
struct value jinja_iterator(struct jinja_run *r, struct list *list);
struct dict *jinja_dict(struct jinja_run *r);
/* False on a fault (unhashable key). A known key keeps its place. */
bool          jinja_dict_set(struct jinja_run *r, struct dict *d, struct value key, struct value v);
struct value *jinja_dict_get(struct jinja_run *r, const struct dict *d,
                             struct value key); /* NULL: not there, or fault */
struct value *jinja_dict_text(struct jinja_run *r, const struct dict *d, struct str key);
struct list  *jinja_pairs(struct jinja_run *r, const struct dict *d); /* its (key, value) tuples */
struct value  jinja_from_json(struct jinja_run *r, const json_t *json);

/* A list under construction. */
struct builder {
    struct list *list;
    size_t       cap;
};
bool         builder_add(struct jinja_run *r, struct builder *b, struct value v);
struct list *builder_list(struct jinja_run *r, struct builder *b); /* never NULL without a fault */

/* --- integers (jinja_int.c) -------------------------------------------------------------------------------------- */
/* a op b for integers of any size; what fits in 64 bits is a VALUE_INT. */
struct value jinja_big_arithmetic(struct jinja_run *r, enum token_type op, struct value a, struct value b);
struct value jinja_int_of_double(struct jinja_run *r, double d); /* towards zero; d is finite */
/* Every character is a digit of the base. */
struct value jinja_int_parse(struct jinja_run *r, struct str digits, unsigned base, bool negative);
/* Appends the digits of the magnitude of an integer. */
void jinja_put_int(struct jinja_run *r, struct buf *b, struct value v, unsigned base, bool upper);

/* --- text of values (jinja_print.c) ------------------------------------------------------------------------------ */
void         jinja_put_str(struct jinja_run *r, struct buf *b, struct value v);  /* str(v) */
void         jinja_put_repr(struct jinja_run *r, struct buf *b, struct value v); /* repr(v) */
void         jinja_put_escaped(struct buf *b, struct str s);                     /* HTML */
void         jinja_put_bytes(struct buf *b, struct str s);                       /* repr */
void         jinja_put_unescaped(struct buf *b, struct str s);                   /* HTML's references resolved */
void         jinja_put_float(struct buf *b, double d);                           /* repr */
struct value jinja_str(struct jinja_run *r, struct value v);  /* str(v) as a value; markup stays markup */
struct str   jinja_text(struct jinja_run *r, struct value v); /* the same as bytes */
struct str   jinja_escaped(struct jinja_run *r, struct value v);
/* str.replace; count < 0: all */
struct value jinja_replace(struct jinja_run *r, struct str s, struct str old, struct str new, int64_t count);
/* json.dumps */
struct json_style {
    bool       ascii, sort, lines; /* lines: one item a line */
    struct str indent, item, key;  /* the indent of one level; separators */
};
void jinja_put_json(struct jinja_run *r, struct buf *b, struct value v, const struct json_style *style);

/* --- operators (jinja_ops.c, jinja_compare.c, jinja_format.c) ---------------------------------------------------- */
struct value jinja_arithmetic(struct jinja_run *r, enum token_type op, struct value a, struct value b);
bool         jinja_equal(struct jinja_run *r, struct value a, struct value b);
/* -1, 0, 1; a fault when Python's < would raise. */
int  jinja_order(struct jinja_run *r, struct value a, struct value b, const char *op);
bool jinja_compare(struct jinja_run *r, enum token_type op, struct value a, struct value b);
bool jinja_contains(struct jinja_run *r, struct value container, struct value item);
typedef int (*jinja_order_fn)(struct jinja_run *r, const struct value *a, const struct value *b, void *ctx);
/* Stable. Items are `width` values each, ordered by fn. */
void jinja_sort(struct jinja_run *r, struct value *v, size_t n, size_t width, jinja_order_fn fn, void *ctx);
/* "%s" % v, and str.format. */
struct value jinja_percent(struct jinja_run *r, struct value format, struct value v);
struct value jinja_format(struct jinja_run *r, struct value format, const struct jinja_args *args);

/* --- access (jinja_access.c) ------------------------------------------------------------------------------------- */
struct value jinja_attribute(struct jinja_run *r, struct value object, struct str name); /* a.name */
struct value jinja_item(struct jinja_run *r, struct value object, struct value index);   /* a[index] */
/* In jinja_slice.c; absent or none: not given. */
struct value jinja_slice(struct jinja_run *r, struct value object, struct value from, struct value to,
                         struct value step);
/* a.b.0 by its text, or by an integer index; `fallback` (unless absent or none) instead of undefined. */
struct value jinja_path(struct jinja_run *r, struct value object, struct value path, struct value fallback);
/* The items that iterating v gives, an iterator's rest included (it is used up); NULL is a fault. */
struct list *jinja_items(struct jinja_run *r, struct value v);
struct list *jinja_byte_list(struct jinja_run *r, struct str s); /* of bytes, as integers */
bool         jinja_length(struct value v, size_t *n);            /* len(v); false when it has none */

/* --- calls (jinja_call.c) ---------------------------------------------------------------------------------------- */
struct value jinja_call_row(struct jinja_run *r, const struct jinja_row *row, struct value self,
                            const struct jinja_args *args);
struct value jinja_call_value(struct jinja_run *r, struct value callee, const struct jinja_args *args);
bool         jinja_callable(struct value v);
/* An integer argument, or `fallback` when absent or none; a fault for other types. It is a count, a width or a place, of
 * which the greatest mean the same: clamped so that sums and differences of two stay in 64 bits. */
#define ARG_INT_MAX (INT64_MAX / 4)
int64_t jinja_arg_int(struct jinja_run *r, struct value v, int64_t fallback);
/* A string argument, or `fallback` when absent; a fault for other types. */
struct str jinja_arg_str(struct jinja_run *r, struct value v, struct str fallback);

/* --- evaluation (jinja_eval.c, jinja_exec.c) --------------------------------------------------------------------- */
struct value  jinja_eval(struct jinja_run *r, struct scope *s, const struct node *n);
bool          jinja_eval_args(struct jinja_run *r, struct scope *s, const struct arg *arg, struct jinja_args *out);
struct scope *jinja_scope(struct jinja_run *r, struct scope *outer); /* NULL is a fault */
void          jinja_scope_end(struct jinja_run *r, struct scope *s); /* nothing refers to s but kept scopes */
void          jinja_scope_keep(struct scope *s);
bool          jinja_bind(struct jinja_run *r, struct scope *s, struct str name, struct value v);
struct value  jinja_lookup(struct jinja_run *r, struct scope *s, const struct node *n); /* a NODE_NAME */
void          jinja_write(struct jinja_run *r, struct str s);
enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };
enum flow jinja_exec(struct jinja_run *r, struct scope *s, const struct node *first);
/* Between begin and end, output becomes a string (markup under autoescape). */
struct capture {
    struct buf text, *outer;
};
void         jinja_capture_begin(struct jinja_run *r, struct capture *c);
struct value jinja_capture_end(struct jinja_run *r, struct capture *c);
/* The output of a body. */
struct value jinja_capture(struct jinja_run *r, struct scope *s, const struct node *body, enum flow *flow);
/* Runs a loop over `items`; depth counts recursive loops. */
enum flow    jinja_exec_for(struct jinja_run *r, struct scope *s, const struct node *n, struct value items, int depth);
struct value jinja_call_macro(struct jinja_run *r, struct macro *m, const struct jinja_args *args);

#endif
