/* Tiles of a latent layer of the cache (tensor/kv.h) as the kernels of attention take them. A value is the first features
 * of its key, so that one read of the cache, key by key, gives both: as it is for the values, transposed for the scores.
 * Keys may also be picked from all over the sequence, those that an indexer chose. */
#include <string.h>

#include "base/num.h"
#include "cpu/attn.h"

#define LINE 16 /* features of a row in a line of the cache */

typedef float v4 __attribute__((vector_size(16))); /* which every machine of ours has */

void attn_widen(const struct row_fns *fns, int elem_size, const void *x, float *y, size_t n)
{
    if (elem_size == 1)
        fns->from_i8(x, y, (int64_t)n);
    else if (elem_size == 2)
        fns->from_f16(x, y, (int64_t)n);
    else
        memcpy(y, x, n * sizeof *y);
}

static inline v4 load4(const float *x)
{
    v4 v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline void store4(float *y, v4 v)
{
    memcpy(y, &v, sizeof v);
}

/* k[d][j] = rows[j][d] of 4 keys and 4 features. */
static inline void transpose4(const float *rows, int64_t n, float *k)
{
    v4 r0 = load4(rows), r1 = load4(rows + n), r2 = load4(rows + 2 * n), r3 = load4(rows + 3 * n);
    v4 low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    v4 low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    store4(k, __builtin_shufflevector(low01, low23, 0, 1, 4, 5));
    store4(k + KV_TILE, __builtin_shufflevector(low01, low23, 2, 3, 6, 7));
    store4(k + 2 * KV_TILE, __builtin_shufflevector(high01, high23, 0, 1, 4, 5));
    store4(k + 3 * KV_TILE, __builtin_shufflevector(high01, high23, 2, 3, 6, 7));
}

/* k[d][j] = rows[j][d] of n features and all KV_TILE keys, whole lines of the rows at a time. */
static void transpose(const float *rows, int n, float *k)
{
    int whole = n / 4 * 4;
    for (int line = 0; line < whole; line += LINE)
        for (int j = 0; j < KV_TILE; j += 4)
            for (int d = line; d < MIN(line + LINE, whole); d += 4)
                transpose4(rows + (int64_t)j * n + d, n, k + (int64_t)d * KV_TILE + j);
    for (int d = whole; d < n; d++)
        for (int j = 0; j < KV_TILE; j++)
            k[d * KV_TILE + j] = rows[(int64_t)j * n + d];
}

const float *attn_latent_tile(const struct row_fns *fns, const struct kv_layer *l, void *const *pages,
                              const int32_t *keys, int64_t first, int n, struct attn_tile *t)
{
    int          dim = l->head_dim;
    size_t       bytes = (size_t)dim * (size_t)l->elem_size;
    const float *rows = t->v;
    if (!keys) {
        char *tile = kv_k_tile(l, pages[first / l->page_tokens], 0, first);
        if (l->elem_size == 1)
            memcpy(t->scale, kv_scales(l, tile, dim), sizeof t->scale);
        if (l->elem_size == 4)
            rows = (const float *)(const void *)tile;
        else
            attn_widen(fns, l->elem_size, tile, t->v, (size_t)n * (size_t)dim);
    }
    for (int j = 0; keys && j < n; j++) {
        int64_t pos = keys[first + j], at = pos % KV_TILE;
        char   *tile = kv_k_tile(l, pages[pos / l->page_tokens], 0, pos);
        if (l->elem_size == 1)
            t->scale[j] = kv_scales(l, tile, dim)[at];
        attn_widen(fns, l->elem_size, tile + (size_t)at * bytes, t->v + (int64_t)j * dim, (size_t)dim);
    }
    transpose(rows, dim, t->k);
    return rows;
}
