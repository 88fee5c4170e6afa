/* Writing rows of k and v to the paged cache (tensor/kv.h): K transposed within its tile, V as it is, in the cache's
 * type. The elements of a key of an 8-bit cache share a scale (docs/order-law.md). */
#include <math.h>
#include <string.h>

#include "cpu/attn.h"
#include "cpu/linear.h"

#define CHUNK 64 /* elements converted at once */

/* The scale of n values, and what they are multiplied with to become int8; 0: all become 0. */
static float scale_of(const struct row_fns *fns, const float *x, int n, float *inv)
{
    float amax = fns->amax(x, n);
    *inv = 127.0f / amax;
    if (*inv <= LINEAR_INV_MAX)
        return amax / 127.0f;
    *inv = 0;
    return isnan(amax) ? NAN : 0;
}

static void to_i8(const struct row_fns *fns, const float *x, float inv, int8_t *y, int n)
{
    if (inv > 0)
        fns->to_i8(x, inv, y, n);
    else
        memset(y, 0, (size_t)n);
}

/* K: element d goes to [d * KV_TILE + j]. */
static void put_k(const struct row_fns *fns, const float *x, void *tile, int j, int n, int elem_size, float inv)
{
    for (int d = 0; d < n; d += CHUNK) {
        int m = n - d < CHUNK ? n - d : CHUNK;
        if (elem_size == 1) {
            int8_t byte[CHUNK], *to = (int8_t *)tile + d * KV_TILE + j;
            to_i8(fns, x + d, inv, byte, m);
            for (int i = 0; i < m; i++)
                to[i * KV_TILE] = byte[i];
        } else if (elem_size == 2) {
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

static void put_v(const struct row_fns *fns, const float *x, void *tile, int j, int n, int elem_size, float inv)
{
    if (elem_size == 1)
        to_i8(fns, x, inv, (int8_t *)tile + j * n, n);
    else if (elem_size == 2)
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
        int     j = (int)(pos % KV_TILE);
        for (int h = 0; h < a->n_kv_head; h++) {
            const float *x = tensor_row(k, i) + h * a->head_dim;
            void        *k_tile = kv_k_tile(l, page, h, pos);
            float        inv = 0;
            if (l->elem_size == 1)
                kv_scales(l, k_tile, a->head_dim)[j] = scale_of(fns, x, a->head_dim, &inv);
            (l->latent ? put_v : put_k)(fns, x, k_tile, j, a->head_dim, l->elem_size, inv);
            if (l->latent || !l->v_dim)
                continue;
            const float *y = tensor_row(v, i) + h * a->v_dim;
            void        *v_tile = kv_v_tile(l, page, h, pos);
            if (l->elem_size == 1)
                kv_scales(l, v_tile, a->v_dim)[j] = scale_of(fns, y, a->v_dim, &inv);
            put_v(fns, y, v_tile, j, a->v_dim, l->elem_size, inv);
        }
    }
}
