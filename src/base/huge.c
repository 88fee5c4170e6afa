/* Regions of huge.h: anonymous mappings that begin on a huge page with a header, then arrays in the order in which they
 * were taken. Under AddressSanitizer every array has a region of its own, which ends where the array ends, but for what
 * rounding to 64 adds. */
#include "base/huge.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/num.h"

#define PAGE ((size_t)2 << 20)
#if defined(__SANITIZE_ADDRESS__)
#define REGION ((size_t)0)
#else
#define REGION ((size_t)64 << 20) /* least size of a region: address space, memory only where it is touched */
#endif

struct huge_region {
    _Alignas(64) struct huge_region *next;
    void  *mapping;
    size_t mapped, size, used; /* bytes: of the mapping, from the header to its end, taken */
    size_t arrays;             /* not freed yet */
};

static struct huge_region *region_new(size_t need)
{
    size_t size, mapped;
    if (!num_add(need, sizeof(struct huge_region), &size) || !num_align(MAX(size, REGION), PAGE, &size) ||
        !num_add(size, PAGE, &mapped))
        return NULL;
    void *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    uintptr_t           start = ((uintptr_t)p + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    struct huge_region *r = (struct huge_region *)((char *)p + (start - (uintptr_t)p));
    (void)madvise(r, size, MADV_HUGEPAGE); /* a wish: without it pages are small */
    r->mapping = p;
    r->mapped = mapped;
    r->size = size;
    r->used = sizeof *r;
    return r;
}

void *huge_alloc(struct huge *h, size_t size)
{
    struct huge_region *r = h->head;
    if (!num_align(size, 64, &size))
        return NULL;
    if (!r || r->size - r->used < size) {
        r = region_new(size);
        if (!r)
            return NULL;
        r->next = h->head;
        h->head = r;
    }
    void *p = (char *)r + r->used;
    r->used += size;
    r->arrays++;
    return p;
}

static bool holds(const struct huge_region *r, const void *p)
{
    uintptr_t at = (uintptr_t)p, start = (uintptr_t)r;
    return at > start && at < start + r->size;
}

void huge_free(struct huge *h, void *p)
{
    for (struct huge_region **at = &h->head, *r; p && (r = *at); at = &r->next) {
        if (!holds(r, p))
            continue;
        if (--r->arrays == 0) {
            *at = r->next;
            munmap(r->mapping, r->mapped);
        }
        return;
    }
}

void huge_deinit(struct huge *h)
{
    while (h->head) {
        struct huge_region *r = h->head;
        h->head = r->next;
        munmap(r->mapping, r->mapped);
    }
}
