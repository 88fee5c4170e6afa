/* The kernels of attn.h on vec.h's lanes; included once by the file of each instruction set.
 *
 * Both products are register blocks of R rows by W vectors: lanes are keys in the scores and features in the outputs;
 * each accumulator is one chain. R and W are compile-time constants of the inlined bodies, chosen so that the block
 * fills the registers: at most TILE_R rows at once, and for fewer rows wider vectors.
 */
#ifndef MLXCEL_CPU_ATTN_KERNELS_H
#define MLXCEL_CPU_ATTN_KERNELS_H

#include <float.h>

#include "cpu/attn.h"
#include "cpu/vec.h"
#include "cpu/vec_math.h"

#if VEC_REGISTERS >= 32
#define TILE_R 6
#define TILE_W(r) 4
#elif VEC_REGISTERS >= 8
#define TILE_R 6
#define TILE_W(r) ((r) <= 2 ? 4 / (r) : (r) == 3 ? 2 : 1)
#else
#define TILE_R 1
#define TILE_W(r) 1
#endif
#define TILE_VECTORS (KV_TILE / VEC_LANES)
/* Whether factors of rows are better loaded again for each vector than kept beside all sums. */
#define TILE_TIGHT(r) ((r) > 1 && ((r) + 1) * TILE_W(r) >= VEC_REGISTERS)
#define VEC_FORGET(p) __asm__("" : "+r"(p)) /* what was loaded through p is loaded again */
#define UNROLL _Pragma("GCC unroll 8")

VEC_INLINE vf load_elem(const void *p, int64_t i, int elem_size)
{
    return elem_size == 1   ? vf_load_i8((const int8_t *)p + i)
           : elem_size == 2 ? vf_load_f16((const uint16_t *)p + i)
                            : vf_load((const float *)p + i);
}

VEC_INLINE vf load_elem_part(const void *p, int64_t i, int elem_size, int n)
{
    return elem_size == 1   ? vf_load_i8_part((const int8_t *)p + i, n)
           : elem_size == 2 ? vf_load_f16_part((const uint16_t *)p + i, n)
                            : vf_load_part((const float *)p + i, n);
}

/* Asks for W vectors of elements from address p on. */
VEC_INLINE void ask(uintptr_t p, int elem_size, int W)
{
    const int vectors = 64 / (VEC_LANES * elem_size); /* in a cache line */
    UNROLL for (int w = 0; w < W; w += vectors)
        __builtin_prefetch((const void *)(p + (uintptr_t)(w * VEC_LANES * elem_size)));
}

