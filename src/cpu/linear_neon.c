/* Matrix product kernels for NEON, and the quantization of activations that neondot uses too. */
#define VEC_NEON
#include "cpu/linear_kernels.h"

/* The bits of the largest magnitude of 32 values; those of NaN are larger than any number's. */
VEC_INLINE uint32_t max_bits(const float32x4_t v[8])
{
    uint32x4_t top = vdupq_n_u32(0);
    VEC_UNROLL
    for (int i = 0; i < 8; i++)
        top = vmaxq_u32(top, vreinterpretq_u32_f32(vabsq_f32(v[i])));
    return vmaxvq_u32(top);
}

/* Stores a block: 32 integers of int8's range, their scale and their sums. */
VEC_INLINE void store_block(struct qblock *to, const int32x4_t v[8], float sx)
{
    VEC_UNROLL
    for (int i = 0; i < 2; i++, v += 4) {
        int16x8_t lo = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
        int16x8_t hi = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
        vst1q_s8(to->q + 16 * i, vcombine_s8(vmovn_s16(lo), vmovn_s16(hi)));
        to->sum[i] = vaddvq_s32(vaddq_s32(vaddq_s32(v[0], v[1]), vaddq_s32(v[2], v[3])));
    }
    qblock_finish(to, sx);
}

VEC_INLINE void quantize_terms(const int terms, const struct acts *a, int64_t row, const float *row_x)
{
    struct qblock *to = acts_at(a, row, 0);
    for (int64_t b = 0; b < a->blocks; b += terms, to += a->group) {
        float        part[LINEAR_BLOCK];
        const float *x = acts_inputs(a, row_x, b, part);
        float32x4_t  v[8];
        int32x4_t    n[8];
        VEC_UNROLL
        for (int i = 0; i < 8; i++)
            v[i] = vld1q_f32(x + 4 * i);
        float inv, s = qblock_scale(max_bits(v), &inv), step = s;
        if (__builtin_expect(inv == 0, 0)) {
            step = 0;
            VEC_UNROLL
            for (int i = 0; i < 8; i++)
                v[i] = vdupq_n_f32(0);
        }
        VEC_UNROLL
        for (int i = 0; i < 8; i++)
            n[i] = vcvtnq_s32_f32(vmulq_n_f32(v[i], inv));
        store_block(to, n, s);
        if (terms == 1)
            continue;
        VEC_UNROLL
        for (int i = 0; i < 8; i++) {
            float32x4_t left = vfmsq_n_f32(v[i], vcvtq_f32_s32(n[i]), step);
            n[i] = vcvtnq_s32_f32(vmulq_n_f32(left, inv * LINEAR_TERM2_INV));
        }
        store_block(to += a->group, n, s * LINEAR_TERM2);
    }
}

void linear_quantize_neon(const struct acts *a, int64_t row, const float *x)
{
    if (a->terms == 1)
        quantize_terms(1, a, row, x);
    else
        quantize_terms(2, a, row, x);
}

const struct linear_fns linear_neon = LINEAR_FNS(linear_quantize_neon);
