/* Matrix product kernels in plain C: the reference that the other levels equal bit for bit. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "cpu/linear.h"

#define ROUND 0x1.8p23f /* v + ROUND rounds |v| < 2^22 to an integer, ties to even */

static int32_t round_even(float v)
{
    float t = v + ROUND;
    return (int32_t)(t - ROUND);
}

/* qblock_scale of LINEAR_BLOCK values. */
static float block_scale(const float *x, float *inv)
{
    uint32_t top = 0;
    for (int i = 0; i < LINEAR_BLOCK; i++)
        top = MAX(top, f32_bits(x[i]) & 0x7fffffff);
    return qblock_scale(top, inv);
}

static void put_block(struct qblock *to, const int8_t *q, float sx)
{
    to->sum[0] = to->sum[1] = 0;
    for (int i = 0; i < LINEAR_BLOCK; i++)
        to->sum[i / (LINEAR_BLOCK / 2)] += q[i];
    memcpy(to->q, q, LINEAR_BLOCK);
    qblock_finish(to, sx);
}

static void quantize(const struct acts *a, int64_t row, const float *x)
{
    for (int64_t b = 0; b < a->blocks; b += a->terms) {
        float        part[LINEAR_BLOCK];
        const float *v32 = acts_inputs(a, x, b, part);
        int8_t       q[LINEAR_BLOCK], rest[LINEAR_BLOCK];
        float        inv, sx = block_scale(v32, &inv), sub = sx * LINEAR_TERM2, sub_inv = inv * LINEAR_TERM2_INV;
        for (int i = 0; i < LINEAR_BLOCK; i++) {
            int32_t v = inv == 0 ? 0 : round_even(v32[i] * inv);
            float   left = inv == 0 ? 0 : fmaf((float)-v, sx, v32[i]) * sub_inv;
            q[i] = (int8_t)v;
            rest[i] = (int8_t)round_even(left);
        }
        put_block(acts_at(a, row, b), q, sx);
        if (a->terms == 2)
            put_block(acts_at(a, row, b + 1), rest, sub);
    }
}

/* The codes of a block as bytes, quad by quad. */
static void unpack_block(int bits, const unsigned char *block, uint8_t *out)
{
    int low = linear_low_bits(bits), rest = bits - low;
    for (int j = 0; j < LINEAR_QUADS; j++)
        for (int i = 0; i < LINEAR_QUAD_BYTES; i++) {
            int c = block[j % low * LINEAR_QUAD_BYTES + i] >> (low * (j / low)) & ((1 << low) - 1);
            if (rest) {
                int high = block[(low + j % rest) * LINEAR_QUAD_BYTES + i] >> (rest * (j / rest));
                c |= (high & ((1 << rest) - 1)) << low;
            }
            *out++ = (uint8_t)c;
        }
}

/* Scale, or the half scale of doubled E2M1 values. */
static float scale_value(const struct packed *p, const unsigned char *s, int o)
{
    if (p->form == LINEAR_AFFINE)
        return dtype_load(p->dtype, s, o);
    return 0.5f * (p->parts == 2 ? quant_e4m3_value(s[o]) : quant_e8m0_value(s[o]));
}

static void unpack_scales(const struct packed *p, const unsigned char *s, int64_t g, struct panel *out)
{
    size_t size = LINEAR_TILE * dtype_size(p->dtype);
    for (int k = 0; k < p->parts; k++)
        for (int o = 0; o < LINEAR_TILE; o++)
            out->scale[g * p->parts + k][o] = scale_value(p, s + (size_t)k * size, o);
    if (p->form == LINEAR_AFFINE)
        quant_widen(p->dtype, s + size, LINEAR_TILE, out->bias[g]);
}

static void unpack(const struct packed *p, const unsigned char *tile, int64_t b0, int64_t n, struct panel *out)
{
    for (int64_t b = 0; b < n; b++) {
        int64_t              g = (b0 + b) / p->group_blocks, in_group = (b0 + b) % p->group_blocks;
        const unsigned char *group = tile + (size_t)g * p->group_size;
        unpack_block(p->bits, group + (size_t)in_group * p->block_size, out->codes[b]);
        for (int i = 0; p->form == LINEAR_E2M1 && i < LINEAR_BLOCK_BYTES; i++)
            out->codes[b][i] = (uint8_t)(quant_e2m1_twice[out->codes[b][i]] + LINEAR_E2M1_ZERO);
        if (in_group == 0)
            unpack_scales(p, group + (size_t)p->group_blocks * p->block_size, b / p->group_blocks, out);
    }
}

/* The integer dots of quads j0 .. j1 - 1 of a block with each of the 16 outputs; `zero` is the code of value 0. */
static void idot(const uint8_t *codes, const int8_t *q, int zero, int j0, int j1, int32_t out[LINEAR_TILE])
{
    memset(out, 0, LINEAR_TILE * sizeof *out);
    for (int j = j0; j < j1; j++)
        for (int o = 0; o < LINEAR_TILE; o++)
            for (int i = 0; i < 4; i++)
                out[o] += (codes[(j * LINEAR_TILE + o) * 4 + i] - zero) * q[4 * j + i];
}

