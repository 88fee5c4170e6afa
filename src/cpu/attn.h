/* Internal: the kernels of attention over the paged cache (tensor/kv.h), and the writing of the cache.
 *
 * Attention works on blocks of query rows that share their keys: rows of one sequence times the query heads of one
 * key/value head. Over the tiles of a span a block carries for every row the running maximum m, the sum l and the
 * output o:
 *
 *   s[j] = (fma chain over d ascending of q[d] K[d][j]) * scale, in an 8-bit cache then * the key's scale; with a soft cap
 *          then tanh(s[j] / cap) cap
 *   m'   = max(m, s[j] of the row's keys)           a = exp(m - m')          p[j] = exp(s[j] - m')
 *   l'   = fma(l, a, sum of p: 16 lanes, (0 + 1) + (2 + 3), then vf_sum)
 *   o'   = o a, then one fma chain over the row's keys j ascending of p[j] V[j][d]; in an 8-bit cache of (p[j] * the
 *          value's scale) V[j][d]
 *
 * A span starts from m = -FLT_MAX, l = 0, o = 0. Keys outside a row's range are never multiplied into it, whatever the
 * cache holds there; a tile without keys of a row leaves the row untouched. The spans of a row are merged in order:
 *
 *   M' = max(M, m)   a = exp(M - M')   b = exp(m - M')   L' = fma(l, b, L a)   O' = fma(o, b, O a)
 *
 * and y = O / L. A sink s of the head comes last: M' = max(M, s), a = exp(M - M'), y = (O a) / fma(L, a, exp(s - M')).
 * Nothing of this depends on which rows share a block, so all splits of the work give the same bits.
 */
#ifndef MLXCEL_CPU_ATTN_H
#define MLXCEL_CPU_ATTN_H

#include <stdint.h>

#include "cpu/rows.h"
#include "tensor/ops.h"

#define ATTN_ROWS 48 /* rows of a block, unless one key/value head alone has more query heads */

/* A block of n rows. Keys [lo[i], hi[i]) of the tile at hand belong to row i. */
struct attn_block {
    int          n, head_dim, v_dim;
    int64_t      v_stride;       /* elements from a value to the next: v_dim, or more */
    float        scale, softcap; /* softcap 0: none */
    float       *q;              /* [n][head_dim] */
    float       *s;              /* [n][KV_TILE]: scores, then weights */
    float       *m, *l;          /* [n] */
    float       *o;              /* [n][v_dim] */
    int         *lo, *hi;
    const void  *next_k, *next_v;   /* where the tile after this one stands, or this one again: asked for in advance */
    const float *k_scale, *v_scale; /* of the tile's keys and values; NULL where they have none */
};

/* A tile as float32. */
struct attn_tile {
    float *k, *v;          /* [head_dim][KV_TILE], [KV_TILE][v_dim, of a latent layer head_dim] */
    float  scale[KV_TILE]; /* of a latent layer's 8-bit keys */
};

struct attn_fns {
    /* With more rows than this it pays to convert a tile to float32 first; with fewer, reading it directly. */
    int direct_rows;
    /* Adds one tile to the block; K and V as kv.h lays them, elements of elem_size bytes (int8 widened to float32 still
     * has its scales). */
    void (*tile)(struct attn_block *b, const void *k, const void *v, int elem_size);
    /* Scores of the tile's keys for an indexer of b->n heads, all of which have all keys:
     * out[j] = fma chain over heads of max(s[j], 0) w[head], from 0; s as above. */
    void (*index)(const struct attn_block *b, const float *w, const void *k, int elem_size, float *out);
    /* Merges (m, l, o) of a span into (M, L, O). */
    void (*merge)(float *M, float *L, float *O, float m, float l, const float *o, int n);
    /* y = O / L, where sink is not NULL with it in the denominator. */
    void (*finish)(float M, float L, const float *O, const float *sink, float *y, int n);
};

extern const struct attn_fns attn_scalar, attn_avx2, attn_avx512, attn_neon;

/* Writes rows [lo, hi) of k [n_kv_head * head_dim] and v [n_kv_head * v_dim; none where the layer has none] at their positions. float16: to nearest even;
 * magnitudes from 65520 on become infinite. int8: docs/order-law.md. */
void attn_kv_write(const struct row_fns *fns, const struct step *s, const struct attn *a, struct tensor k,
                   struct tensor v, int64_t lo, int64_t hi);

/* Op index_keys. */
void attn_index_keys(struct run *r, const struct attn *a, struct tensor q, struct tensor weight, struct tensor keys);
/* float32 from n elements of the cache. */
void attn_widen(const struct row_fns *fns, int elem_size, const void *x, float *y, size_t n);
/* Makes t from n keys of a latent layer: those at positions first, first + 1, ... of one tile, or where keys are given at
 * keys[first], keys[first + 1], ... What stands for the keys from n on is not defined. Returns the values, whose stride is
 * head_dim: t->v, or the cache's own. */
const float *attn_latent_tile(const struct row_fns *fns, const struct kv_layer *l, void *const *pages,
                              const int32_t *keys, int64_t first, int n, struct attn_tile *t);

#endif
