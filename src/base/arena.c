/* Chained blocks that grow geometrically up to 1 MiB; contracts in arena.h. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

#define BLOCK_MIN ((size_t)4096)
#define BLOCK_MAX ((size_t)1 << 20)

struct arena_block {
    struct arena_block *next;
    size_t              used, cap;
    _Alignas(16) unsigned char data[];
};

void arena_init(struct arena *a, size_t max)
{
    *a = (struct arena){.max = max};
}

void arena_reset(struct arena *a)
{
    while (a->head) {
        struct arena_block *b = a->head;
        a->head = b->next;
        free(b);
    }
    a->used = 0;
    a->full = false;
}

void arena_deinit(struct arena *a)
{
    arena_reset(a);
    a->max = 0;
}

void *arena_alloc(struct arena *a, size_t size)
{
    size_t              need, total;
    struct arena_block *b = a->head;
    if (!num_align(size ? size : 1, 16, &need) || !num_add(a->used, need, &total) || total > a->max) {
        a->full = true;
        return NULL;
    }
    if (!b || b->cap - b->used < need) {
        size_t cap = b ? MIN(b->cap * 2, BLOCK_MAX) : BLOCK_MIN;
        size_t bytes;
        cap = MAX(cap, need);
        if (!num_add(cap, sizeof *b, &bytes) || !(b = malloc(bytes)))
            return NULL;
        *b = (struct arena_block){.next = a->head, .cap = cap};
        a->head = b;
    }
    void *p = b->data + b->used;
    b->used += need;
    a->used = total;
    return p;
}

void *arena_calloc(struct arena *a, size_t n, size_t size)
{
    size_t bytes;
    void  *p = num_mul(n, size, &bytes) ? arena_alloc(a, bytes) : NULL;
    return p ? memset(p, 0, bytes) : NULL;
}

char *arena_strdup(struct arena *a, const char *p, size_t n)
{
    size_t bytes;
    char  *s = num_add(n, (size_t)1, &bytes) ? arena_alloc(a, bytes) : NULL;
    if (s) {
        if (n)
            memcpy(s, p, n);
        s[n] = '\0';
    }
    return s;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int   n = vsnprintf(NULL, 0, fmt, ap);
    char *s = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (s)
        vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return s;
}
