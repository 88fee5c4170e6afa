/* Pages of the key/value cache: a pool with reference counts, so that sequences with a common prefix share memory. The
 * blocks of recurrent state come from such a pool, too: there a page is the state of one sequence, or a snapshot of it.
 *
 * Pages are taken from huge memory (base/huge.h) when first needed, never more than the pool's limit: memory grows with the
 * tokens that are really cached, and attention streams through them. One thread owns a pool (the engine's).
 */
#ifndef MLXCEL_CACHE_PAGES_H
#define MLXCEL_CACHE_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct page_pool;

/* bytes: of one page; tokens: positions it holds; max: most pages. */
int     page_pool_new(struct page_pool **out, size_t bytes, int tokens, int64_t max, struct error *e);
void    page_pool_free(struct page_pool *p); /* all pages at once */
int     page_pool_tokens(const struct page_pool *p);
size_t  page_pool_bytes(const struct page_pool *p);
int64_t page_pool_available(const struct page_pool *p); /* pages that page_take can still give */

void *page_take(struct page_pool *p); /* one reference; contents undefined; NULL at the limit or out of memory */
void  page_ref(struct page_pool *p, void *page);
void  page_unref(struct page_pool *p, void *page);

/* The pages of one sequence, in order of position. */
struct page_table {
    void **v;
    size_t n, cap;
};
/* Makes the table long enough for `tokens` positions. ERR_LIMIT at the pool's limit, ERR_NOMEM. */
int page_table_grow(struct page_table *t, struct page_pool *p, int64_t tokens, struct error *e);
/* Makes *t (empty) hold the first `tokens` positions of `from`: whole pages are shared, a last partial one is copied, since
 * its rest will be written. */
int  page_table_fork(struct page_table *t, struct page_pool *p, const struct page_table *from, int64_t tokens,
                     struct error *e);
void page_table_deinit(struct page_table *t, struct page_pool *p);

#endif
