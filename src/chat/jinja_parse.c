/* Statements, and jinja_parse. Contracts in jinja.h and jinja_parse.h. */
#include "chat/jinja_parse.h"

#include <stdlib.h>

#include "chat/jinja.h"
#include "chat/jinja_names.h"
#include "chat/jinja_rows.h"

/* The densest source needs some 200 bytes of tokens and tree for one of its own. */
#define TREE_MAX (JINJA_SOURCE_MAX * 256)

#define BLOCKS_MAX 1000

static struct node *parse_body(struct parser *p, const char *const *end);

/* --- targets ----------------------------------------------------------------------------------------------------- */

static void check_target(struct parser *p, const struct node *n, const struct token *at)
{
    if (!n || n->kind == NODE_NAME)
        return;
    if (n->kind == NODE_TUPLE) {
        for (const struct node *item = n->first; item; item = item->next)
            check_target(p, item, at);
        return;
    }
    if (n->kind != NODE_ATTRIBUTE || n->a->kind != NODE_NAME)
        parse_fault(p, at, "can't assign to this expression");
}

static struct node *parse_target(struct parser *p, bool namespaces, const char *end)
{
    const struct token *at = p->t;
    struct node        *n = parse_tuple(p, (struct tuple_rule){.simple = true, .namespaces = namespaces, .end = end});
    check_target(p, n, at);
    return n;
}

/* The target of for and set; inside a for, `loop` cannot be one. */
static struct node *parse_store(struct parser *p, bool namespaces, const char *end)
{
    const struct token *at = p->t;
    struct node        *n = parse_target(p, namespaces, end);
    for (const struct token *t = at; p->fors && t < p->t && !p->status; t++)
        if (t->type == TOKEN_NAME && str_is(t->text, "loop") && t[1].type != TOKEN_DOT &&
            (t == at || t[-1].type != TOKEN_DOT))
            parse_fault(p, t, "Can't assign to special loop variable in for-loop");
    return n;
}

/* A name that may be assigned. */
static struct str parse_store_name(struct parser *p)
{
    static const char *const constants[] = {"true", "True", "false", "False", "none", "None"};
    const struct token      *at = p->t;
    struct str               name;
    parse_name(p, &name);
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (str_is(name, constants[i]))
            parse_fault(p, at, "can't assign to '%s'", constants[i]);
    return name;
}

/* --- statements -------------------------------------------------------------------------------------------------- */

/* What a body that runs as a function of its own (for, macro, call, with, filter and set blocks) changes around it:
 * unknown filters inside cannot be excused by an `if` further out. */
static struct node *parse_inner(struct parser *p, const char *const *end)
{
    const struct node *unknown = p->unknown;
    p->unknown = NULL;
    struct node *body = parse_body(p, end);
    if (p->unknown)
        parse_fault(p, &(struct token){.line = p->unknown->line, .column = p->unknown->column}, "No %s named '%.*s'.",
                    p->unknown->kind == NODE_FILTER ? "filter" : "test", STR_ARG(p->unknown->name));
    p->unknown = unknown;
    return body;
}

#define END(...) ((const char *const[]){__VA_ARGS__, NULL})

static void parse_for(struct parser *p, struct node *n)
{
    p->fors++;
    n->target = parse_store(p, false, "in");
    parse_expect_word(p, "in");
    n->a = parse_tuple(p, (struct tuple_rule){.no_choice = true, .end = "recursive"});
    if (parse_skip_word(p, "if"))
        n->test = parse_expression(p);
    n->recursive = parse_skip_word(p, "recursive");
    p->loops++;
    n->body = parse_inner(p, END("endfor", "else"));
    p->loops--;
    if (parse_skip_word(p, "else"))
        n->otherwise = parse_inner(p, END("endfor"));
    p->fors--;
    parse_expect_word(p, "endfor");
}

static void parse_if(struct parser *p, struct node *n)
{
    const struct node *unknown = p->unknown;
    struct node      **end = &n->first;
    for (bool last = false;;) {
        struct node *branch = parse_node(p, NODE_BRANCH, p->t);
        if (!branch)
            return;
        if (!last)
            branch->test = parse_tuple(p, (struct tuple_rule){.no_choice = true});
        branch->body = parse_body(p, last ? END("endif") : END("elif", "else", "endif"));
        *end = branch;
        end = &branch->next;
        if (last)
            break;
        last = parse_skip_word(p, "else");
        if (!last && !parse_skip_word(p, "elif"))
            break;
    }
    parse_expect_word(p, "endif");
    p->unknown = unknown;
}

static void parse_set(struct parser *p, struct node *n)
{
    n->target = parse_store(p, true, NULL);
    if (parse_skip(p, TOKEN_ASSIGN)) {
        n->a = parse_tuple(p, (struct tuple_rule){0});
        return;
    }
    n->kind = NODE_SET_BLOCK;
    n->a = parse_filter_chain(p, NULL, false);
    n->body = parse_inner(p, END("endset"));
    parse_expect_word(p, "endset");
}

