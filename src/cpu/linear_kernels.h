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

/* Rows of a register tile, a divisor of LINEAR_GROUP, and whether both chains are computed together. AVX2 (NEON), 16 (32)
 * registers of a half (quarter) of a tile: 4 rows of sums, reloaded sums and a quad of weights. */
#if defined(VEC_AVX512)
enum { AFFINE_ROWS = 8, MERGED = 1 };
#else
enum { AFFINE_ROWS = 4, MERGED = 0 };
#endif

/* What codes are, a constant of each kernel: their width in bits, or these. In a panel they stand as operands. */
#define MXFP4 -4
#define NVFP4 -16
#define OPERANDS 0

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

/* The codes of quad j of a block as operands of a dot: unsigned bytes, those of 8 bits as vi_dot_bytes takes them. */
VEC_INLINE vi take(const int kind, const unsigned char *block, int j)
{
    static const uint8_t e2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    const int            bits = kind == OPERANDS ? 8 : STORED(kind);
    const int            low = bits == 8 ? 8 : bits >= 4 ? 4 : 2, rest = bits - low;
    vi                   c = vi_load(block + j % low * LINEAR_QUAD_BYTES);
    if (low < 8)
        c = vi_bits(c, -low * (j / low), (1 << low) - 1);
    if (rest) {
        vi high = vi_load(block + (low + j % rest) * LINEAR_QUAD_BYTES);
        c = vi_or(c, vi_bits(high, low - rest * (j / rest), ((1 << rest) - 1) << low));
    }
    return IS_E2M1(kind) ? vi_table(e2m1, c) : kind == 8 ? vi_bytes(c) : c;
}

