/* Memory for large arrays that are read from end to end again and again, such as packed weights.
 *
 * Arrays stand one behind the other in regions of huge pages (where the system grants them: MADV_HUGEPAGE), so that a
 * reader that streams through all of them misses no page table and the processor's prefetchers meet few page borders.
 * A region goes back to the system when its last array is freed. One thread at a time.
 */
#ifndef MLXCEL_BASE_HUGE_H
#define MLXCEL_BASE_HUGE_H

#include <stddef.h>

struct huge_region;
struct huge {
    struct huge_region *head; /* of all regions; new arrays are cut from this one */
};

/* `size` bytes of zeros, aligned to 64; NULL when out of memory. A zeroed struct huge is an empty one. */
void *huge_alloc(struct huge *h, size_t size);
void  huge_free(struct huge *h, void *p); /* p: from huge_alloc of h, or NULL */
void  huge_deinit(struct huge *h);        /* frees what is left */

#endif
