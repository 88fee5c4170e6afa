/* The kernels of linear.h on the 16 lanes of vec.h and linear_vec.h: one lane is one output of a tile. Included once by
 * the file of each instruction set, which makes the table.
 *
 * Integer dots without dot-product instructions: codes and activations are multiplied and added by pairs in int16,
 * where the pairs of several quads can be summed before they are widened, as many as cannot overflow:
 *
 *   up to 4 bits   15 * 127 * 2 = 3810 a pair: all 8 quads of a block (30480)
 *   5 bits         7874: 4 quads; E2M1, unpacked to 0 .. 24, likewise
 *   6 bits         16002: 2 quads
 *   8 bits         64770 saturates: vi_dot_bytes
 */
#ifndef MLXCEL_CPU_LINEAR_KERNELS_H
#define MLXCEL_CPU_LINEAR_KERNELS_H

#include "base/num.h"
#include "cpu/linear.h"
#include "cpu/linear_dense.h"
#include "cpu/linear_vec.h"

/* Rows of a register tile. AVX2 (NEON), 16 (32) registers of a half (quarter) of a tile: 4 rows of sums, reloaded sums
 * and a quad of weights. */
#if defined(VEC_AVX512)
enum { AFFINE_ROWS = 8 };
#else
enum { AFFINE_ROWS = 4 };
#endif

#define AHEAD 2048 /* bytes by which weights are asked for in advance: decoding 4 bits is 1.3 times faster with it */

/* What codes are, a constant of each kernel: their width in bits, or these. */
#define MXFP4 -4
#define NVFP4 -16

#define IS_E2M1(kind) ((kind) < 0)
#define STORED(kind) (IS_E2M1(kind) ? 4 : (kind))
#define PARTS(kind) ((kind) == NVFP4 ? 2 : 1)

/* Bytes of a group's scales and biases. */
VEC_INLINE size_t scales_size(const int kind, enum dtype d)
{
    return IS_E2M1(kind) ? (size_t)PARTS(kind) * LINEAR_TILE : 2 * row16_size(d);
}

/* The scales of a part of a block (of all of a group where there is one part); E2M1 is counted in halves. */
VEC_INLINE vf load_scale(const int kind, enum dtype d, const unsigned char *s, int part)
{
    if (!IS_E2M1(kind))
        return widen(d, s);
    s += part * LINEAR_TILE;
    return kind == NVFP4 ? vf_mul(vf_load_e4m3_256th(s), vf_set1(128)) : vf_mul(vf_load_e8m0(s), vf_set1(0.5f));
}

/* Four neighbouring activations in every lane. */
VEC_INLINE vi quad(const int8_t *q)
{
    int32_t v;
    memcpy(&v, q, sizeof v);
    return vi_set1(v);
}

/* The codes of quad j of a block as unsigned bytes. */
VEC_INLINE vi take(const int kind, const unsigned char *block, int j)
{
    static const uint8_t e2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    const int            bits = STORED(kind);
    const int            low = bits == 8 ? 8 : bits >= 4 ? 4 : 2, rest = bits - low;
    vi                   c = vi_load(block + j % low * LINEAR_QUAD_BYTES);
    if (low < 8)
        c = vi_bits(c, -low * (j / low), (1 << low) - 1);
    if (rest) {
        vi high = vi_load(block + (low + j % rest) * LINEAR_QUAD_BYTES);
        c = vi_or(c, vi_bits(high, low - rest * (j / rest), ((1 << rest) - 1) << low));
    }
    return IS_E2M1(kind) ? vi_table(e2m1, c) : c;
}

/* Asks for the memory of a later block. Beyond the last it asks in vain. */
VEC_INLINE void ask_ahead(const int kind, const unsigned char *block)
{
    const int lines = STORED(kind);
    VEC_UNROLL
    for (int j = 0; j < lines; j++)
        __builtin_prefetch((const void *)((uintptr_t)block + AHEAD + (uintptr_t)j * LINEAR_QUAD_BYTES));
}