static struct param *parse_signature(struct parser *p)
{
    struct param *first = NULL, **end = &first;
    bool          fallbacks = false;
    parse_expect(p, TOKEN_LPAREN);
    while (!p->status && !parse_at(p, TOKEN_RPAREN)) {
        if (first && !parse_expect(p, TOKEN_COMMA))
            break;
        struct param *q = parse_alloc(p, sizeof *q);
        if (!q)
            break;
        q->name = parse_store_name(p);
        if (parse_skip(p, TOKEN_ASSIGN)) {
            q->fallback = parse_expression(p);
            fallbacks = true;
        } else if (fallbacks)
            parse_fault(p, p->t, "non-default argument follows default argument");
        *end = q;
        end = &q->next;
    }
    parse_expect(p, TOKEN_RPAREN);
    return first;
}

/* The body of a macro or call block: loops around it do not reach in, special names are noted for it and those around.
 */
static void parse_function(struct parser *p, struct node *n, const char *end)
{
    int     loops = p->loops;
    uint8_t uses = p->uses;
    p->loops = 0;
    p->uses = 0;
    n->body = parse_inner(p, END(end));
    n->uses = p->uses;
    p->uses |= uses;
    p->loops = loops;
    parse_expect_word(p, end);
}

static void parse_macro(struct parser *p, struct node *n)
{
    n->name = parse_store_name(p);
    n->params = parse_signature(p);
    parse_function(p, n, "endmacro");
}

static void parse_call_block(struct parser *p, struct node *n)
{
    const struct token *at = p->t;
    if (parse_at(p, TOKEN_LPAREN))
        n->params = parse_signature(p);
    n->a = parse_expression(p);
    if (n->a && n->a->kind != NODE_CALL)
        parse_fault(p, at, "expected call");
    parse_function(p, n, "endcall");
}

static void parse_filter_block(struct parser *p, struct node *n)
{
    n->a = parse_filter_chain(p, NULL, true);
    n->body = parse_inner(p, END("endfilter"));
    parse_expect_word(p, "endfilter");
}

static void parse_with(struct parser *p, struct node *n)
{
    struct param **end = &n->params;
    while (!p->status && !parse_at(p, TOKEN_BLOCK_END)) {
        if (n->params && !parse_expect(p, TOKEN_COMMA))
            break;
        struct param *q = parse_alloc(p, sizeof *q);
        if (!q)
            break;
        q->target = parse_target(p, false, NULL);
        parse_expect(p, TOKEN_ASSIGN);
        q->fallback = parse_expression(p);
        *end = q;
        end = &q->next;
    }
    n->body = parse_inner(p, END("endwith"));
    parse_expect_word(p, "endwith");
}

static void parse_block(struct parser *p, struct node *n)
{
    const struct token *at = p->t;
    int                 loops = p->loops;
    parse_name(p, &n->name);
    for (const struct node *b = p->j->blocks; b; b = b->otherwise)
        if (str_eq(b->name, n->name))
            parse_fault(p, at, "block '%.*s' defined twice", STR_ARG(n->name));
    if (++p->blocks > BLOCKS_MAX)
        parse_fault(p, at, "more than %d blocks", BLOCKS_MAX);
    n->scoped = parse_skip_word(p, "scoped");
    parse_skip_word(p, "required");
    n->otherwise = p->j->blocks;
    p->j->blocks = n;
    p->loops = 0;
    n->body = parse_inner(p, END("endblock"));
    p->loops = loops;
    parse_expect_word(p, "endblock");
    if (parse_at(p, TOKEN_NAME) && str_eq(p->t->text, n->name))
        p->t++;
}

static void parse_autoescape(struct parser *p, struct node *n)
{
    n->a = parse_expression(p);
    n->body = parse_inner(p, END("endautoescape"));
    parse_expect_word(p, "endautoescape");
}

/* Offsets of generated text matter only to training: the body is all. */
static void parse_generation(struct parser *p, struct node *n)
{
    parse_function(p, n, "endgeneration");
}

static void parse_print(struct parser *p, struct node *n)
{
    struct node **end = &n->first;
    while (!p->status && !parse_at(p, TOKEN_BLOCK_END)) {
        if (n->first && !parse_expect(p, TOKEN_COMMA))
            break;
        if ((*end = parse_expression(p)))
            end = &(*end)->next;
    }
}

static void parse_jump(struct parser *p, struct node *n)
{
    if (!p->loops)
        parse_fault(p, p->t, "'%s' outside loop", n->kind == NODE_BREAK ? "break" : "continue");
}

/* Loading fails when it runs, as in an environment without a loader; the words behind the name do not matter. */
static void parse_load(struct parser *p, struct node *n)
{
    n->a = parse_expression(p);
    while (!p->status && !parse_at(p, TOKEN_BLOCK_END) && !parse_at(p, TOKEN_EOF))
        p->t++;
}

