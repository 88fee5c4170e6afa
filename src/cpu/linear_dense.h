/* Dense products: one lane is one output of a tile, an input of a row is a scalar for all lanes. Part of
 * linear_kernels.h, which see; docs/order-law.md has the sequence of operations.
 */
#ifndef MLXCEL_CPU_LINEAR_DENSE_H
#define MLXCEL_CPU_LINEAR_DENSE_H

#include "base/num.h"
#include "cpu/linear.h"
#include "cpu/linear_vec.h"

/* Rows of a register tile: their sums, the weights and an input fill the registers; DENSE_PART are enough to keep the
 * multipliers busy. From PANEL_ROWS rows on, weights are widened once for all rows, not once for each register tile. */
#if defined(VEC_AVX512)
enum { DENSE_ROWS = 12, DENSE_PART = 8, PANEL_ROWS = 2 * DENSE_ROWS };
#else
enum { DENSE_ROWS = 6, DENSE_PART = 4, PANEL_ROWS = 2 * DENSE_ROWS };
#endif

/* mxfp8 with one row: tiles side by side whose sums fit the registers beside what widening takes. */
enum { FP8_TILES = 2 };

/* 16 elements of type d as float32. */
VEC_INLINE vf widen(enum dtype d, const void *p)
{
    return d == DTYPE_F8_E4M3 ? vf_load_e4m3_256th(p) : vf_load_as(d, p);
}

VEC_INLINE size_t row16_size(enum dtype d)
{
    return LINEAR_TILE * (size_t)(d == DTYPE_F32 ? 4 : d == DTYPE_F8_E4M3 ? 1 : 2);
}

/* mxfp8: the scales of the block at *w, times the 256 that widened codes lack; *w is moved to its codes. */
VEC_INLINE vf block_scale(const unsigned char **w)
{
    vf scale = vf_mul(vf_load_e8m0(*w), vf_set1(256));
    *w += LINEAR_TILE;
    return scale;
}

/* n inputs of a tile of type d as float32; mxfp8: whole blocks, their codes / 256, and for each block 256 times its
 * scales. */
VEC_INLINE void widen_inputs(const enum dtype d, const unsigned char *w, int64_t n, float *out, float *scale)
{
    for (int64_t k = 0, end; k < n;) {
        end = d == DTYPE_F8_E4M3 ? k + LINEAR_BLOCK : n;
        if (d == DTYPE_F8_E4M3) {
            vf_store(scale, block_scale(&w));
            scale += LINEAR_TILE;
        }
        for (; k < end; k++, w += row16_size(d), out += LINEAR_TILE)
            vf_store(out, widen(d, w));
    }
}

/* R rows. scale: NULL, or a vector for each block of inputs, whose sum then is a chain of its own. */
VEC_INLINE void dense_rows(const int R, const enum dtype type, const unsigned char *w, const float *scale, int64_t n,
                           const float *x, int64_t x_stride, struct chains *c)
{
    vf acc[DENSE_ROWS];
    VEC_UNROLL
    for (int r = 0; r < R; r++)
        acc[r] = scale ? vf_set1(0) : vf_load(c[r].a);
    for (int64_t k = 0, end; k < n;) {
        end = scale ? k + LINEAR_BLOCK : n;
        for (; k < end; k++, w += row16_size(type)) {
            vf v = widen(type, w);
            VEC_UNROLL
            for (int r = 0; r < R; r++)
                acc[r] = vf_fma(vf_set1(x[r * x_stride + k]), v, acc[r]);
        }
        VEC_UNROLL
        for (int r = 0; r < R && scale; r++) {
            vf_store(c[r].a, vf_fma(acc[r], vf_load(scale), vf_load(c[r].a)));
            acc[r] = vf_set1(0);
        }
        scale = scale ? scale + LINEAR_TILE : NULL;
    }
    VEC_UNROLL
    for (int r = 0; r < R && !scale; r++)
        vf_store(c[r].a, acc[r]);
}

VEC_INLINE void dense_type(const enum dtype type, const unsigned char *w, const float *scale, int64_t n, const float *x,
                           int64_t x_stride, int64_t n_row, struct chains *c)
{
    for (; n_row >= DENSE_ROWS && n_row != 2 * DENSE_PART;
         n_row -= DENSE_ROWS, x += DENSE_ROWS * x_stride, c += DENSE_ROWS)
        dense_rows(DENSE_ROWS, type, w, scale, n, x, x_stride, c);
    for (; n_row >= DENSE_PART; n_row -= DENSE_PART, x += DENSE_PART * x_stride, c += DENSE_PART)
        dense_rows(DENSE_PART, type, w, scale, n, x, x_stride, c);
    for (; n_row >= 2; n_row -= 2, x += 2 * x_stride, c += 2)
        dense_rows(2, type, w, scale, n, x, x_stride, c);
    if (n_row)
        dense_rows(1, type, w, scale, n, x, x_stride, c);
}

VEC_INLINE void dense_widened(const enum dtype type, const unsigned char *w, int64_t n, const float *x,
                              int64_t x_stride, int64_t n_row, struct chains *c)
{
    _Alignas(64) float panel[LINEAR_PANEL_K * LINEAR_TILE], scale[LINEAR_PANEL_K / LINEAR_BLOCK * LINEAR_TILE];
    if (type == DTYPE_F32 || (type != DTYPE_F8_E4M3 && n_row < PANEL_ROWS)) {
        dense_type(type, w, NULL, n, x, x_stride, n_row, c);
        return;
    }
    widen_inputs(type, w, n, panel, scale);
    if (type == DTYPE_F8_E4M3)
        dense_type(DTYPE_F32, (const unsigned char *)panel, scale, n, x, x_stride, n_row, c);
    else
        dense_type(DTYPE_F32, (const unsigned char *)panel, NULL, n, x, x_stride, n_row, c);
}

