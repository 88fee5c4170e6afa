/* The kernels of lora.h on vec.h's lanes; included once by the file of each instruction set, which names the table.
 *
 * shrink: a register block of rows of x and rows of a, one vector of 16 chains for each pair of them, so that what is
 * read of a is widened once for several rows. expand: one row has its four chains side by side; several rows take the
 * chains one after the other, so that an element of b serves all of them.
 */
#ifndef MLXCEL_CPU_LORA_KERNELS_H
#define MLXCEL_CPU_LORA_KERNELS_H

#include "base/num.h"
#include "cpu/lora.h"
#include "cpu/vec.h"

/* Register blocks: rows of x by rows of a, then rows of a for one row of x; rows of y. */
#if defined(VEC_AVX512)
enum { SHRINK_ROWS = 4, SHRINK_COLS = 4, SHRINK_ONE = 8, EXPAND_ROWS = 8 };
#elif defined(VEC_SCALAR)
enum { SHRINK_ROWS = 2, SHRINK_COLS = 1, SHRINK_ONE = 1, EXPAND_ROWS = 2 };
#else
enum { SHRINK_ROWS = 3, SHRINK_COLS = 2, SHRINK_ONE = 4, EXPAND_ROWS = 4 };
#endif
enum { EXPAND_CHAINS = 4 };

/* Asks for memory that is read soon. Beyond the last it asks in vain. */
VEC_INLINE void ask(const char *p, size_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)p + ahead));
}

VEC_INLINE size_t elem_size(const enum dtype type)
{
    return type == DTYPE_F32 ? 4 : 2;
}

/* Calls f with the type as a constant. */
#define BY_TYPE(f, type, ...)                                                                                          \
    do {                                                                                                               \
        if ((type) == DTYPE_F32)                                                                                       \
            f(DTYPE_F32, __VA_ARGS__);                                                                                 \
        else if ((type) == DTYPE_F16)                                                                                  \
            f(DTYPE_F16, __VA_ARGS__);                                                                                 \
        else                                                                                                           \
            f(DTYPE_BF16, __VA_ARGS__);                                                                                \
    } while (0)

/* --- z = s A x ------------------------------------------------------------------------------------------------------
 */

/* Rows of x and where their results go. */
struct shrink {
    const float *x;
    int64_t      x_stride, n_in;
    float        s;
    float       *z;
    int64_t      z_stride;
};

/* R rows of x by J of a, whose rows are `stride` bytes apart. */
VEC_INLINE void shrink_block(const int R, const int J, const enum dtype type, const char *a, size_t stride,
                             const struct shrink *k)
{
    const int64_t whole = k->n_in & -VEC_LANES;
    const int     rest = (int)(k->n_in - whole);
    vf            acc[MAX(SHRINK_ROWS * SHRINK_COLS, SHRINK_ONE)];
    VEC_UNROLL
    for (int i = 0; i < R * J; i++)
        acc[i] = vf_set1(0);
    for (int64_t i = 0; i < whole; i += VEC_LANES) {
        VEC_UNROLL
        for (int j = 0; j < J; j++) {
            const char *at = a + (size_t)j * stride + (size_t)i * elem_size(type);
            vf          v = vf_load_as(type, at);
            if (R == 1)
                ask(at, J * stride); /* the next rows of a */
            VEC_UNROLL
            for (int r = 0; r < R; r++)
                acc[r * J + j] = vf_fma(v, vf_load(k->x + r * k->x_stride + i), acc[r * J + j]);
        }
    }
    for (int j = 0; j < J && rest; j++) {
        vf v = vf_load_as(type, a + (size_t)j * stride + (size_t)whole * elem_size(type));
        VEC_UNROLL
        for (int r = 0; r < R; r++)
            acc[r * J + j] = vf_fma(v, vf_load_part(k->x + r * k->x_stride + whole, rest), acc[r * J + j]);
    }
    VEC_UNROLL
    for (int r = 0; r < R; r++)
        for (int j = 0; j < J; j++)
            k->z[r * k->z_stride + j] = k->s * vf_sum(acc[r * J + j]);
}