/* Scores of rows [r0, r0 + R) with W vectors of keys from j on. */
VEC_INLINE void scores_chunk(const struct attn_block *b, int r0, const void *k, int elem_size, int j, int R, int W)
{
    int64_t      dim = b->head_dim;
    const float *q = b->q + r0 * dim, *end = q + dim;
    const char  *key = (const char *)k + j * elem_size;
    uintptr_t    next = (uintptr_t)b->next_k - (uintptr_t)k;
    vf           scale = vf_set1(b->scale), acc[TILE_R][4];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int w = 0; w < W; w++) acc[r][w] = vf_set1(0);
    for (; q < end; q++, key += KV_TILE * elem_size) {
        if (elem_size < 4)
            ask((uintptr_t)key + next, elem_size, W);
        UNROLL for (int w = 0; w < W; w++)
        {
            vf x = load_elem(key, w * VEC_LANES, elem_size);
            if (TILE_TIGHT(R))
                VEC_FORGET(q);
            UNROLL for (int r = 0; r < R; r++) acc[r][w] = vf_fma(vf_set1(q[r * dim]), x, acc[r][w]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int w = 0; w < W; w++)
    {
        vf s = vf_mul(acc[r][w], scale);
        if (b->k_scale)
            s = vf_mul(s, vf_load(b->k_scale + j + w * VEC_LANES));
        vf_store(b->s + (r0 + r) * KV_TILE + j + w * VEC_LANES, s);
    }
}

/* Scores of rows [r0, r0 + R) with the vectors of keys that any of them has; the others stay as they were. */
VEC_INLINE void scores_block(const struct attn_block *b, int r0, const void *k, int elem_size, int R)
{
    const int W = TILE_W(R);
    int       lo = KV_TILE, hi = 0;
    for (int r = r0; r < r0 + R; r++)
        if (b->lo[r] < b->hi[r]) {
            lo = b->lo[r] < lo ? b->lo[r] : lo;
            hi = b->hi[r] > hi ? b->hi[r] : hi;
        }
    lo = lo / VEC_LANES * VEC_LANES;
    for (; lo + (W - 1) * VEC_LANES < hi; lo += W * VEC_LANES)
        scores_chunk(b, r0, k, elem_size, lo, R, W);
    for (; W > 1 && lo < hi; lo += VEC_LANES)
        scores_chunk(b, r0, k, elem_size, lo, R, 1);
}

/* Adds keys [lo, hi) to W vectors of features from f on, of rows [r0, r0 + R); only the first `part` features of the
 * last vector exist when part < VEC_LANES (then W is 1). */
VEC_INLINE void values_chunk(const struct attn_block *b, int r0, const void *v, int elem_size, int lo, int hi, int f,
                             int part, int R, int W)
{
    int          dim = b->v_dim;
    float       *o = b->o + (int64_t)r0 * dim + f;
    const float *p = b->s + r0 * KV_TILE + lo, *end = p + (hi - lo);
    const char  *val = (const char *)v + (lo * b->v_stride + f) * elem_size;
    uintptr_t    next = (uintptr_t)b->next_v - (uintptr_t)v;
    int64_t      stride = b->v_stride * elem_size;
    vf           acc[TILE_R][4];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int w = 0; w < W; w++) acc[r][w] =
        part < VEC_LANES ? vf_load_part(o + r * dim, part) : vf_load(o + r * dim + w * VEC_LANES);
    for (; p < end; p++, val += stride) {
        if (elem_size < 4)
            ask((uintptr_t)val + next, elem_size, W);
        UNROLL for (int w = 0; w < W; w++)
        {
            vf x =
                part < VEC_LANES ? load_elem_part(val, 0, elem_size, part) : load_elem(val, w * VEC_LANES, elem_size);
            if (TILE_TIGHT(R))
                VEC_FORGET(p);
            UNROLL for (int r = 0; r < R; r++) acc[r][w] = vf_fma(vf_set1(p[r * KV_TILE]), x, acc[r][w]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int w = 0; w < W; w++)
    {
        if (part < VEC_LANES)
            vf_store_part(o + r * dim, acc[r][w], part);
        else
            vf_store(o + r * dim + w * VEC_LANES, acc[r][w]);
    }
}

/* Adds keys [lo, hi) of the tile to rows [r0, r0 + R). */
VEC_INLINE void values_keys(const struct attn_block *b, int r0, const void *v, int elem_size, int lo, int hi, int R)
{
    const int W = TILE_W(R);
    int       f = 0, dim = b->v_dim;
    if (lo >= hi)
        return;
    for (; f + W * VEC_LANES <= dim; f += W * VEC_LANES)
        values_chunk(b, r0, v, elem_size, lo, hi, f, VEC_LANES, R, W);
    for (; W > 1 && f + VEC_LANES <= dim; f += VEC_LANES)
        values_chunk(b, r0, v, elem_size, lo, hi, f, VEC_LANES, R, 1);
    if (f < dim)
        values_chunk(b, r0, v, elem_size, lo, hi, f, dim - f, R, 1);
}

/* Adds to each of rows [r0, r0 + R) its keys. They differ at the edges of the causal mask and of the window: the keys that
 * all share are added together, those before and after row by row. */
VEC_INLINE void values_block(const struct attn_block *b, int r0, const void *v, int elem_size, int R)
{
    int lo = 0, hi = KV_TILE;
    for (int r = r0; r < r0 + R; r++) {
        lo = b->lo[r] > lo ? b->lo[r] : lo;
        hi = b->hi[r] < hi ? b->hi[r] : hi;
    }
    if (lo >= hi)
        lo = hi = KV_TILE;
    for (int r = r0; R > 1 && r < r0 + R; r++)
        values_keys(b, r, v, elem_size, b->lo[r], b->hi[r] < lo ? b->hi[r] : lo, 1);
    values_keys(b, r0, v, elem_size, lo, hi, R);
    for (int r = r0; R > 1 && r < r0 + R; r++)
        values_keys(b, r, v, elem_size, b->lo[r] > hi ? b->lo[r] : hi, b->hi[r], 1);
}

/* Whether row i has keys among those of vector w of the tile. */
VEC_INLINE bool has_keys(const struct attn_block *b, int i, int w)
{
    return b->lo[i] < (w + 1) * VEC_LANES && b->hi[i] > w * VEC_LANES;
}

VEC_INLINE vf keep_keys(const struct attn_block *b, int i, int w, vf x, vf fill)
{
    return vf_keep(x, b->lo[i] - w * VEC_LANES, b->hi[i] - w * VEC_LANES, fill);
}

/* The weights of row i from its scores; rescales its sum and output to the new maximum. Whole: all keys of the tile are
 * the row's. */
VEC_INLINE void softmax_row(const struct attn_block *b, int i, bool whole)
{
    float *s = b->s + i * KV_TILE, *o = b->o + (int64_t)i * b->v_dim;
    vf     max = vf_set1(b->m[i]), none = vf_set1(-FLT_MAX), zero = vf_set1(0), p[TILE_VECTORS];
    int    f = 0;
    UNROLL for (int w = 0; w < TILE_VECTORS; w++)
    {
        p[w] = zero;
        if (!whole && !has_keys(b, i, w))
            continue;
        p[w] = vf_load(s + w * VEC_LANES);
        max = vf_max(max, whole ? p[w] : keep_keys(b, i, w, p[w], none));
    }
    float m = vf_max_lane(max), moved = b->m[i] - m, a = moved == 0 ? 1 : math_exp(moved);
    UNROLL for (int w = 0; w < TILE_VECTORS; w++)
    {
        if (!whole && !has_keys(b, i, w))
            continue;
        p[w] = vf_exp(vf_sub(p[w], vf_set1(m)));
        if (!whole)
            p[w] = keep_keys(b, i, w, p[w], zero);
        vf_store(s + w * VEC_LANES, b->v_scale ? vf_mul(p[w], vf_load(b->v_scale + w * VEC_LANES)) : p[w]);
    }
    b->l[i] = fmaf(b->l[i], a, vf_sum(vf_add(vf_add(p[0], p[1]), vf_add(p[2], p[3]))));
    b->m[i] = m;
    if (a == 1)
        return;
    for (; f + VEC_LANES <= b->v_dim; f += VEC_LANES)
        vf_store(o + f, vf_mul(vf_load(o + f), vf_set1(a)));
    for (; f < b->v_dim; f++)
        o[f] *= a;
}

/* Caps the scores of row i. */
static void softcap_row(const struct attn_block *b, int i)
{
    vf cap = vf_set1(b->softcap);
    for (int w = 0; w < TILE_VECTORS; w++) {
        float *s = b->s + i * KV_TILE + w * VEC_LANES;
        if (has_keys(b, i, w))
            vf_store(s, vf_mul(vf_tanh(vf_div(vf_load(s), cap)), cap));
    }
}

static void softmax(const struct attn_block *b)
{
    for (int i = 0; i < b->n; i++) {
        if (b->softcap > 0)
            softcap_row(b, i);
        if (b->lo[i] == 0 && b->hi[i] == KV_TILE)
            softmax_row(b, i, true);
        else if (b->lo[i] < b->hi[i])
            softmax_row(b, i, false);
    }
}

/* A step of a tile for all rows, in register blocks. */
#if TILE_R > 1
#define EACH_BLOCK(step, b, x, elem_size)                                                                              \
    for (int r_ = 0, n_; r_ < (b)->n; r_ += n_) {                                                                      \
        n_ = (b)->n - r_;                                                                                              \
        n_ = n_ == 7 || n_ == 8 ? 4 : n_ >= 6 ? 6 : n_ == 5 ? 3 : n_; /* 8 is 4 + 4, 7 is 4 + 3, 5 is 3 + 2 */         \
        if (n_ == 6)                                                                                                   \
            step(b, r_, x, elem_size, 6);                                                                              \
        else if (n_ == 4)                                                                                              \
            step(b, r_, x, elem_size, 4);                                                                              \
        else if (n_ == 3)                                                                                              \
            step(b, r_, x, elem_size, 3);                                                                              \
        else if (n_ == 2)                                                                                              \
            step(b, r_, x, elem_size, 2);                                                                              \
        else                                                                                                           \
            step(b, r_, x, elem_size, 1);                                                                              \
    }
#else
#define EACH_BLOCK(step, b, x, elem_size)                                                                              \
    for (int r_ = 0; r_ < (b)->n; r_++)                                                                                \
        step(b, r_, x, elem_size, 1);
#endif

/* Three passes over the rows, so that K and then V stay in the nearest cache. */
VEC_INLINE void tile_all(const struct attn_block *b, const void *k, const void *v, int elem_size)
{
    EACH_BLOCK(scores_block, b, k, elem_size)
    softmax(b);
    EACH_BLOCK(values_block, b, v, elem_size)
}

static void tile(struct attn_block *b, const void *k, const void *v, int elem_size)
{
    if (elem_size == 1)
        tile_all(b, k, v, 1);
    else if (elem_size == 2)
        tile_all(b, k, v, 2);
    else
        tile_all(b, k, v, 4);
}

/* The scores of an indexer for the keys of a tile; attn.h. */
VEC_INLINE void index_all(const struct attn_block *b, const float *w, const void *k, int elem_size, float *out)
{
    EACH_BLOCK(scores_block, b, k, elem_size)
    for (int j = 0; j < KV_TILE; j += VEC_LANES) {
        vf acc = vf_set1(0);
        for (int i = 0; i < b->n; i++)
            acc = vf_fma(vf_max(vf_load(b->s + i * KV_TILE + j), vf_set1(0)), vf_set1(w[i]), acc);
        vf_store(out + j, acc);
    }
}

static void index_tile(const struct attn_block *b, const float *w, const void *k, int elem_size, float *out)
{
    if (elem_size == 1)
        index_all(b, w, k, 1, out);
    else if (elem_size == 2)
        index_all(b, w, k, 2, out);
    else
        index_all(b, w, k, 4, out);
}

static void merge(float *M, float *L, float *O, float m, float l, const float *o, int n)
{
    float max = *M > m ? *M : m, a = math_exp(*M - max), c = math_exp(m - max);
    int   f = 0;
    *M = max;
    *L = fmaf(l, c, *L * a);
    for (; f + VEC_LANES <= n; f += VEC_LANES)
        vf_store(O + f, vf_fma(vf_load(o + f), vf_set1(c), vf_mul(vf_load(O + f), vf_set1(a))));
    for (; f < n; f++)
        O[f] = fmaf(o[f], c, O[f] * a);
}

static void finish(float M, float L, const float *O, const float *sink, float *y, int n)
{
    float a = 1;
    int   f = 0;
    if (sink) {
        float max = M > *sink ? M : *sink;
        a = math_exp(M - max);
        L = fmaf(L, a, math_exp(*sink - max));
    }
    for (; f + VEC_LANES <= n; f += VEC_LANES)
        vf_store(y + f, vf_div(vf_mul(vf_load(O + f), vf_set1(a)), vf_set1(L)));
    for (; f < n; f++)
        y[f] = O[f] * a / L;
}

#define ATTN_FNS                                                                                                       \
    {                                                                                                                  \
        TILE_R, tile, index_tile, merge, finish                                                                        \
    }

#endif