static void dense(const struct packed *p, const unsigned char *tile, int64_t k0, int64_t n, const float *x,
                  int64_t x_stride, int64_t n_row, struct chains *c)
{
    const unsigned char *w = tile + (size_t)k0 * row16_size(p->dtype);
    if (p->dtype == DTYPE_F8_E4M3) /* k0 begins a block */
        dense_widened(DTYPE_F8_E4M3, w + k0 / LINEAR_BLOCK * LINEAR_TILE, n, x + k0, x_stride, n_row, c);
    else if (p->dtype == DTYPE_F32)
        dense_widened(DTYPE_F32, w, n, x + k0, x_stride, n_row, c);
    else if (p->dtype == DTYPE_F16)
        dense_widened(DTYPE_F16, w, n, x + k0, x_stride, n_row, c);
    else
        dense_widened(DTYPE_BF16, w, n, x + k0, x_stride, n_row, c);
}

/* T tiles side by side: independent chains, which hide the latency of the sums. */
VEC_INLINE void dense_tiles(const int T, const enum dtype type, size_t tile_size, const unsigned char *w, int64_t n,
                            const float *x, struct chains *c)
{
    vf acc[LINEAR_GEMV_TILES];
    VEC_UNROLL
    for (int t = 0; t < T; t++)
        acc[t] = vf_set1(0);
    for (int64_t k = 0; k < n; k++, w += row16_size(type)) {
        vf xk = vf_set1(x[k]);
        VEC_UNROLL
        for (int t = 0; t < T; t++)
            acc[t] = vf_fma(xk, widen(type, w + (size_t)t * tile_size), acc[t]);
    }
    VEC_UNROLL
    for (int t = 0; t < T; t++)
        vf_store(c[t].a, acc[t]);
}

/* The same for mxfp8, block by block. Widening is what takes time, so it goes two inputs at a time. */
VEC_INLINE void fp8_tiles(const int T, size_t tile_size, const unsigned char *w, int64_t n, const float *x,
                          struct chains *c)
{
    vf acc[FP8_TILES], sum[FP8_TILES];
    VEC_UNROLL
    for (int t = 0; t < T; t++)
        acc[t] = vf_set1(0);
    for (int64_t k = 0; k < n; w += LINEAR_FP8_BLOCK) {
        VEC_UNROLL
        for (int t = 0; t < T; t++)
            sum[t] = vf_set1(0);
        for (int i = 1; i <= LINEAR_BLOCK; i += 2, k += 2) {
            const vf x0 = vf_set1(x[k]), x1 = vf_set1(x[k + 1]);
            VEC_UNROLL
            for (int t = 0; t < T; t++) {
                vf v[2];
                vf_load2_e4m3_256th(w + (size_t)t * tile_size + i * LINEAR_TILE, v);
                sum[t] = vf_fma(x1, v[1], vf_fma(x0, v[0], sum[t]));
            }
        }
        VEC_UNROLL
        for (int t = 0; t < T; t++) {
            const unsigned char *scale = w + (size_t)t * tile_size;
            acc[t] = vf_fma(sum[t], block_scale(&scale), acc[t]);
        }
    }
    VEC_UNROLL
    for (int t = 0; t < T; t++)
        vf_store(c[t].a, acc[t]);
}

static void fp8_gemv(const struct packed *p, const unsigned char *tile, int n_tile, const float *x, struct chains *c)
{
    for (; n_tile >= FP8_TILES; n_tile -= FP8_TILES, tile += FP8_TILES * p->tile_size, c += FP8_TILES)
        fp8_tiles(FP8_TILES, p->tile_size, tile, p->n_in, x, c);
    for (; n_tile > 0; n_tile--, tile += p->tile_size, c++)
        fp8_tiles(1, p->tile_size, tile, p->n_in, x, c);
}

VEC_INLINE void dense_gemv_type(const enum dtype type, const struct packed *p, const unsigned char *tile, int n_tile,
                                const float *x, struct chains *c)
{
    if (n_tile == LINEAR_GEMV_TILES) {
        dense_tiles(LINEAR_GEMV_TILES, type, p->tile_size, tile, p->n_in, x, c);
        return;
    }
    for (int t = 0; t < n_tile; t++)
        dense_tiles(1, type, p->tile_size, tile + (size_t)t * p->tile_size, p->n_in, x, c + t);
}

static void dense_gemv(const struct packed *p, const unsigned char *tile, int n_tile, const float *x, struct chains *c)
{
    if (p->dtype == DTYPE_F8_E4M3)
        fp8_gemv(p, tile, n_tile, x, c);
    else if (p->dtype == DTYPE_F32)
        dense_gemv_type(DTYPE_F32, p, tile, n_tile, x, c);
    else if (p->dtype == DTYPE_F16)
        dense_gemv_type(DTYPE_F16, p, tile, n_tile, x, c);
    else
        dense_gemv_type(DTYPE_BF16, p, tile, n_tile, x, c);
}

#endif
