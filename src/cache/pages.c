/* Pages in huge memory, a free list, and reference counts kept beside the pages; contracts in pages.h.
 *
 * A page's header stands before it, one cache line: the reference count and the link of the free list. */
#include "cache/pages.h"

#include <stdlib.h>
#include <string.h>

#include "base/huge.h"
#include "base/num.h"

#define HEADER ((size_t)64)

struct page_header {
    struct page_header *next_free;
    int                 refs;
};

struct page_pool {
    size_t              stride; /* header and page */
    size_t              bytes;
    int                 tokens;
    int64_t             made, max, in_use;
    struct huge         memory;
    struct page_header *free_list;
};

static struct page_header *header_of(void *page)
{
    return (struct page_header *)((char *)page - HEADER);
}

int page_pool_new(struct page_pool **out, size_t bytes, int tokens, int64_t max, struct error *e)
{
    size_t            stride;
    struct page_pool *p = calloc(1, sizeof *p);
    if (!p || !num_align(bytes, 64, &stride) || !num_add(stride, HEADER, &stride)) {
        free(p);
        return error_nomem(e, "the cache");
    }
    p->bytes = bytes;
    p->stride = stride;
    p->tokens = tokens;
    p->max = max;
    *out = p;
    return 0;
}

void page_pool_free(struct page_pool *p)
{
    if (!p)
        return;
    huge_deinit(&p->memory);
    free(p);
}

int page_pool_tokens(const struct page_pool *p)
{
    return p->tokens;
}

size_t page_pool_bytes(const struct page_pool *p)
{
    return p->bytes;
}

int64_t page_pool_available(const struct page_pool *p)
{
    return p->max - p->in_use;
}

static struct page_header *page_new(struct page_pool *p)
{
    struct page_header *h = p->made < p->max ? huge_alloc(&p->memory, p->stride) : NULL;
    p->made += h != NULL;
    return h;
}

void *page_take(struct page_pool *p)
{
    struct page_header *h = p->free_list;
    if (h)
        p->free_list = h->next_free;
    else
        h = page_new(p);
    if (!h)
        return NULL;
    h->next_free = NULL;
    h->refs = 1;
    p->in_use++;
    return (char *)h + HEADER;
}

void page_ref(struct page_pool *p, void *page)
{
    (void)p;
    header_of(page)->refs++;
}

void page_unref(struct page_pool *p, void *page)
{
    struct page_header *h = header_of(page);
    if (--h->refs)
        return;
    h->next_free = p->free_list;
    p->free_list = h;
    p->in_use--;
}

static bool reserve(struct page_table *t, size_t n)
{
    if (n <= t->cap)
        return true;
    size_t cap = MAX(n, t->cap * 2), bytes;
    void **v = num_mul(cap, sizeof *v, &bytes) ? realloc(t->v, bytes) : NULL;
    if (!v)
        return false;
    t->v = v;
    t->cap = cap;
    return true;
}

int page_table_grow(struct page_table *t, struct page_pool *p, int64_t tokens, struct error *e)
{
    size_t need = (size_t)((tokens + p->tokens - 1) / p->tokens);
    if (!reserve(t, need))
        return error_nomem(e, "a sequence's page table");
    while (t->n < need) {
        void *page = page_take(p);
        if (!page)
            return page_pool_available(p)
                       ? error_nomem(e, "a page of the cache")
                       : error_set(e, ERR_LIMIT, NULL, "the cache has no page left (of %lld)", (long long)p->max);
        t->v[t->n++] = page;
    }
    return 0;
}

int page_table_fork(struct page_table *t, struct page_pool *p, const struct page_table *from, int64_t tokens,
                    struct error *e)
{
    size_t whole = (size_t)(tokens / p->tokens);
    if (!reserve(t, whole + 1))
        return error_nomem(e, "a sequence's page table");
    for (size_t i = 0; i < whole; i++) {
        page_ref(p, from->v[i]);
        t->v[t->n++] = from->v[i];
    }
    if (tokens % p->tokens == 0)
        return 0;
    int err = page_table_grow(t, p, tokens, e);
    if (!err)
        memcpy(t->v[whole], from->v[whole], p->bytes);
    return err;
}

void page_table_deinit(struct page_table *t, struct page_pool *p)
{
    for (size_t i = 0; i < t->n; i++)
        page_unref(p, t->v[i]);
    free(t->v);
    memset(t, 0, sizeof *t);
}