static const struct statement {
    const char    *word;
    enum node_kind kind;
    void (*parse)(struct parser *p, struct node *n); /* the cursor is behind the word */
} statements[] = {
    {"if", NODE_IF, parse_if},
    {"for", NODE_FOR, parse_for},
    {"set", NODE_SET, parse_set},
    {"macro", NODE_MACRO, parse_macro},
    {"call", NODE_CALL_BLOCK, parse_call_block},
    {"filter", NODE_FILTER_BLOCK, parse_filter_block},
    {"with", NODE_WITH, parse_with},
    {"block", NODE_BLOCK, parse_block},
    {"autoescape", NODE_AUTOESCAPE, parse_autoescape},
    {"generation", NODE_SCOPE, parse_generation},
    {"print", NODE_OUTPUT, parse_print},
    {"break", NODE_BREAK, parse_jump},
    {"continue", NODE_CONTINUE, parse_jump},
    {"include", NODE_LOAD, parse_load},
    {"import", NODE_LOAD, parse_load},
    {"from", NODE_LOAD, parse_load},
    {"extends", NODE_LOAD, parse_load},
};

/* The cursor is at the tag's word. */
static struct node *parse_statement(struct parser *p)
{
    const struct token *at = p->t;
    struct str          word;
    if (!parse_name(p, &word) || !parse_enter(p))
        return NULL;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!str_is(word, statements[i].word))
            continue;
        struct node *n = parse_node(p, statements[i].kind, at);
        const char  *open = p->open_tag;
        p->open_tag = statements[i].word;
        if (n)
            statements[i].parse(p, n);
        p->open_tag = open;
        parse_leave(p);
        return n;
    }
    parse_fault(p, at, "Encountered unknown tag '%.*s'.%s%s%s", STR_ARG(word),
                p->open_tag ? " The innermost block that needs to be closed is '" : "", p->open_tag ? p->open_tag : "",
                p->open_tag ? "'." : "");
    return NULL;
}

static bool at_end(const struct parser *p, const char *const *end)
{
    for (; end && *end; end++)
        if (parse_at_word(p, *end))
            return true;
    return false;
}

static struct node *parse_output(struct parser *p)
{
    struct node *n = parse_node(p, NODE_OUTPUT, p->t++);
    if (n)
        n->first = parse_tuple(p, (struct tuple_rule){0});
    parse_expect(p, TOKEN_VARIABLE_END);
    return n;
}

static struct node *parse_text(struct parser *p)
{
    const struct token *at = p->t++;
    struct node        *n = parse_node(p, NODE_TEXT, at);
    if (n)
        n->name = at->text;
    return n;
}

/* The rest of the opening tag (its end mark) and statements up to a tag whose word is in `end`, where the cursor stops;
 * up to the end of the template when `end` is NULL. */
static struct node *parse_body(struct parser *p, const char *const *end)
{
    struct node *first = NULL, **tail = &first;
    if (end) {
        parse_skip(p, TOKEN_COLON);
        parse_expect(p, TOKEN_BLOCK_END);
    }
    while (!p->status && !parse_at(p, TOKEN_EOF)) {
        if (parse_at(p, TOKEN_TEXT))
            *tail = parse_text(p);
        else if (parse_at(p, TOKEN_VARIABLE_BEGIN))
            *tail = parse_output(p);
        else {
            p->t++;
            if (at_end(p, end))
                return first;
            *tail = parse_statement(p);
            parse_expect(p, TOKEN_BLOCK_END);
        }
        if (*tail)
            tail = &(*tail)->next;
    }
    if (end)
        parse_fault(p, p->t, "Unexpected end of template. The innermost block that needs to be closed is '%s'.",
                    p->open_tag ? p->open_tag : "");
    return first;
}

int jinja_parse(struct jinja **out, struct str source, const char *name, struct error *e)
{
    struct token *tokens;
    struct jinja *j;
    int           rc;
    if (source.n > JINJA_SOURCE_MAX)
        return error_set(e, ERR_LIMIT, NULL, "%s: %zu bytes, the limit of a template is %zu", name, source.n,
                         JINJA_SOURCE_MAX);
    if (!(j = calloc(1, sizeof *j)))
        return error_nomem(e, name);
    arena_init(&j->arena, TREE_MAX);
    j->source = (struct str){arena_strdup(&j->arena, source.p, source.n), source.n};
    if (!j->source.p || !(j->name = arena_strdup(&j->arena, name, strlen(name))))
        rc = error_nomem(e, name);
    else if (!(rc = jinja_lex(&j->arena, source, j->name, &tokens, e))) {
        struct parser p = {.j = j, .t = tokens, .e = e};
        j->body = parse_inner(&p, NULL);
        rc = p.status;
        if (!rc && !jinja_hide_names(&j->arena, j->body))
            rc = error_nomem(e, name);
    }
    if (rc) {
        jinja_free(j);
        return rc;
    }
    *out = j;
    return 0;
}

bool jinja_mentions(const struct jinja *j, struct str text)
{
    return memmem(j->source.p, j->source.n, text.p, text.n) != NULL;
}

void jinja_free(struct jinja *j)
{
    if (!j)
        return;
    arena_deinit(&j->arena);
    free(j);
}