/* Asks for the memory of a later block. Beyond the last it asks in vain. */
VEC_INLINE void ask_ahead(const int kind, const unsigned char *block)
{
    const int lines = STORED(kind);
    VEC_UNROLL
    for (int j = 0; j < lines; j++)
        __builtin_prefetch((const void *)((uintptr_t)block + LINEAR_AHEAD + (uintptr_t)j * LINEAR_QUAD_BYTES));
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

/* R rows by 16 outputs: adds the dots of a part of a block to dot[]. The codes stand as `stored`: their own kind, or
 * OPERANDS. x: the block of the first row; the others follow at `step`. */
VEC_INLINE void dot_part(const int R, const int kind, const int stored, const int part, const unsigned char *codes,
                         const struct qblock *x, int64_t step, vi dot[])
{
    const int n = LINEAR_QUADS / PARTS(kind), j0 = part * n;
#if defined(VEC_DOT)
    VEC_UNROLL
    for (int j = j0; j < j0 + n; j++) {
        vi w = take(stored, codes, j);
        VEC_UNROLL
        for (int r = 0; r < R; r++) {
            vi v = quad(x[r * step].q + 4 * j);
            dot[r] = kind == 8 ? vi_dot_bytes(dot[r], w, v) : vi_dot(dot[r], w, v);
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
            vi v = quad(x[r * step].q + 4 * j);
            if (span == 0) {
                dot[r] = vi_dot_bytes(dot[r], w, v);
                continue;
            }
            v = vi_pairs(w, v);
            s[r] = j % span ? vi_add_pairs(s[r], v) : v;
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

/* A step of the second chain. */
VEC_INLINE vf chain_bias(const struct qblock *x, vf bias, vf acc)
{
    return vf_fma(vf_set1(x->d), bias, acc);
}

/* Row r of a finished tile. */
VEC_INLINE void put(const struct tile_out *out, int64_t r, vf v)
{
    float *y = out->y + r * out->stride;
    if (out->n == LINEAR_TILE) {
        vf_store(y, out->bias ? vf_add(v, vf_load(out->bias)) : v);
        return;
    }
    vf_store_part(y, out->bias ? vf_add(v, vf_load_part(out->bias, out->n)) : v, out->n);
}

/* The second chain of R rows over n blocks. */
VEC_INLINE void gemm_bias(const int R, int64_t n, int per_group, const struct qblock *x, int group, const float *bias,
                          vf acc[])
{
    for (int64_t i = 0; i < n; bias += LINEAR_TILE) {
        vf b = vf_load(bias);
        for (int64_t end = i + per_group; i < end; i++, x += group) {
            VEC_UNROLL
            for (int r = 0; r < R; r++)
                acc[r] = chain_bias(x + r, b, acc[r]);
        }
    }
}

/* The chains of R rows over a panel. acc_bias: the second chain, here if registers suffice for both (MERGED). */
VEC_INLINE void gemm_chains(const int R, const int kind, const int terms, int64_t n, int group_blocks,
                            const struct panel *panel, const struct qblock *x, int group, vf acc[], vf acc_bias[])
{
    const float   *scale = panel->scale[0], *bias = panel->bias[0];
    const uint8_t *codes = panel->codes[0];
    const int      parts = PARTS(kind);
    for (int64_t b = 0; b < n; scale += parts * LINEAR_TILE, bias += LINEAR_TILE)
        for (int64_t end = b + group_blocks; b < end; b++, codes += LINEAR_BLOCK_BYTES)
            for (int t = 0; t < terms; t++, x += group) {
                VEC_UNROLL
                for (int part = 0; part < parts; part++) {
                    vi dot[AFFINE_ROWS];
                    VEC_UNROLL
                    for (int r = 0; r < R; r++)
                        dot[r] = dot_start(kind, x[r].sum, part);
                    dot_part(R, kind, OPERANDS, part, codes, x, 1, dot);
                    VEC_UNROLL
                    for (int r = 0; r < R; r++)
                        acc[r] = chain(dot[r], x[r].sx, vf_load(scale + part * LINEAR_TILE), acc[r]);
                }
                if (MERGED && !IS_E2M1(kind)) {
                    VEC_UNROLL
                    for (int r = 0; r < R; r++)
                        acc_bias[r] = chain_bias(x + r, vf_load(bias), acc_bias[r]);
                }
            }
}

VEC_INLINE void gemm_rows(const int R, const int kind, const int terms, const struct packed *p,
                          const struct panel *panel, int64_t b0, int64_t n, const struct acts *a, int64_t row,
                          int64_t r0, struct chains *c, const struct tile_out *out)
{
    const struct qblock *x = acts_at(a, row + r0, b0 * terms);
    const bool           first = b0 == 0, last = b0 + n == linear_blocks(p->n_in);
    vf                   acc[AFFINE_ROWS], acc_bias[AFFINE_ROWS];
    c += r0;
    VEC_UNROLL
    for (int r = 0; r < R; r++) {
        if (last)
            __builtin_prefetch(out->y + (r0 + r) * out->stride, 1);
        acc[r] = first ? vf_set1(0) : vf_load(c[r].a);
        if (MERGED)
            acc_bias[r] = first ? vf_set1(0) : vf_load(c[r].b);
    }
    gemm_chains(R, kind, terms, n, p->group_blocks, panel, x, a->group, acc, acc_bias);
    if (!MERGED && !IS_E2M1(kind)) {
        VEC_UNROLL
        for (int r = 0; r < R; r++) {
            vf_store(c[r].a, acc[r]);
            acc_bias[r] = first ? vf_set1(0) : vf_load(c[r].b);
        }
        gemm_bias(R, n * terms, p->group_blocks * terms, x, a->group, panel->bias[0], acc_bias);
        VEC_UNROLL
        for (int r = 0; r < R; r++)
            acc[r] = vf_load(c[r].a);
    }
    VEC_UNROLL
    for (int r = 0; r < R; r++) {
        if (last) {
            put(out, r0 + r, IS_E2M1(kind) ? acc[r] : vf_add(acc[r], acc_bias[r]));
            continue;
        }
        vf_store(c[r].a, acc[r]);
        if (!IS_E2M1(kind))
            vf_store(c[r].b, acc_bias[r]);
    }
}

VEC_INLINE void gemm_terms(const int kind, const int terms, const struct packed *p, const struct panel *panel,
                           int64_t b0, int64_t n, const struct acts *a, int64_t row, int64_t n_row, struct chains *c,
                           const struct tile_out *out)
{
    for (int64_t r = 0; r < n_row; r += AFFINE_ROWS)
        gemm_rows(AFFINE_ROWS, kind, terms, p, panel, b0, n, a, row, r, c, out);
}

VEC_INLINE void gemm_kind(const int kind, const struct packed *p, const struct panel *panel, int64_t b0, int64_t n,
                          const struct acts *a, int64_t row, int64_t n_row, struct chains *c,
                          const struct tile_out *out)
{
    if (a->terms == 1)
        gemm_terms(kind, 1, p, panel, b0, n, a, row, n_row, c, out);
    else
        gemm_terms(kind, 2, p, panel, b0, n, a, row, n_row, c, out);
}

/* As bytes, 2 and 3 bits are like 4. */
static void gemm(const struct packed *p, const struct panel *panel, int64_t b0, int64_t n, const struct acts *a,
                 int64_t row, int64_t n_row, struct chains *c, const struct tile_out *out)
{
    switch (kind_of(p)) {
    case MXFP4:
        gemm_kind(MXFP4, p, panel, b0, n, a, row, n_row, c, out);
        break;
    case NVFP4:
        gemm_kind(NVFP4, p, panel, b0, n, a, row, n_row, c, out);
        break;
    case 5:
        gemm_kind(5, p, panel, b0, n, a, row, n_row, c, out);
        break;
    case 6:
        gemm_kind(6, p, panel, b0, n, a, row, n_row, c, out);
        break;
    case 8:
        gemm_kind(8, p, panel, b0, n, a, row, n_row, c, out);
        break;
    default:
        gemm_kind(4, p, panel, b0, n, a, row, n_row, c, out);
    }
}

/* A block of R rows. The two terms of a single row are as two rows. */
VEC_INLINE void stream_block(const int R, const int kind, const int terms, const unsigned char *codes,
                             const struct qblock *x, int64_t group, const vf scale[], vf bias, vf acc[], vf acc_bias[])
{
    const int parts = PARTS(kind), together = R == 1 ? terms : 1, n = R * together;
    VEC_UNROLL
    for (int t = 0; t < terms; t += together, x += group) {
        const int64_t step = R == 1 ? group : 1;
        vi            dot[2][AFFINE_ROWS];
        VEC_UNROLL
        for (int part = 0; part < parts; part++) {
            VEC_UNROLL
            for (int i = 0; i < n; i++)
                dot[part][i] = dot_start(kind, x[i * step].sum, part);
            dot_part(n, kind, kind, part, codes, x, step, dot[part]);
        }
        VEC_UNROLL
        for (int i = 0; i < n; i++) {
            VEC_UNROLL
            for (int part = 0; part < parts; part++)
                acc[i % R] = chain(dot[part][i], x[i * step].sx, scale[part], acc[i % R]);
            if (!IS_E2M1(kind))
                acc_bias[i % R] = chain_bias(x + i * step, bias, acc_bias[i % R]);
        }
    }
}

/* R rows of a tile, whose codes are taken as they stand in it. */
VEC_INLINE void stream_rows(const int R, const int kind, const int terms, const struct packed *p,
                            const unsigned char *tile, const struct acts *a, int64_t row, int64_t r0,
                            const struct tile_out *out)
{
    const struct qblock *x = acts_at(a, row + r0, 0), *end = x + a->blocks * a->group;
    const int            parts = PARTS(kind), group = a->group;
    vf                   acc[AFFINE_ROWS], acc_bias[AFFINE_ROWS];
    VEC_UNROLL
    for (int r = 0; r < R; r++)
        acc[r] = acc_bias[r] = vf_set1(0);
    for (; x < end; tile += scales_size(kind, p->dtype)) {
        const unsigned char *s = tile + (size_t)p->group_blocks * p->block_size;
        vf                   scale[2], bias;
        for (int part = 0; part < parts; part++)
            scale[part] = load_scale(kind, p->dtype, s, part);
        bias = IS_E2M1(kind) ? scale[0] : widen(p->dtype, s + row16_size(p->dtype));
        for (; tile < s; tile += STORED(kind) * LINEAR_QUAD_BYTES) {
            ask_ahead(kind, tile);
            stream_block(R, kind, terms, tile, x, group, scale, bias, acc, acc_bias);
            x += terms * group;
        }
    }
    VEC_UNROLL
    for (int r = 0; r < R; r++)
        put(out, r0 + r, IS_E2M1(kind) ? acc[r] : vf_add(acc[r], acc_bias[r]));
}

VEC_INLINE void stream_terms(const int kind, const int terms, const struct packed *p, const unsigned char *tile,
                             const struct acts *a, int64_t row, int64_t n_row, const struct tile_out *out)
{
    int64_t r = 0;
    for (; n_row - r >= AFFINE_ROWS; r += AFFINE_ROWS)
        stream_rows(AFFINE_ROWS, kind, terms, p, tile, a, row, r, out);
    for (; n_row - r >= AFFINE_ROWS / 2; r += AFFINE_ROWS / 2)
        stream_rows(AFFINE_ROWS / 2, kind, terms, p, tile, a, row, r, out);
    for (; r < n_row; r++)
        stream_rows(1, kind, terms, p, tile, a, row, r, out);
}

VEC_INLINE void stream_kind(const int kind, const struct packed *p, const unsigned char *tile, const struct acts *a,
                            int64_t row, int64_t n_row, const struct tile_out *out)
{
    if (a->terms == 1)
        stream_terms(kind, 1, p, tile, a, row, n_row, out);
    else
        stream_terms(kind, 2, p, tile, a, row, n_row, out);
}

static void stream(const struct packed *p, const unsigned char *tile, const struct acts *a, int64_t row, int64_t n_row,
                   const struct tile_out *out)
{
    BY_KIND(stream_kind, kind_of(p), p, tile, a, row, n_row, out);
}

#define LINEAR_FNS(quantize)                                                                                           \
    {                                                                                                                  \
        quantize, AFFINE_ROWS, unpack, gemm, stream, dense, dense_gemv                                                 \
    }

#endif
