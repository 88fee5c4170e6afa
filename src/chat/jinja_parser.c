/* The parser's state: the cursor, faults, nodes. Contracts in jinja_parse.h. */
#include <stdarg.h>
#include <stdio.h>

#include "chat/jinja_parse.h"

static void stop(struct parser *p, int status)
{
    p->status = status;
    while (p->t->type != TOKEN_EOF)
        p->t++;
}

int parse_fault(struct parser *p, const struct token *at, const char *fmt, ...)
{
    char    why[512];
    va_list ap;
    if (p->status)
        return p->status;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    stop(p,
         error_set(p->e, ERR_FORMAT, NULL, "%s:%u:%u: %s", p->j->name, (unsigned)at->line, (unsigned)at->column, why));
    return p->status;
}

void parse_fault_memory(struct parser *p)
{
    stop(p, error_nomem(p->e, p->j->name));
}

void *parse_alloc(struct parser *p, size_t size)
{
    void *v = p->status ? NULL : arena_calloc(&p->j->arena, 1, size);
    if (!v && !p->status)
        parse_fault_memory(p);
    return v;
}

struct node *parse_node(struct parser *p, enum node_kind kind, const struct token *at)
{
    struct node *n = parse_alloc(p, sizeof *n);
    if (n) {
        n->kind = (uint8_t)kind;
        n->line = at->line;
        n->column = at->column;
    }
    return n;
}

bool parse_enter(struct parser *p)
{
    if (p->status)
        return false;
    if (p->depth == PARSE_DEPTH_MAX) {
        stop(p, error_set(p->e, ERR_LIMIT, NULL, "%s:%u:%u: nested deeper than the limit of %d levels", p->j->name,
                          (unsigned)p->t->line, (unsigned)p->t->column, PARSE_DEPTH_MAX));
        return false;
    }
    p->depth++;
    return true;
}

void parse_leave(struct parser *p)
{
    p->depth--;
}

bool parse_at(const struct parser *p, enum token_type type)
{
    return p->t->type == type;
}

bool parse_at_word(const struct parser *p, const char *word)
{
    return p->t->type == TOKEN_NAME && str_is(p->t->text, word);
}

bool parse_skip(struct parser *p, enum token_type type)
{
    bool yes = parse_at(p, type) && type != TOKEN_EOF;
    p->t += yes;
    return yes;
}

bool parse_skip_word(struct parser *p, const char *word)
{
    bool yes = parse_at_word(p, word);
    p->t += yes;
    return yes;
}

bool parse_expect(struct parser *p, enum token_type type)
{
    struct token wanted = {.type = type};
    if (parse_skip(p, type))
        return true;
    parse_fault(p, p->t, "expected '%s', got '%s'", jinja_token_name(&wanted), jinja_token_name(p->t));
    return false;
}

bool parse_name(struct parser *p, struct str *name)
{
    *name = p->t->text;
    return parse_expect(p, TOKEN_NAME);
}

bool parse_expect_word(struct parser *p, const char *word)
{
    if (parse_skip_word(p, word))
        return true;
    parse_fault(p, p->t, "expected '%s', got '%s'", word, jinja_token_name(p->t));
    return false;
}

struct node *parse_pair(struct parser *p, enum node_kind kind, const struct token *at, struct node *a, struct node *b)
{
    struct node *n = parse_node(p, kind, at);
    if (n) {
        n->a = a;
        n->b = b;
    }
    return n;
}

void parse_append(struct node ***end, struct node *n)
{
    if (n) {
        **end = n;
        *end = &n->next;
    }
}
