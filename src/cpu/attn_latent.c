/* Tiles of a latent layer of the cache (tensor/kv.h) as the kernels of attention take them. A value is the first features
 * of its key, so that one read of the cache, key by key, gives both: as it is for the values, transposed for the scores.
 * Keys may also be picked from all over the sequence, those that an indexer chose. */
#include <string.h>

#include "cpu/attn.h"

#define BLOCK 16 /* keys and features that are transposed together */

void attn_widen(const struct row_fns *fns, int elem_size, const void *x, float *y, size_t n)
{
    if (elem_size == 1)
        fns->from_i8(x, y, (int64_t)n);
    else if (elem_size == 2)
        fns->from_f16(x, y, (int64_t)n);
    else
        memcpy(y, x, n * sizeof *y);
}

/* k[d][j] = rows[j][d] of n features; all KV_TILE keys, so that the loops have constant bounds. */
static void transpose(const float *rows, int n, float *k)
{
    for (int d = 0; d < n; d += BLOCK)
        for (int j = 0; j < KV_TILE; j += BLOCK)
            for (int i = d; i < (d + BLOCK < n ? d + BLOCK : n); i++)
                for (int l = 0; l < BLOCK; l++)
                    k[i * KV_TILE + j + l] = rows[(int64_t)(j + l) * n + i];
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
