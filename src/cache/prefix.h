/* The prefix cache: token lists of finished sequences with their pages, reused by later prompts that begin alike and
 * run with the same adapters.
 *
 * A hit is exact to the token: whole pages are shared, the page in which the texts part is copied. Since cached keys
 * and values are the same bits however they were computed (the order law), a hit changes nothing but the time.
 * Entries leave in order of last use, when the pool runs out of pages or PREFIX_ENTRIES_MAX is passed.
 *
 * The recurrent state of a model that has one is a single block that every token overwrites. Such a prefix can be resumed
 * only where a copy of the block, a snapshot, was kept; a hit then ends at the last snapshot within what the texts share.
 * Snapshots leave in order of last use when the pool of blocks runs out, and an entry with its last one.
 */
#ifndef MLXCEL_CACHE_PREFIX_H
#define MLXCEL_CACHE_PREFIX_H

#include <stdbool.h>

#include "cache/pages.h"

#define PREFIX_ENTRIES_MAX 64
#define PREFIX_SNAPSHOTS_MAX 16 /* of one entry */

/* How many snapshots of `bytes` each may be kept: 256 MiB of them, and at least 4. */
static inline int64_t prefix_snapshot_limit(size_t bytes)
{
    int64_t n = bytes ? (int64_t)(((size_t)256 << 20) / bytes) : 0;
    return n < 4 ? 4 : n > 256 ? 256 : n;
}

/* What besides tokens decides the bytes of a cache page: a hash of the adapters and their scales, zeros: none; and where the
 * rope depends on it the prompt's length (model_rope_length). */
struct prefix_key {
    uint64_t v[2];
    int64_t  length;
};

/* The state behind the first n tokens: a page of the pool of states. */
struct snapshot {
    int64_t  n;
    void    *state;
    uint64_t last_use;
};

struct prefix_entry {
    struct prefix_key key;
    int32_t          *tokens;
    int64_t           n;
    struct page_table pages;
    uint64_t          last_use;
    struct snapshot   snapshots[PREFIX_SNAPSHOTS_MAX];
    int               n_snapshot;
};

struct prefix_cache {
    struct page_pool   *pool, *states; /* borrowed; states: NULL where the model has no recurrent state */
    struct prefix_entry v[PREFIX_ENTRIES_MAX];
    int                 n;
    uint64_t            clock;
};

void prefix_init(struct prefix_cache *c, struct page_pool *pool, struct page_pool *states);
void prefix_deinit(struct prefix_cache *c);

/* Makes *t (empty) hold the longest beginning of tokens[0, n) that can be resumed, copies its snapshot to *state (not
 * touched without a hit, or without a pool of states), and returns its length, 0 on a miss. *shared (NULL is fine): how
 * long a beginning any entry has in common with the tokens. */
int64_t prefix_lookup(struct prefix_cache *c, struct prefix_key key, const int32_t *tokens, int64_t n,
                      struct page_table *t, void *state, int64_t *shared);
/* Takes over the pages of a sequence whose first n positions hold `tokens`, and its snapshots, all at 1 to n tokens; *t is
 * empty afterwards. */
void prefix_store(struct prefix_cache *c, struct prefix_key key, const int32_t *tokens, int64_t n, struct page_table *t,
                  const struct snapshot *snapshots, int n_snapshot);
/* Drops the entry that was used longest ago; false when there is none. */
bool prefix_evict(struct prefix_cache *c);
/* A block from the pool of states, its content undefined: a free one, or that of the snapshot that was used longest ago.
 * NULL when there is neither. */
void *prefix_take_state(struct prefix_cache *c);

#endif