VEC_INLINE void unpack_kind(const int kind, const struct packed *p, const unsigned char *tile, int64_t b0, int64_t n,
                            struct panel *out)
{
    for (int64_t g = 0; g < n / p->group_blocks; g++) {
        const unsigned char *s = tile + (size_t)(b0 / p->group_blocks + g) * p->group_size;
        for (int64_t b = g * p->group_blocks; b < (g + 1) * p->group_blocks; b++, s += p->block_size) {
            ask_ahead(kind, s);
            VEC_UNROLL
            for (int j = 0; j < LINEAR_QUADS; j++)
                vi_store(out->codes[b] + j * LINEAR_QUAD_BYTES, take(kind, s, j));
        }
        for (int k = 0; k < PARTS(kind); k++)
            vf_store(out->scale[g * PARTS(kind) + k], load_scale(kind, p->dtype, s, k));
        if (!IS_E2M1(kind))
            vf_store(out->bias[g], widen(p->dtype, s + row16_size(p->dtype)));
    }
}

VEC_INLINE int kind_of(const struct packed *p)
{
    return p->form == LINEAR_AFFINE ? p->bits : p->parts == 2 ? NVFP4 : MXFP4;
}

/* Calls f with the kind of codes as a constant. */
#define BY_KIND(f, kind, ...)                                                                                          \
    do {                                                                                                               \
        switch (kind) {                                                                                                \
        case MXFP4:                                                                                                    \
            f(MXFP4, __VA_ARGS__);                                                                                     \
            break;                                                                                                     \
        case NVFP4:                                                                                                    \
            f(NVFP4, __VA_ARGS__);                                                                                     \
            break;                                                                                                     \
        case 2:                                                                                                        \
            f(2, __VA_ARGS__);                                                                                         \
            break;                                                                                                     \
        case 3:                                                                                                        \
            f(3, __VA_ARGS__);                                                                                         \
            break;                                                                                                     \
        case 4:                                                                                                        \
            f(4, __VA_ARGS__);                                                                                         \
            break;                                                                                                     \
        case 5:                                                                                                        \
            f(5, __VA_ARGS__);                                                                                         \
            break;                                                                                                     \
        case 6:                                                                                                        \
            f(6, __VA_ARGS__);                                                                                         \
            break;                                                                                                     \
        default:                                                                                                       \
            f(8, __VA_ARGS__);                                                                                         \
        }                                                                                                              \
    } while (0)

static void unpack(const struct packed *p, const unsigned char *tile, int64_t b0, int64_t n, struct panel *out)
{
    BY_KIND(unpack_kind, kind_of(p), p, tile, b0, n, out);
}

/* --- integer dots of a block ----------------------------------------------------------------------------------------
 */

/* What the dots of a part of a block begin with. sum: of the row's activations, by halves of the block. */
VEC_INLINE vi dot_start(const int kind, const int32_t *sum, int part)
{
    const int32_t s = PARTS(kind) == 2 ? sum[part] : sum[0] + sum[1];
    return vi_set1(IS_E2M1(kind) ? -LINEAR_E2M1_ZERO * s : kind == 8 ? VEC_BYTES_ZERO * s : 0);
}

/* R rows by 16 outputs: adds the dots of a part of a block to dot[]. The codes stand as `stored`: their own kind, or as
 * bytes (8) in a panel. q[r]: the rows' activations. */
VEC_INLINE void dot_part(const int R, const int kind, const int stored, const int part, const unsigned char *codes,
                         const int8_t *const q[], vi dot[])
{
    const int n = LINEAR_QUADS / PARTS(kind), j0 = part * n;
#if defined(VEC_DOT)
    VEC_UNROLL
    for (int j = j0; j < j0 + n; j++) {
        vi w = take(stored, codes, j);
        VEC_UNROLL
        for (int r = 0; r < R; r++) {
            vi x = quad(q[r] + 4 * j);
            dot[r] = kind == 8 ? vi_dot_bytes(dot[r], w, x) : vi_dot(dot[r], w, x);
        }
    }
#else
    const int span = kind == 5 || IS_E2M1(kind) ? 4 : kind <= 4 ? 8 : kind == 6 ? 2 : 0;
    vi        s[AFFINE_ROWS];
    VEC_UNROLL
    for (int r = 0; r < R; r++)
        s[r] = vi_set1(0);
    VEC_UNROLL
    for (int j = j0; j < j0 + n; j++) {
        vi w = take(stored, codes, j);
        VEC_UNROLL
        for (int r = 0; r < R; r++) {
            vi x = quad(q[r] + 4 * j);
            if (span == 0) {
                dot[r] = vi_dot_bytes(dot[r], w, x);
                continue;
            }
            x = vi_pairs(w, x);
            s[r] = j % span ? vi_add_pairs(s[r], x) : x;
            if (j % span == span - 1)
                dot[r] = vi_add(dot[r], vi_sum_pairs(s[r]));
        }
    }
#endif
}

