/* Between the parts of the parser: its state (jinja_parser.c), statements (jinja_parse.c), operators
 * (jinja_parse_expr.c) and operands (jinja_parse_operand.c).
 *
 * They are recursive descent over the token array. A fault is sticky: p->status is set once, the cursor moves to the
 * end of the tokens, and every function may return NULL; loops end there by themselves.
 */
#ifndef MLXCEL_CHAT_JINJA_PARSE_H
#define MLXCEL_CHAT_JINJA_PARSE_H

#include "base/error.h"
#include "chat/jinja_ast.h"
#include "chat/jinja_lex.h"

#define PARSE_DEPTH_MAX 200

struct parser {
    struct jinja       *j;
    const struct token *t; /* the current token */
    struct error       *e;
    int                 status;
    int                 depth;
    int                 blocks;   /* so far */
    int                 loops;    /* loops around the current statement, within this macro */
    int                 fors;     /* the same, also around the macro */
    uint8_t             uses;     /* enum macro_uses seen since the macro began */
    const struct node  *unknown;  /* the first filter or test without a row that is not excused by an `if` */
    const char         *open_tag; /* of the innermost open statement, for messages */
};

int  parse_fault(struct parser *p, const struct token *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void parse_fault_memory(struct parser *p);
struct node *parse_node(struct parser *p, enum node_kind kind, const struct token *at);
/* A node with the operands a and b. */
struct node *parse_pair(struct parser *p, enum node_kind kind, const struct token *at, struct node *a, struct node *b);
/* Appends to a sequence, n not being NULL, and moves its end. */
void  parse_append(struct node ***end, struct node *n);
void *parse_alloc(struct parser *p, size_t size); /* zeroed; NULL sets the fault */
bool  parse_enter(struct parser *p);              /* one level deeper; false at the limit */
void  parse_leave(struct parser *p);

/* Whether jinja2 folds n (NULL: yes), and marking a NODE_BINARY: see jinja_fold.c. */
bool jinja_constant(const struct node *n);
void jinja_mark_binary(struct node *n);

bool parse_at(const struct parser *p, enum token_type type);
bool parse_at_word(const struct parser *p, const char *word);
bool parse_skip(struct parser *p, enum token_type type);
bool parse_skip_word(struct parser *p, const char *word);
bool parse_expect(struct parser *p, enum token_type type);
bool parse_expect_word(struct parser *p, const char *word);
bool parse_name(struct parser *p, struct str *name);

/* Which forms a tuple may take where it stands. */
struct tuple_rule {
    bool        simple;     /* only names and literals: an assignment target */
    bool        no_choice;  /* `if` does not belong to the expression */
    bool        parens;     /* in parentheses: may be empty */
    bool        namespaces; /* NAME.ATTR may be assigned */
    const char *end;        /* a word that ends the tuple, or NULL */
};
struct node *parse_tuple(struct parser *p, struct tuple_rule rule);
struct node *parse_expression(struct parser *p);
/* The same; no_choice: an `if` behind it does not belong to it. */
struct node *parse_choice(struct parser *p, bool no_choice);
/* A sign or an operand with all that is behind it; without filters and tests for what a sign applies to. */
struct node *parse_unary(struct parser *p, bool with_filter);
struct node *parse_primary(struct parser *p, bool namespaces);
/* "|f|g" or, when `bare`, "f|g": a chain whose innermost filter applies to `object` (NULL: a block's text). */
struct node *parse_filter_chain(struct parser *p, struct node *object, bool bare);

#endif
