/* The prefix cache: token lists of finished sequences with their pages, reused by later prompts that begin alike and
 * run with the same adapters.
 *
 * A hit is exact to the token: whole pages are shared, the page in which the texts part is copied. Since cached keys
 * and values are the same bits however they were computed (the order law), a hit changes nothing but the time.
 * Entries leave in order of last use, when the pool runs out of pages or PREFIX_ENTRIES_MAX is passed.
 */
#ifndef MLXCEL_CACHE_PREFIX_H
#define MLXCEL_CACHE_PREFIX_H

#include <stdbool.h>

#include "cache/pages.h"

#define PREFIX_ENTRIES_MAX 64

/* What besides tokens decides the bytes of a cache page: a hash of the adapters and their scales; zeros: none. */
struct prefix_key {
    uint64_t v[2];
};

struct prefix_entry {
    struct prefix_key key;
    int32_t          *tokens;
    int64_t           n;
    struct page_table pages;
    uint64_t          last_use;
};

struct prefix_cache {
    struct page_pool   *pool; /* borrowed */
    struct prefix_entry v[PREFIX_ENTRIES_MAX];
    int                 n;
    uint64_t            clock;
};

void prefix_init(struct prefix_cache *c, struct page_pool *pool);
void prefix_deinit(struct prefix_cache *c);
/* Makes *t (empty) hold the longest cached beginning of tokens[0, n) and returns its length, 0 on a miss. */
int64_t prefix_lookup(struct prefix_cache *c, struct prefix_key key, const int32_t *tokens, int64_t n,
                      struct page_table *t);
/* Takes over the pages of a sequence whose first n positions hold `tokens`; *t is empty afterwards. */
void prefix_store(struct prefix_cache *c, struct prefix_key key, const int32_t *tokens, int64_t n,
                  struct page_table *t);
/* Drops the entry that was used longest ago; false when there is none. */
bool prefix_evict(struct prefix_cache *c);

#endif