/* --- products of integer codes --------------------------------------------------------------------------------------
 */

/* A step of the first chain. */
VEC_INLINE vf chain(vi dot, float sx, vf scale, vf acc)
{
    return vf_fma(vi_float(dot), vf_mul(vf_set1(sx), scale), acc);
}

VEC_INLINE void gemm_rows(const int R, const int kind, const int terms, const struct packed *p,
                          const struct panel *panel, int64_t b0, int64_t n, const struct acts *a, int64_t row,
                          struct chains *c)
{
    const int8_t  *q[AFFINE_ROWS];
    const float   *sx[AFFINE_ROWS], *d[AFFINE_ROWS], *scale = panel->scale[0], *bias = panel->bias[0];
    const int32_t *sum[AFFINE_ROWS];
    const uint8_t *codes = panel->codes[0];
    const int      parts = PARTS(kind);
    vf             acc[AFFINE_ROWS];
    int            per_group = p->group_blocks * terms;
    VEC_UNROLL
    for (int r = 0; r < R; r++) {
        q[r] = acts_q(a, row + r) + b0 * terms * LINEAR_BLOCK;
        sx[r] = acts_sx(a, row + r) + b0 * terms;
        d[r] = acts_d(a, row + r) + b0 * terms;
        sum[r] = acts_sum(a, row + r) + 2 * b0 * terms;
        acc[r] = vf_load(c[r].a);
    }
    for (int64_t i = 0; i < n * terms; scale += PARTS(kind) * LINEAR_TILE)
        for (int64_t end = i + per_group; i < end; codes += LINEAR_BLOCK_BYTES)
            for (int t = 0; t < terms; t++, i++) {
                VEC_UNROLL
                for (int part = 0; part < parts; part++) {
                    vi dot[AFFINE_ROWS];
                    VEC_UNROLL
                    for (int r = 0; r < R; r++)
                        dot[r] = dot_start(kind, sum[r] + 2 * i, part);
                    dot_part(R, kind, 8, part, codes, q, dot);
                    VEC_UNROLL
                    for (int r = 0; r < R; r++)
                        acc[r] = chain(dot[r], sx[r][i], vf_load(scale + part * LINEAR_TILE), acc[r]);
                }
                VEC_UNROLL
                for (int r = 0; r < R; r++)
                    q[r] += LINEAR_BLOCK;
            }
    VEC_UNROLL
    for (int r = 0; r < R; r++)
        vf_store(c[r].a, acc[r]);
    if (IS_E2M1(kind))
        return;
    VEC_UNROLL
    for (int r = 0; r < R; r++)
        acc[r] = vf_load(c[r].b);
    for (int64_t i = 0; i < n * terms; bias += LINEAR_TILE) /* the second chain */
        for (int64_t end = i + per_group; i < end; i++) {
            VEC_UNROLL
            for (int r = 0; r < R; r++)
                acc[r] = vf_fma(vf_set1(d[r][i]), vf_load(bias), acc[r]);
        }
    VEC_UNROLL
    for (int r = 0; r < R; r++)
        vf_store(c[r].b, acc[r]);
}

