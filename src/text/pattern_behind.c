/* Look-behinds. Oniguruma's may match anything that ends at the place, PCRE2's must have one length an alternative. All
 * that counts is whether a match exists, so what may be repeated at the very beginning need only be there as often as it
 * must, and the rest is written as alternatives of one length each. Contracts in pattern_int.h. */
#include "base/num.h"
#include "text/pattern_int.h"

#define WAYS_MAX 256u
#define LENGTH_MAX 65535u

static uint32_t add(uint32_t a, uint32_t b)
{
    return a == PATTERN_UNBOUNDED || b == PATTERN_UNBOUNDED ? PATTERN_UNBOUNDED
                                                            : (uint32_t)MIN((uint64_t)a + b, PATTERN_UNBOUNDED);
}

static uint32_t times(uint32_t a, uint32_t n)
{
    if (!a || !n)
        return 0;
    if (a == PATTERN_UNBOUNDED || n == PATTERN_UNBOUNDED)
        return PATTERN_UNBOUNDED;
    return (uint32_t)MIN((uint64_t)a * n, PATTERN_UNBOUNDED);
}

/* Sums and products of ways: 0 is "cannot be cut" and stays. */
static uint32_t ways_and(uint32_t a, uint32_t b)
{
    uint64_t n = (uint64_t)a * b;
    return n > WAYS_MAX ? 0 : (uint32_t)n;
}

static uint32_t ways_or(uint32_t a, uint32_t b)
{
    return !a || !b || a + b > WAYS_MAX ? 0 : a + b;
}

static bool one_length(const struct node *n)
{
    return n->shortest == n->longest;
}

/* The ways of n repetitions of what has w of them. */
static uint32_t power(uint32_t w, uint32_t n)
{
    uint32_t out = 1;
    while (w != 1 && n-- > 0 && out)
        out = ways_and(out, w);
    return out;
}

static void measure_repeat(struct node *n)
{
    const struct node *c = n->child;
    n->shortest = times(c->shortest, n->min);
    n->longest = times(c->longest, n->max);
    n->ways = 0;
    if (n->manner == POSSESSIVE || n->max == PATTERN_UNBOUNDED || n->max > WAYS_MAX + n->min)
        return;
    n->ways = power(c->ways, n->min);
    for (uint32_t k = n->min + 1; k <= n->max && n->ways; k++)
        n->ways = ways_or(n->ways, power(c->ways, k));
}

static void measure_children(struct reader *r, struct node *n)
{
    bool choice = n->kind == NODE_CHOICE;
    n->shortest = choice ? PATTERN_UNBOUNDED : 0;
    n->ways = choice ? 0 : 1;
    for (struct node *c = n->child; c; c = c->next) {
        pattern_measure(r, c);
        n->shortest = choice ? MIN(n->shortest, c->shortest) : add(n->shortest, c->shortest);
        n->longest = choice ? MAX(n->longest, c->longest) : add(n->longest, c->longest);
        if (!choice)
            n->ways = ways_and(n->ways, c->ways);
        else
            n->ways = c == n->child ? c->ways : ways_or(n->ways, c->ways);
    }
}

/* What is repeated at the beginning of a look-behind, as often as it must. True when n can only be empty then, so that
 * what follows is at the beginning, too. */
static bool trim(struct node *n)
{
    switch (n->kind) {
    case NODE_REPEAT:
        if (n->manner != POSSESSIVE)
            n->max = n->min;
        return !n->max;
    case NODE_LIST:
        for (struct node *c = n->child; c; c = c->next)
            if (!trim(c))
                return false;
        return true;
    case NODE_CHOICE:
        for (struct node *c = n->child; c; c = c->next)
            trim(c);
        return false;
    case NODE_GROUP:
        trim(n->child);
        return false;
    default:
        return false;
    }
}

void pattern_measure(struct reader *r, struct node *n)
{
    switch (n->kind) {
    case NODE_LOOK:
        if (n->behind)
            trim(n->child);
        pattern_measure(r, n->child);
        n->ways = 1;
        return;
    case NODE_ASSERT:
        n->ways = 1;
        return;
    case NODE_CHAR:
    case NODE_SET:
        n->shortest = n->longest = n->ways = 1;
        return;
    case NODE_TEXT:
    case NODE_BACK:
        n->shortest = 0;
        n->longest = PATTERN_UNBOUNDED;
        return;
    case NODE_REPEAT:
        pattern_measure(r, n->child);
        measure_repeat(n);
        break;
    case NODE_LIST:
    case NODE_CHOICE:
        measure_children(r, n);
        break;
    case NODE_GROUP:
    case NODE_ATOMIC:
        pattern_measure(r, n->child);
        n->shortest = n->child->shortest;
        n->longest = n->child->longest;
        n->ways = n->kind == NODE_GROUP && !r->wanted[n->group] ? n->child->ways : 0;
        break;
    }
    if (one_length(n))
        n->ways = 1;
}

static void write_way(struct reader *r, const struct node *n, uint32_t way);

static void write_repeated(struct reader *r, const struct node *n, uint32_t way)
{
    buf_puts(&r->out->structure, "(?:");
    write_way(r, n, way);
    buf_putc(&r->out->structure, ')');
}

static void write_repeats(struct reader *r, const struct node *n, uint32_t way)
{
    uint32_t k = n->min, w = n->child->ways;
    for (uint32_t here; way >= (here = power(w, k)); k++)
        way -= here;
    if (w <= 1) { /* the same every time; what has no ways is not written at all */
        write_repeated(r, n->child, 0);
        buf_printf(&r->out->structure, "{%u}", k);
        return;
    }
    for (uint32_t i = 0; i < k && pattern_writable(r); i++, way /= w)
        write_repeated(r, n->child, way % w);
}

/* The way of that number, which has one length. */
static void write_way(struct reader *r, const struct node *n, uint32_t way)
{
    const struct node *c = n->child;
    if (one_length(n)) {
        pattern_write_node(r, n, true);
        return;
    }
    switch (n->kind) {
    case NODE_LIST:
        for (; c && pattern_writable(r); way /= c->ways, c = c->next)
            write_way(r, c, way % c->ways);
        break;
    case NODE_CHOICE:
        for (; way >= c->ways; c = c->next)
            way -= c->ways;
        write_way(r, c, way);
        break;
    case NODE_REPEAT:
        write_repeats(r, n, way);
        break;
    default:
        write_way(r, c, way);
        break;
    }
}

void pattern_write_behind(struct reader *r, const struct node *look)
{
    const struct node *n = look->child;
    if (!n->ways || n->longest > LENGTH_MAX) {
        pattern_unsupported(r, n->longest == PATTERN_UNBOUNDED ? "a look-behind of unbounded length"
                                                               : "a look-behind of too many lengths, or an atomic one");
        return;
    }
    buf_puts(&r->out->structure, look->text);
    for (uint32_t way = 0; way < n->ways && pattern_writable(r); way++) {
        if (way)
            buf_putc(&r->out->structure, '|');
        write_way(r, n, way);
    }
    buf_putc(&r->out->structure, ')');
}