/* R rows of x by n of a, J at a time. */
VEC_INLINE void shrink_rows(const int R, const int J, const enum dtype type, const char *a, size_t stride, int64_t n,
                            struct shrink k)
{
    for (; n >= J; n -= J, a += J * stride, k.z += J)
        shrink_block(R, J, type, a, stride, &k);
    for (; n > 0; n--, a += stride, k.z++)
        shrink_block(R, 1, type, a, stride, &k);
}

VEC_INLINE void shrink_type(const enum dtype type, const struct lora_pair *p, int64_t j0, int64_t n, int64_t n_row,
                            struct shrink *k)
{
    const size_t stride = (size_t)lora_a_row(p) * elem_size(type);
    const char  *a = (const char *)p->a + (size_t)j0 * stride;
    for (; n_row >= SHRINK_ROWS; n_row -= SHRINK_ROWS) {
        shrink_rows(SHRINK_ROWS, SHRINK_COLS, type, a, stride, n, *k);
        k->x += SHRINK_ROWS * k->x_stride;
        k->z += SHRINK_ROWS * k->z_stride;
    }
    for (; n_row > 0; n_row--, k->x += k->x_stride, k->z += k->z_stride)
        shrink_rows(1, SHRINK_ONE, type, a, stride, n, *k);
}

static void shrink(const struct lora_pair *p, int64_t j0, int64_t j1, const float *x, int64_t x_stride, int64_t n_row,
                   float s, float *z, int64_t z_stride)
{
    struct shrink k = {x, x_stride, p->n_in, s, z + j0, z_stride};
    BY_TYPE(shrink_type, p->a_type, p, j0, j1 - j0, n_row, &k);
}

/* --- y += B z -------------------------------------------------------------------------------------------------------
 */

/* The first n of a tile's outputs. */
VEC_INLINE vf load_out(const float *y, int n)
{
    return n == LORA_LANES ? vf_load(y) : vf_load_part(y, n);
}

/* Writes lanes lo .. hi - 1 of v over y, whose n outputs are `old`. */
VEC_INLINE void store_out(float *y, vf v, vf old, int n, int lo, int hi)
{
    if (lo > 0 || hi < n)
        v = vf_keep(v, lo, hi, old);
    if (n == LORA_LANES)
        vf_store(y, v);
    else
        vf_store_part(y, v, n);
}

VEC_INLINE void add_out(float *y, vf v, int n, int lo, int hi)
{
    vf old = load_out(y, n);
    store_out(y, vf_add(old, v), old, n, lo, hi);
}

/* The tiles of `out` with outputs to write, at o: n of them there, lo .. hi - 1 to write. */
#define EACH_TILE(out, o, n, lo, hi)                                                                                   \
    for (int64_t o = (out)->lo & -LORA_LANES; o < (out)->hi; o += LORA_LANES)                                          \
        for (int n = (int)MIN((out)->n - o, LORA_LANES), lo = (int)MAX((out)->lo - o, 0),                              \
                 hi = (int)MIN((out)->hi - o, n), once = 1;                                                            \
             once; once = 0)

/* B z of one row. ahead: bytes to what the next call needs. */
VEC_INLINE vf expand_one(const enum dtype type, const char *b, size_t stride, size_t ahead, int64_t rank,
                         const float *z)
{
    vf      p[EXPAND_CHAINS];
    int64_t j = 0;
    VEC_UNROLL
    for (int i = 0; i < EXPAND_CHAINS; i++)
        p[i] = vf_set1(0);
    for (; j + EXPAND_CHAINS <= rank; j += EXPAND_CHAINS) {
        VEC_UNROLL
        for (int i = 0; i < EXPAND_CHAINS; i++, b += stride) {
            p[i] = vf_fma(vf_set1(z[j + i]), vf_load_as(type, b), p[i]);
            ask(b, ahead);
        }
    }
    VEC_UNROLL
    for (int i = 0; i < EXPAND_CHAINS - 1; i++, b += stride)
        if (j + i < rank) {
            p[i] = vf_fma(vf_set1(z[j + i]), vf_load_as(type, b), p[i]);
            ask(b, ahead);
        }
    return vf_add(vf_add(p[0], p[1]), vf_add(p[2], p[3]));
}