VEC_INLINE void gemm_terms(const int kind, const int terms, const struct packed *p, const struct panel *panel,
                           int64_t b0, int64_t n, const struct acts *a, int64_t row, int64_t n_row, struct chains *c)
{
    for (; n_row >= AFFINE_ROWS; n_row -= AFFINE_ROWS, row += AFFINE_ROWS, c += AFFINE_ROWS)
        gemm_rows(AFFINE_ROWS, kind, terms, p, panel, b0, n, a, row, c);
    for (; n_row > 0; n_row--, row++, c++)
        gemm_rows(1, kind, terms, p, panel, b0, n, a, row, c);
}

VEC_INLINE void gemm_kind(const int kind, const struct packed *p, const struct panel *panel, int64_t b0, int64_t n,
                          const struct acts *a, int64_t row, int64_t n_row, struct chains *c)
{
    if (a->terms == 1)
        gemm_terms(kind, 1, p, panel, b0, n, a, row, n_row, c);
    else
        gemm_terms(kind, 2, p, panel, b0, n, a, row, n_row, c);
}

/* As bytes, 2 and 3 bits are like 4. */
static void gemm(const struct packed *p, const struct panel *panel, int64_t b0, int64_t n, const struct acts *a,
                 int64_t row, int64_t n_row, struct chains *c)
{
    switch (kind_of(p)) {
    case MXFP4:
        gemm_kind(MXFP4, p, panel, b0, n, a, row, n_row, c);
        break;
    case NVFP4:
        gemm_kind(NVFP4, p, panel, b0, n, a, row, n_row, c);
        break;
    case 5:
        gemm_kind(5, p, panel, b0, n, a, row, n_row, c);
        break;
    case 6:
        gemm_kind(6, p, panel, b0, n, a, row, n_row, c);
        break;
    case 8:
        gemm_kind(8, p, panel, b0, n, a, row, n_row, c);
        break;
    default:
        gemm_kind(4, p, panel, b0, n, a, row, n_row, c);
    }
}

VEC_INLINE void gemv_terms(const int kind, const int terms, const struct packed *p, const unsigned char *tile,
                           const struct acts *a, int64_t row, struct chains *c)
{
    const int8_t  *q = acts_q(a, row);
    const float   *sx = acts_sx(a, row), *d = acts_d(a, row);
    const int32_t *sum = acts_sum(a, row);
    const int      parts = PARTS(kind);
    vf             acc = vf_set1(0), acc_bias = acc;
    for (int64_t i = 0; i < a->blocks; tile += scales_size(kind, p->dtype)) {
        const unsigned char *s = tile + (size_t)p->group_blocks * p->block_size;
        vf                   scale[2], bias;
        for (int part = 0; part < parts; part++)
            scale[part] = load_scale(kind, p->dtype, s, part);
        bias = IS_E2M1(kind) ? acc_bias : widen(p->dtype, s + row16_size(p->dtype));
        for (; tile < s; tile += STORED(kind) * LINEAR_QUAD_BYTES) {
            ask_ahead(kind, tile);
            VEC_UNROLL
            for (int t = 0; t < terms; t++, i++, q += LINEAR_BLOCK) {
                VEC_UNROLL
                for (int part = 0; part < parts; part++) {
                    vi dot = dot_start(kind, sum + 2 * i, part);
                    dot_part(1, kind, kind, part, tile, &q, &dot);
                    acc = chain(dot, sx[i], scale[part], acc);
                }
                if (!IS_E2M1(kind))
                    acc_bias = vf_fma(vf_set1(d[i]), bias, acc_bias);
            }
        }
    }
    vf_store(c->a, acc);
    vf_store(c->b, acc_bias);
}

VEC_INLINE void gemv_kind(const int kind, const struct packed *p, const unsigned char *tile, const struct acts *a,
                          int64_t row, struct chains *c)
{
    if (a->terms == 1)
        gemv_terms(kind, 1, p, tile, a, row, c);
    else
        gemv_terms(kind, 2, p, tile, a, row, c);
}

static void gemv(const struct packed *p, const unsigned char *tile, const struct acts *a, int64_t row, struct chains *c)
{
    BY_KIND(gemv_kind, kind_of(p), p, tile, a, row, c);
}

#define LINEAR_FNS(quantize)                                                                                           \
    {                                                                                                                  \
        quantize, unpack, gemm, gemv, dense, dense_gemv                                                                \
    }

#endif
