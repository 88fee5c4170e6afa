/* The tree is grown from the sorted texts: those that begin alike are a range of them. Contracts in trie.h. */
#include "text/trie.h"

#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"

struct key {
    struct str text;
    int32_t    id;
};

/* By text, equal ones by id. */
static int by_text(const void *x, const void *y)
{
    const struct key *a = x, *b = y;
    int               c = memcmp(a->text.p, b->text.p, MIN(a->text.n, b->text.n));
    if (!c)
        c = (a->text.n > b->text.n) - (a->text.n < b->text.n);
    return c ? c : (a->id > b->id) - (a->id < b->id);
}

/* Keys [lo, hi) begin alike, with the bytes that lead to a node. */
struct range {
    uint32_t lo, hi;
};

struct growing {
    struct trie  *t;
    struct key   *keys;
    size_t        n_keys;
    struct range *ranges; /* by node */
    size_t        ranges_cap;
};

static bool add_node(struct growing *g, uint8_t byte, uint32_t lo, uint32_t hi)
{
    struct trie      *t = g->t;
    struct trie_node *v = vec_room(t->v, t->n, &t->cap, sizeof *v);
    if (v)
        t->v = v;
    struct range *r = vec_room(g->ranges, t->n, &g->ranges_cap, sizeof *r);
    if (r)
        g->ranges = r;
    if (!v || !r)
        return false;
    t->v[t->n] = (struct trie_node){.byte = byte, .id = -1};
    g->ranges[t->n++] = (struct range){lo, hi};
    return true;
}

/* Gives node `at`, `depth` bytes below the root, its id and its children. */
static bool spread(struct growing *g, size_t at, size_t depth)
{
    struct range r = g->ranges[at];
    for (; r.lo < r.hi && g->keys[r.lo].text.n == depth; r.lo++)
        g->t->v[at].id = g->keys[r.lo].id;
    g->t->v[at].first = (uint32_t)g->t->n;
    for (uint32_t end; r.lo < r.hi; r.lo = end) {
        char byte = g->keys[r.lo].text.p[depth];
        for (end = r.lo + 1; end < r.hi && g->keys[end].text.p[depth] == byte;)
            end++;
        if (!add_node(g, (uint8_t)byte, r.lo, end))
            return false;
        g->t->v[at].n++;
    }
    return true;
}

/* Level by level, so that the children of a node stand side by side. */
static bool grow(struct growing *g)
{
    struct trie *t = g->t;
    bool         ok = add_node(g, 0, 0, (uint32_t)g->n_keys);
    for (size_t at = 0, depth = 0; ok && at < t->n; depth++)
        for (size_t level_end = t->n; ok && at < level_end; at++)
            ok = spread(g, at, depth);
    return ok;
}

/* Returns the bytes of all texts. */
static size_t collect(struct growing *g, const struct vocab *vocab)
{
    size_t total = 0;
    for (size_t id = 0; id < vocab->size; id++)
        if (vocab_has(vocab, (int64_t)id))
            g->keys[g->n_keys++] = (struct key){vocab_text(vocab, (int64_t)id), (int32_t)id};
    for (size_t i = 0; i < vocab->n_aliases; i++)
        g->keys[g->n_keys++] = (struct key){vocab_alias_text(vocab, &vocab->aliases[i]), vocab->aliases[i].id};
    for (size_t i = 0; i < g->n_keys; i++)
        total += g->keys[i].text.n;
    return total;
}

int trie_index(struct trie *t, const struct vocab *vocab, struct error *e)
{
    struct growing g = {.t = t};
    int            status = 0;
    trie_deinit(t);
    if (!(g.keys = malloc((vocab->count + 1) * sizeof *g.keys)))
        return error_nomem(e, "a tokenizer");
    size_t total = collect(&g, vocab);
    if (vocab->longest > TRIE_TEXT_MAX)
        status = error_set(e, ERR_LIMIT, "vocab", "\"vocab\" has a token of %zu bytes; the limit is %d", vocab->longest,
                           TRIE_TEXT_MAX);
    else if (total > TRIE_TEXTS_MAX)
        status = error_set(e, ERR_LIMIT, "vocab", "the tokens of \"vocab\" take %zu bytes; the limit is %zu", total,
                           TRIE_TEXTS_MAX);
    else {
        qsort(g.keys, g.n_keys, sizeof *g.keys, by_text);
        if (!grow(&g))
            status = error_nomem(e, "a tokenizer");
    }
    free(g.keys);
    free(g.ranges);
    return status;
}

void trie_deinit(struct trie *t)
{
    free(t->v);
    *t = (struct trie){0};
}