/* Chain i of EXPAND_ROWS rows. */
VEC_INLINE void expand_chain(const enum dtype type, const char *b, size_t stride, int64_t rank, int i, const float *z,
                             int64_t z_stride, vf p[])
{
    VEC_UNROLL
    for (int r = 0; r < EXPAND_ROWS; r++)
        p[r] = vf_set1(0);
    for (int64_t j = i; j < rank; j += EXPAND_CHAINS) {
        vf v = vf_load_as(type, b + (size_t)j * stride);
        VEC_UNROLL
        for (int r = 0; r < EXPAND_ROWS; r++)
            p[r] = vf_fma(vf_set1(z[r * z_stride + j]), v, p[r]);
    }
}

/* Those of EXPAND_ROWS rows. */
VEC_INLINE void expand_several(const enum dtype type, const char *b, size_t stride, int64_t rank, const float *z,
                               int64_t z_stride, vf t[])
{
    vf p[EXPAND_ROWS], q[EXPAND_ROWS];
    for (int h = 0; h < 2; h++) { /* p0 + p1, p2 + p3 */
        expand_chain(type, b, stride, rank, 2 * h, z, z_stride, p);
        expand_chain(type, b, stride, rank, 2 * h + 1, z, z_stride, q);
        VEC_UNROLL
        for (int r = 0; r < EXPAND_ROWS; r++)
            t[r] = h ? vf_add(t[r], vf_add(p[r], q[r])) : vf_add(p[r], q[r]);
    }
}

VEC_INLINE void expand_type(const enum dtype type, const char *b, int64_t b_row, int64_t b_tile, int64_t rank,
                            const float *z, int64_t z_stride, int64_t n_row, const struct lora_out *out)
{
    const size_t stride = (size_t)b_row * elem_size(type), step = (size_t)b_tile * elem_size(type);
    const size_t ahead = step * (size_t)((out->n + LORA_LANES - 1) / LORA_LANES);
    EACH_TILE(out, o, n, lo, hi)
    {
        float  *y = out->y + o;
        int64_t r = 0;
        for (; r + EXPAND_ROWS <= n_row; r += EXPAND_ROWS) {
            vf t[EXPAND_ROWS];
            expand_several(type, b, stride, rank, z + r * z_stride, z_stride, t);
            VEC_UNROLL
            for (int i = 0; i < EXPAND_ROWS; i++, y += out->stride)
                add_out(y, t[i], n, lo, hi);
        }
        for (; r < n_row; r++, y += out->stride)
            add_out(y, expand_one(type, b, stride, ahead, rank, z + r * z_stride), n, lo, hi);
        b += step;
    }
}

static void expand(enum dtype type, const void *b, int64_t b_row, int64_t b_tile, int64_t rank, const float *z,
                   int64_t z_stride, int64_t n_row, const struct lora_out *out)
{
    BY_TYPE(expand_type, type, b, b_row, b_tile, rank, z, z_stride, n_row, out);
}

/* --- DoRA's factors, biases -----------------------------------------------------------------------------------------
 */

static void dora(const struct lora_dora *d, int64_t first, float scale, int64_t n_row, const struct lora_out *out)
{
    const vf s = vf_set1(scale);
    EACH_TILE(out, o, n, lo, hi)
    {
        vf     ww = vf_load_part(d->ww + first + o, n), wd = vf_load_part(d->wd + first + o, n);
        vf     norm2 = vf_fma(s, vf_fma(s, vf_load_part(d->dd + first + o, n), vf_add(wd, wd)), ww);
        vf     f = vf_div(vf_load_part(d->m + first + o, n), vf_sqrt(norm2));
        float *y = out->y + o;
        for (int64_t r = 0; r < n_row; r++, y += out->stride) {
            vf old = load_out(y, n);
            store_out(y, vf_mul(old, f), old, n, lo, hi);
        }
    }
}

static void add(const float *v, float s, int64_t n_row, const struct lora_out *out)
{
    for (int64_t o = out->lo; o < out->hi; o += VEC_LANES) {
        const int n = (int)MIN(out->hi - o, VEC_LANES);
        vf        e = vf_load_part(v + (o - out->lo), n);
        float    *y = out->y + o;
        for (int64_t r = 0; r < n_row; r++, y += out->stride)
            vf_store_part(y, vf_fma(vf_set1(s), e, vf_load_part(y, n)), n);
    }
}

#define LORA_FNS                                                                                                       \
    {                                                                                                                  \
        shrink, expand, dora, add                                                                                      \
    }

#endif
