/* Arenas: memory of one lifetime (a model, a request, a step), freed in one call.
 *
 * Blocks are taken from malloc and never move, so pointers stay good until arena_deinit or arena_reset. Every arena has a
 * maximum: passing it is a failure like malloc's, so that hostile input cannot make us allocate without bound.
 */
#ifndef MLXCEL_BASE_ARENA_H
#define MLXCEL_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_block;
struct arena {
    struct arena_block *head;
    size_t              used, max; /* bytes handed out; limit */
    bool                full;      /* a failure was the limit, not the allocator */
};

void arena_init(struct arena *a, size_t max);
void arena_deinit(struct arena *a); /* fine on a zeroed arena */
void arena_reset(struct arena *a);  /* frees everything; the arena stays usable */

/* Uninitialised memory, aligned to 16 bytes; NULL when out of memory or beyond the limit. */
void *arena_alloc(struct arena *a, size_t size);
/* n elements of `size` bytes, zeroed; NULL also when n * size overflows. */
void *arena_calloc(struct arena *a, size_t n, size_t size);
/* A NUL-terminated copy of n bytes. */
char *arena_strdup(struct arena *a, const char *p, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
