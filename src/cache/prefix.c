/* A short list searched from front to back: with at most 64 entries a comparison of tokens costs less than any index. */
#include "cache/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

void prefix_init(struct prefix_cache *c, struct page_pool *pool)
{
    memset(c, 0, sizeof *c);
    c->pool = pool;
}

static void drop(struct prefix_cache *c, int i)
{
    page_table_deinit(&c->v[i].pages, c->pool);
    free(c->v[i].tokens);
    c->v[i] = c->v[--c->n];
}

void prefix_deinit(struct prefix_cache *c)
{
    while (c->n)
        drop(c, c->n - 1);
}

static bool same_key(const struct prefix_entry *x, struct prefix_key key)
{
    return x->key.v[0] == key.v[0] && x->key.v[1] == key.v[1];
}

static int64_t common(const struct prefix_entry *x, const int32_t *tokens, int64_t n)
{
    int64_t i = 0, most = MIN(n, x->n);
    while (i < most && x->tokens[i] == tokens[i])
        i++;
    return i;
}

bool prefix_evict(struct prefix_cache *c)
{
    int oldest = 0;
    if (!c->n)
        return false;
    for (int i = 1; i < c->n; i++)
        if (c->v[i].last_use < c->v[oldest].last_use)
            oldest = i;
    drop(c, oldest);
    return true;
}

/* The entry with the longest common beginning, NULL on a miss. */
static struct prefix_entry *longest(struct prefix_cache *c, struct prefix_key key, const int32_t *tokens, int64_t n,
                                    int64_t *length)
{
    struct prefix_entry *best = NULL;
    *length = 0;
    for (int i = 0; i < c->n; i++) {
        int64_t k = same_key(&c->v[i], key) ? common(&c->v[i], tokens, n) : 0;
        if (k > *length) {
            *length = k;
            best = &c->v[i];
        }
    }
    return best;
}

int64_t prefix_lookup(struct prefix_cache *c, struct prefix_key key, const int32_t *tokens, int64_t n,
                      struct page_table *t)
{
    int64_t              length;
    struct prefix_entry *best = longest(c, key, tokens, n, &length);
    if (!best)
        return 0;
    best->last_use = ++c->clock;
    while (length % page_pool_tokens(c->pool) && !page_pool_available(c->pool) && c->n > 1)
        prefix_evict(c); /* a page for the copy; never the entry just used */
    best = longest(c, key, tokens, n, &length);
    if (page_table_fork(t, c->pool, &best->pages, length, NULL)) /* no page for the copy: the whole ones only */
        length = (int64_t)t->n * page_pool_tokens(c->pool);
    return length;
}

/* Whether one of entry x and tokens is a beginning of the other: the longer makes it needless. */
static bool covered(const struct prefix_entry *x, struct prefix_key key, const int32_t *tokens, int64_t n)
{
    return same_key(x, key) && common(x, tokens, n) == MIN(x->n, n);
}

void prefix_store(struct prefix_cache *c, struct prefix_key key, const int32_t *tokens, int64_t n, struct page_table *t)
{
    size_t bytes;
    for (int i = 0; i < c->n; i++)
        if (c->v[i].n > n && covered(&c->v[i], key, tokens, n)) {
            c->v[i].last_use = ++c->clock;
            page_table_deinit(t, c->pool);
            return;
        }
    int32_t *copy = n > 0 && num_mul((size_t)n, sizeof *copy, &bytes) ? malloc(bytes) : NULL;
    if (!copy) {
        page_table_deinit(t, c->pool);
        return;
    }
    memcpy(copy, tokens, bytes);
    for (int i = c->n - 1; i >= 0; i--)
        if (covered(&c->v[i], key, tokens, n))
            drop(c, i);
    if (c->n == PREFIX_ENTRIES_MAX)
        prefix_evict(c);
    c->v[c->n++] = (struct prefix_entry){.key = key, .tokens = copy, .n = n, .pages = *t, .last_use = ++c->clock};
    memset(t, 0, sizeof *t);
}
