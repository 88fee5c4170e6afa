/* Growable arrays of any type, for a pointer, a count and a capacity that stand in some struct. */
#ifndef MLXCEL_BASE_VEC_H
#define MLXCEL_BASE_VEC_H

#include <stdlib.h>

#include "base/num.h"

#define VEC_MIN 16

/* Room for element number n (counted from 0) of an array of elements of `size` bytes, whose capacity doubles when need
 * be. Returns the array, which may have moved; NULL when out of memory, and then p is still good: T *v = vec_room(a->v,
 * a->n, &a->cap, sizeof *v); if (!v) return error_nomem(...); a->v = v; a->v[a->n++] = x; */
static inline void *vec_room(void *p, size_t n, size_t *cap, size_t size)
{
    size_t more = *cap ? *cap : VEC_MIN, bytes;
    if (n < *cap)
        return p;
    if (!num_add(*cap, more, &more) || !num_mul(more, size, &bytes) || !(p = realloc(p, bytes)))
        return NULL;
    *cap = more;
    return p;
}

#endif