/* One block of one row; scale and bias: those of its groups. */
static void block(const struct packed *p, const uint8_t *codes, const struct qblock *x,
                  const float (*scale)[LINEAR_TILE], const float *bias, struct chains *c)
{
    int zero = p->form == LINEAR_E2M1 ? LINEAR_E2M1_ZERO : 0, quads = LINEAR_QUADS / p->parts;
    for (int k = 0; k < p->parts; k++) {
        int32_t dot[LINEAR_TILE];
        idot(codes, x->q, zero, k * quads, (k + 1) * quads, dot);
        for (int o = 0; o < LINEAR_TILE; o++)
            c->a[o] = fmaf((float)dot[o], x->sx * scale[k][o], c->a[o]);
    }
    for (int o = 0; p->form == LINEAR_AFFINE && o < LINEAR_TILE; o++)
        c->b[o] = fmaf(x->d, bias[o], c->b[o]);
}

static void put(const struct packed *p, const struct chains *c, const struct tile_out *out, int64_t r)
{
    for (int o = 0; o < out->n; o++) {
        float v = p->form == LINEAR_AFFINE ? c->a[o] + c->b[o] : c->a[o];
        out->y[r * out->stride + o] = out->bias ? v + out->bias[o] : v;
    }
}

static void gemm(const struct packed *p, const struct panel *panel, int64_t b0, int64_t n, const struct acts *a,
                 int64_t row, int64_t n_row, struct chains *c, const struct tile_out *out)
{
    for (int64_t r = 0; r < n_row; r++, c++) {
        if (b0 == 0)
            memset(c, 0, sizeof *c);
        for (int64_t b = 0; b < n * a->terms; b++) {
            int64_t g = b / a->terms / p->group_blocks;
            block(p, panel->codes[b / a->terms], acts_at(a, row + r, b0 * a->terms + b), panel->scale + g * p->parts,
                  panel->bias[g], c);
        }
        if (b0 + n == linear_blocks(p->n_in))
            put(p, c, out, r);
    }
}

static void stream(const struct packed *p, const unsigned char *tile, const struct acts *a, int64_t row, int64_t n_row,
                   const struct tile_out *out)
{
    struct panel  panel;
    struct chains c[LINEAR_STREAM];
    int64_t       blocks = linear_blocks(p->n_in);
    for (int64_t b = 0; b < blocks; b += LINEAR_PANEL) {
        int64_t n = MIN(blocks - b, LINEAR_PANEL);
        unpack(p, tile, b, n, &panel);
        gemm(p, &panel, b, n, a, row, n_row, c, out);
    }
}

/* mxfp8: a block's sum is a chain of its own. k0 begins a block. */
static void dense_fp8(const unsigned char *tile, int64_t k0, int64_t n, const float *x, int64_t x_stride, int64_t n_row,
                      struct chains *c)
{
    const unsigned char *s = tile + (size_t)(k0 / LINEAR_BLOCK) * LINEAR_FP8_BLOCK;
    for (int64_t k = k0; k < k0 + n; k += LINEAR_BLOCK, s += LINEAR_FP8_BLOCK)
        for (int64_t r = 0; r < n_row; r++)
            for (int o = 0; o < LINEAR_TILE; o++) {
                float sum = 0;
                for (int i = 0; i < LINEAR_BLOCK; i++)
                    sum = fmaf(x[r * x_stride + k + i], quant_e4m3_value(s[(i + 1) * LINEAR_TILE + o]) / 256, sum);
                c[r].a[o] = fmaf(sum, quant_e8m0_value(s[o]) * 256, c[r].a[o]);
            }
}

static void dense(const struct packed *p, const unsigned char *tile, int64_t k0, int64_t n, const float *x,
                  int64_t x_stride, int64_t n_row, struct chains *c)
{
    if (p->dtype == DTYPE_F8_E4M3) {
        dense_fp8(tile, k0, n, x, x_stride, n_row, c);
        return;
    }
    for (int64_t k = k0; k < k0 + n; k++) {
        float w[LINEAR_TILE]; /* input k */
        quant_widen(p->dtype, tile + (size_t)k * LINEAR_TILE * dtype_size(p->dtype), LINEAR_TILE, w);
        for (int64_t r = 0; r < n_row; r++)
            for (int o = 0; o < LINEAR_TILE; o++)
                c[r].a[o] = fmaf(x[r * x_stride + k], w[o], c[r].a[o]);
    }
}

static void dense_gemv(const struct packed *p, const unsigned char *tile, int n_tile, const float *x, struct chains *c)
{
    memset(c, 0, (size_t)n_tile * sizeof *c);
    for (int t = 0; t < n_tile; t++)
        dense(p, tile + (size_t)t * p->tile_size, 0, p->n_in, x, 0, 1, c + t);
}

const struct linear_fns linear_scalar = {quantize, 1, unpack, gemm, stream, dense, dense_gemv};
