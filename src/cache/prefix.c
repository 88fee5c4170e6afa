/* A short list searched from front to back: with at most 64 entries a comparison of tokens costs less than any index. */
#include "cache/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

void prefix_init(struct prefix_cache *c, struct page_pool *pool, struct page_pool *states)
{
    memset(c, 0, sizeof *c);
    c->pool = pool;
    c->states = states;
}

static void drop_snapshot(struct prefix_cache *c, struct prefix_entry *x, int i)
{
    page_unref(c->states, x->snapshots[i].state);
    x->snapshots[i] = x->snapshots[--x->n_snapshot];
}

static void drop(struct prefix_cache *c, int i)
{
    while (c->v[i].n_snapshot)
        drop_snapshot(c, &c->v[i], 0);
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
    return x->key.v[0] == key.v[0] && x->key.v[1] == key.v[1] && x->key.length == key.length;
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

/* Of an entry's snapshots: the one used longest ago; -1 when there is none. */
static int oldest_snapshot(const struct prefix_entry *x)
{
    int oldest = x->n_snapshot - 1;
    for (int i = 0; i < x->n_snapshot; i++)
        if (x->snapshots[i].last_use < x->snapshots[oldest].last_use)
            oldest = i;
    return oldest;
}

static bool evict_snapshot(struct prefix_cache *c)
{
    int      entry = -1, snapshot = -1;
    uint64_t use = UINT64_MAX;
    for (int i = 0; i < c->n; i++) {
        int k = oldest_snapshot(&c->v[i]);
        if (k >= 0 && c->v[i].snapshots[k].last_use < use) {
            entry = i;
            snapshot = k;
            use = c->v[i].snapshots[k].last_use;
        }
    }
    if (entry < 0)
        return false;
    drop_snapshot(c, &c->v[entry], snapshot);
    if (!c->v[entry].n_snapshot)
        drop(c, entry); /* nothing can resume it */
    return true;
}

void *prefix_take_state(struct prefix_cache *c)
{
    void *state;
    do
        state = page_take(c->states);
    while (!state && evict_snapshot(c));
    return state;
}

/* The last snapshot of an entry within its first n tokens; NULL when there is none. */
static struct snapshot *snapshot_within(struct prefix_entry *x, int64_t n)
{
    struct snapshot *best = NULL;
    for (int i = 0; i < x->n_snapshot; i++)
        if (x->snapshots[i].n <= n && (!best || x->snapshots[i].n > best->n))
            best = &x->snapshots[i];
    return best;
}

/* Where a prompt goes on. */
struct resume {
    struct prefix_entry *entry; /* NULL: nowhere */
    struct snapshot     *snapshot;
    int64_t              n;
};

/* The longest beginning that can be resumed. */
static struct resume find(struct prefix_cache *c, struct prefix_key key, const int32_t *tokens, int64_t n,
                          int64_t *shared)
{
    struct resume best = {0};
    *shared = 0;
    for (int i = 0; i < c->n; i++) {
        struct prefix_entry *x = &c->v[i];
        int64_t              k = same_key(x, key) ? common(x, tokens, n) : 0;
        struct snapshot     *snapshot = c->states ? snapshot_within(x, k) : NULL;
        *shared = MAX(*shared, k);
        if (c->states)
            k = snapshot ? snapshot->n : 0;
        if (k > best.n)
            best = (struct resume){x, snapshot, k};
    }
    return best;
}

int64_t prefix_lookup(struct prefix_cache *c, struct prefix_key key, const int32_t *tokens, int64_t n,
                      struct page_table *t, void *state, int64_t *shared)
{
    int64_t       common_n;
    struct resume at = find(c, key, tokens, n, &common_n);
    if (shared)
        *shared = common_n;
    if (!at.entry)
        return 0;
    at.entry->last_use = ++c->clock;
    if (at.snapshot)
        at.snapshot->last_use = c->clock;
    while (at.n % page_pool_tokens(c->pool) && !page_pool_available(c->pool) && c->n > 1)
        prefix_evict(c); /* a page for the copy; never the entry just used */
    at = find(c, key, tokens, n, &common_n);
    if (!page_table_fork(t, c->pool, &at.entry->pages, at.n, NULL)) {
        if (at.snapshot)
            memcpy(state, at.snapshot->state, page_pool_bytes(c->states));
        return at.n;
    }
    if (c->states) { /* the state is that behind the page for which there is no copy */
        page_table_deinit(t, c->pool);
        return 0;
    }
    return (int64_t)t->n * page_pool_tokens(c->pool); /* the whole pages only */
}

/* Whether one of entry x and tokens is a beginning of the other: the longer makes it needless. */
static bool covered(const struct prefix_entry *x, struct prefix_key key, const int32_t *tokens, int64_t n)
{
    return same_key(x, key) && common(x, tokens, n) == MIN(x->n, n);
}

/* Gives a snapshot to an entry. It goes back when there is one at its place; of too many, the one used longest ago goes. */
static void add_snapshot(struct prefix_cache *c, struct prefix_entry *x, const struct snapshot *s)
{
    struct snapshot gone = *s;
    int             i = 0;
    while (i < x->n_snapshot && x->snapshots[i].n != s->n)
        i++;
    if (i < x->n_snapshot)
        x->snapshots[i].last_use = MAX(x->snapshots[i].last_use, s->last_use);
    else if (x->n_snapshot < PREFIX_SNAPSHOTS_MAX) {
        x->snapshots[x->n_snapshot++] = *s;
        return;
    } else if (x->snapshots[i = oldest_snapshot(x)].last_use < s->last_use) {
        gone = x->snapshots[i];
        x->snapshots[i] = *s;
    }
    page_unref(c->states, gone.state);
}

static void add_snapshots(struct prefix_cache *c, struct prefix_entry *x, const struct snapshot *s, int n)
{
    for (int i = 0; i < n; i++) {
        struct snapshot now = {s[i].n, s[i].state, c->clock};
        add_snapshot(c, x, &now);
    }
}

/* What will not be stored. */
static void give_back(struct prefix_cache *c, struct page_table *t, const struct snapshot *s, int n)
{
    page_table_deinit(t, c->pool);
    for (int i = 0; i < n; i++)
        page_unref(c->states, s[i].state);
}

/* Drops the entries that `x` makes needless; it inherits their snapshots. */
static void replace_covered(struct prefix_cache *c, struct prefix_entry *x)
{
    for (int i = c->n - 1; i >= 0; i--) {
        struct prefix_entry *old = &c->v[i];
        if (!covered(old, x->key, x->tokens, x->n))
            continue;
        for (; old->n_snapshot; old->n_snapshot--)
            add_snapshot(c, x, &old->snapshots[old->n_snapshot - 1]);
        drop(c, i);
    }
}

void prefix_store(struct prefix_cache *c, struct prefix_key key, const int32_t *tokens, int64_t n, struct page_table *t,
                  const struct snapshot *snapshots, int n_snapshot)
{
    size_t bytes;
    c->clock++;
    for (int i = 0; i < c->n; i++)
        if (c->v[i].n > n && covered(&c->v[i], key, tokens, n)) {
            c->v[i].last_use = c->clock;
            add_snapshots(c, &c->v[i], snapshots, n_snapshot);
            page_table_deinit(t, c->pool);
            return;
        }
    bool     useful = n > 0 && (!c->states || n_snapshot);
    int32_t *copy = useful && num_mul((size_t)n, sizeof *copy, &bytes) ? malloc(bytes) : NULL;
    if (!copy) {
        give_back(c, t, snapshots, n_snapshot);
        return;
    }
    memcpy(copy, tokens, bytes);
    struct prefix_entry x = {.key = key, .tokens = copy, .n = n, .pages = *t, .last_use = c->clock};
    memset(t, 0, sizeof *t);
    add_snapshots(c, &x, snapshots, n_snapshot);
    replace_covered(c, &x);
    if (c->n == PREFIX_ENTRIES_MAX)
        prefix_evict(c);
    c->v[c->n++] = x;
}
