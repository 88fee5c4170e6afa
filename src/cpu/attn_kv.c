/* Writing rows of k and v to the paged cache (tensor/kv.h): K transposed within its tile, V as it is, in the cache's
 * type. */
#include <string.h>

#include "cpu/attn.h"

#define CHUNK 64 /* elements converted at once */

/* K: element d goes to [d * KV_TILE + j]. */
static void put_k(const struct row_fns *fns, const float *x, void *tile, int j, int n, int elem_size)
{
    for (int d = 0; d < n; d += CHUNK) {
        int m = n - d < CHUNK ? n - d : CHUNK;
        if (elem_size == 2) {
            uint16_t half[CHUNK], *to = (uint16_t *)tile + d * KV_TILE + j;
            fns->to_f16(x + d, half, m);
            for (int i = 0; i < m; i++)
                to[i * KV_TILE] = half[i];
        } else {
            float *to = (float *)tile + d * KV_TILE + j;
            for (int i = 0; i < m; i++)
                to[i * KV_TILE] = x[d + i];
        }
    }
}

static void put_v(const struct row_fns *fns, const float *x, void *tile, int j, int n, int elem_size)
{
    if (elem_size == 2)
        fns->to_f16(x, (uint16_t *)tile + j * n, n);
    else
        memcpy((float *)tile + j * n, x, (size_t)n * sizeof *x);
}

void attn_kv_write(const struct row_fns *fns, const struct step *s, const struct attn *a, struct tensor k,
                   struct tensor v, int64_t lo, int64_t hi)
{
    const struct kv_layer *l = &a->kv;
    for (int64_t i = lo; i < hi; i++) {
        int64_t pos = s->position[i];
        void   *page = s->pages[s->seq[i]][pos / l->page_tokens];
        int     dim = a->head_dim, j = (int)(pos % KV_TILE);
        for (int h = 0; h < a->n_kv_head; h++) {
            put_k(fns, tensor_row(k, i) + h * dim, kv_k_tile(l, page, h, pos), j, dim, l->elem_size);
            put_v(fns, tensor_row(v, i) + h * dim, kv_v_tile(l, page, h, pos), j, dim, l->elem_size);
        }
    }
}
