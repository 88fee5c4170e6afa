/* A pattern's tree, written in PCRE2's syntax with marks for the sets. Contracts in pattern_int.h. */
#include "base/num.h"
#include "text/casefold.h"
#include "text/pattern_int.h"

#define WRITTEN_MAX 262144u /* nodes; one in look-behinds in look-behinds is written for every way of all of them */

static void put_set(struct reader *r, struct charset *s)
{
    size_t number;
    if (pattern_put_set(r, s, &number))
        buf_printf(&r->out->structure, "%c%zu;", PATTERN_SET_MARK, number);
}

static void put_char(struct reader *r, uint32_t cp, bool fold)
{
    struct charset s = {0};
    charset_add(&s, cp, cp);
    if (fold)
        charset_fold(&s);
    put_set(r, &s);
}

/* A string or any character that equals it. */
static void put_string(struct reader *r, const struct fold_string *f)
{
    struct buf    *out = &r->out->structure;
    struct charset s = {0};
    buf_puts(out, "(?:");
    for (int i = 0; i < f->n; i++)
        put_char(r, f->text[i], true);
    buf_putc(out, '|');
    for (int i = 0; i < FOLD_CHARS_MAX && f->chars[i]; i++)
        charset_add(&s, f->chars[i], f->chars[i]);
    put_set(r, &s);
    buf_putc(out, ')');
}

/* Characters in any letter case, from n on; Oniguruma parts them into the longest strings from left to right that equal
 * one character. In a look-behind only single characters equal one another. Returns the first node that is not written. */
static const struct node *put_folded(struct reader *r, const struct node *n, bool behind)
{
    const struct node        *c = n;
    const struct fold_string *f;
    uint32_t                  cp[FOLD_TEXT_MAX];
    int                       k = 0;
    for (; c && c->kind == NODE_CHAR && c->fold && k < FOLD_TEXT_MAX; c = c->next)
        cp[k++] = c->cp;
    if (behind) {
        struct charset s = {0};
        charset_add(&s, n->cp, n->cp);
        charset_fold(&s);
        charset_fold_strings(&s);
        put_set(r, &s);
        return n->next;
    }
    if ((f = fold_string_at(cp, k)) != NULL) {
        put_string(r, f);
        for (k = f->n; k > 0; k--)
            n = n->next;
        return n;
    }
    if ((f = fold_string_of(n->cp)) != NULL)
        put_string(r, f);
    else
        put_char(r, n->cp, true);
    return n->next;
}

static void put_list(struct reader *r, const struct node *list, bool behind)
{
    for (const struct node *n = list->child; n;) {
        if (n->kind == NODE_CHAR && n->fold) {
            n = put_folded(r, n, behind);
            continue;
        }
        pattern_write_node(r, n, behind);
        n = n->next;
    }
}

static void put_choice(struct reader *r, const struct node *choice, bool behind)
{
    for (const struct node *n = choice->child; n; n = n->next) {
        if (n != choice->child)
            buf_putc(&r->out->structure, '|');
        pattern_write_node(r, n, behind);
    }
}

/* A group's content: what stands alone between its parentheses. */
static void put_body(struct reader *r, const struct node *n, const char *opening, bool behind)
{
    buf_puts(&r->out->structure, opening);
    if (n->kind == NODE_CHOICE)
        put_choice(r, n, behind);
    else
        pattern_write_node(r, n, behind);
    buf_putc(&r->out->structure, ')');
}

static void put_repeat(struct reader *r, const struct node *n, bool behind)
{
    static const char *const manners[] = {[GREEDY] = "", [LAZY] = "?", [POSSESSIVE] = "+"};
    struct buf              *out = &r->out->structure;
    if (behind && !n->max) /* whose length PCRE2 would look at */
        return;
    put_body(r, n->child, "(?:", behind);
    if (n->min == 0 && n->max == 1)
        buf_putc(out, '?');
    else if (n->min < 2 && n->max == PATTERN_UNBOUNDED)
        buf_putc(out, n->min ? '+' : '*');
    else if (n->max == PATTERN_UNBOUNDED)
        buf_printf(out, "{%u,}", n->min);
    else
        buf_printf(out, "{%u,%u}", n->min, n->max);
    buf_puts(out, manners[n->manner]);
    r->out->atomic |= n->manner == POSSESSIVE && n->max != 1 && n->max != PATTERN_UNBOUNDED;
}

/* References: PCRE2 numbers only the groups that are written as capturing. */
static void put_back(struct reader *r, const struct node *n)
{
    bool several = n->n_refs > 1;
    r->out->atomic |= several;
    buf_puts(&r->out->structure, several ? "(?>" : "(?:");
    for (unsigned i = 0; i < n->n_refs; i++) {
        unsigned number = 0;
        for (unsigned g = 1; g <= n->refs[i]; g++)
            number += r->wanted[g];
        buf_printf(&r->out->structure, "%s\\g{%u}", i ? "|" : "", number);
    }
    buf_putc(&r->out->structure, ')');
}

bool pattern_writable(const struct reader *r)
{
    return !r->status && !r->out->structure.failed;
}

void pattern_write_node(struct reader *r, const struct node *n, bool behind)
{
    struct buf *out = &r->out->structure;
    if (!pattern_writable(r))
        return;
    if (++r->n_written > WRITTEN_MAX) {
        pattern_refuse(r, ERR_LIMIT, "is too complex");
        return;
    }
    switch (n->kind) {
    case NODE_CHAR:
        if (n->fold)
            put_folded(r, &(struct node){.kind = NODE_CHAR, .cp = n->cp, .fold = true}, behind);
        else
            put_char(r, n->cp, false);
        break;
    case NODE_SET:
        buf_printf(out, "%c%zu;", PATTERN_SET_MARK, n->set);
        break;
    case NODE_ASSERT:
    case NODE_TEXT:
        buf_puts(out, n->text);
        r->out->atomic |= n->kind == NODE_TEXT;
        break;
    case NODE_LIST:
        put_list(r, n, behind);
        break;
    case NODE_CHOICE:
        put_body(r, n, "(?:", behind);
        break;
    case NODE_REPEAT:
        put_repeat(r, n, behind);
        break;
    case NODE_GROUP:
        put_body(r, n->child, r->wanted[n->group] ? "(" : "(?:", behind);
        break;
    case NODE_ATOMIC:
        r->out->atomic = true;
        put_body(r, n->child, "(?>", behind);
        break;
    case NODE_LOOK:
        if (n->behind)
            pattern_write_behind(r, n);
        else
            put_body(r, n->child, n->text, behind);
        break;
    case NODE_BACK:
        put_back(r, n);
        break;
    }
}

void pattern_write(struct reader *r, struct node *tree)
{
    pattern_measure(r, tree);
    if (tree->kind == NODE_CHOICE)
        put_choice(r, tree, false);
    else
        pattern_write_node(r, tree, false);
}
