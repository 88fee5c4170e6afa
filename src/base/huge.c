/* Regions of huge.h: anonymous mappings that begin on a huge page with a header, then arrays in the order in which they
 * were taken. Under AddressSanitizer what is no array, a gap behind each among it, is poisoned. */
#include "base/huge.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/num.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define GAP ((size_t)64)
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define GAP ((size_t)0)
#endif

#define PAGE ((size_t)2 << 20)
#define REGION ((size_t)64 << 20) /* least size of a region: address space, memory only where it is touched */

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
    struct huge_region *r = (struct huge_region *)((char *)p + -(uintptr_t)p % PAGE);
    (void)madvise(r, size, MADV_HUGEPAGE); /* a wish: without it pages are small */
    r->mapping = p;
    r->mapped = mapped;
    r->size = size;
    r->used = sizeof *r;
    ASAN_POISON_MEMORY_REGION(r + 1, size - sizeof *r);
    return r;
}

static void region_free(struct huge_region *r)
{
    ASAN_UNPOISON_MEMORY_REGION(r, r->size); /* whoever gets these addresses next */
    munmap(r->mapping, r->mapped);
}

void *huge_alloc(struct huge *h, size_t size)
{
    struct huge_region *r = h->head;
    size_t              room;
    if (!num_align(MAX(size, (size_t)1), 64, &room) || !num_add(room, GAP, &room)) /* no bytes have a place, too */
        return NULL;
    if (!r || r->size - r->used < room) {
        r = region_new(room);
        if (!r)
            return NULL;
        r->next = h->head;
        h->head = r;
    }
    void *p = (char *)r + r->used;
    ASAN_UNPOISON_MEMORY_REGION(p, size);
    r->used += room;
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
            region_free(r);
        }
        return;
    }
}

void huge_deinit(struct huge *h)
{
    while (h->head) {
        struct huge_region *r = h->head;
        h->head = r->next;
        region_free(r);
    }
}
