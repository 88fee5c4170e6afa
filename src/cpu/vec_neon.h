/* Sixteen float lanes as four registers of Advanced SIMD: the Arm form of vec.h, which includes it and has the
 * contracts.
 */
#ifndef MLXCEL_CPU_VEC_NEON_H
#define MLXCEL_CPU_VEC_NEON_H

#include <arm_neon.h>

#define VEC_REGISTERS 8 /* how many vf values the registers hold */
typedef struct {
    float32x4_t a, b, c, d;
} vf;

VEC_INLINE vf vf_set1(float x)
{
    float32x4_t v = vdupq_n_f32(x);
    return (vf){v, v, v, v};
}
VEC_INLINE vf vf_load(const float *p)
{
    return (vf){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
VEC_INLINE vf vf_load_part(const float *p, int n)
{
    float t[VEC_LANES] = {0};
    memcpy(t, p, (size_t)n * sizeof *t);
    return vf_load(t);
}
VEC_INLINE void vf_store(float *p, vf x)
{
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
VEC_INLINE void vf_store_part(float *p, vf x, int n)
{
    float t[VEC_LANES];
    vf_store(t, x);
    memcpy(p, t, (size_t)n * sizeof *t);
}
VEC_INLINE vf vf_widen_f16(uint16x8_t lo, uint16x8_t hi)
{
    float16x8_t x = vreinterpretq_f16_u16(lo), y = vreinterpretq_f16_u16(hi);
    return (vf){vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x), vcvt_f32_f16(vget_low_f16(y)),
                vcvt_high_f32_f16(y)};
}
VEC_INLINE vf vf_load_f16(const uint16_t *p)
{
    return vf_widen_f16(vld1q_u16(p), vld1q_u16(p + 8));
}
VEC_INLINE void vf_store_f16(uint16_t *p, vf x)
{
    vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b)));
    vst1q_u16(p + 8, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.c), x.d)));
}
VEC_INLINE vf vf_load_bf16(const void *p)
{
    uint16x8_t x = vld1q_u16(p), y = vld1q_u16((const uint16_t *)p + 8);
    return (vf){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(x), 16)), vreinterpretq_f32_u32(vshll_high_n_u16(x, 16)),
                vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(y), 16)),
                vreinterpretq_f32_u32(vshll_high_n_u16(y, 16))};
}
VEC_INLINE vf vf_load_i8(const int8_t *p)
{
    int8x16_t x = vld1q_s8(p);
    int16x8_t lo = vmovl_s8(vget_low_s8(x)), hi = vmovl_high_s8(x);
    return (vf){vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo))), vcvtq_f32_s32(vmovl_high_s16(lo)),
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi))), vcvtq_f32_s32(vmovl_high_s16(hi))};
}
VEC_INLINE void vf_store_i8(int8_t *p, vf x)
{
    int16x8_t lo = vmovn_high_s32(vmovn_s32(vcvtnq_s32_f32(x.a)), vcvtnq_s32_f32(x.b));
    int16x8_t hi = vmovn_high_s32(vmovn_s32(vcvtnq_s32_f32(x.c)), vcvtnq_s32_f32(x.d));
    vst1q_s8(p, vmovn_high_s16(vmovn_s16(lo), hi));
}
#define VEC_LANEWISE(name, f)                                                                                          \
    VEC_INLINE vf name(vf x, vf y)                                                                                     \
    {                                                                                                                  \
        return (vf){f(x.a, y.a), f(x.b, y.b), f(x.c, y.c), f(x.d, y.d)};                                               \
    }
/* Not vmaxq_f32, which gives NaN where either is. */
VEC_INLINE float32x4_t vf_max4(float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcgtq_f32(x, y), x, y);
}
VEC_LANEWISE(vf_add, vaddq_f32)
VEC_LANEWISE(vf_sub, vsubq_f32)
VEC_LANEWISE(vf_mul, vmulq_f32)
VEC_LANEWISE(vf_div, vdivq_f32)
VEC_LANEWISE(vf_max, vf_max4)
#undef VEC_LANEWISE
VEC_INLINE vf vf_sqrt(vf x)
{
    return (vf){vsqrtq_f32(x.a), vsqrtq_f32(x.b), vsqrtq_f32(x.c), vsqrtq_f32(x.d)};
}
VEC_INLINE vf vf_fma(vf x, vf y, vf z)
{
    return (vf){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c), vfmaq_f32(z.d, x.d, y.d)};
}
VEC_INLINE vf vf_where_gt(vf a, vf b, vf x, vf y)
{
    return (vf){vbslq_f32(vcgtq_f32(a.a, b.a), x.a, y.a), vbslq_f32(vcgtq_f32(a.b, b.b), x.b, y.b),
                vbslq_f32(vcgtq_f32(a.c, b.c), x.c, y.c), vbslq_f32(vcgtq_f32(a.d, b.d), x.d, y.d)};
}
VEC_INLINE vf vf_exp(vf x)
{
    return (vf){math_exp_neon(x.a), math_exp_neon(x.b), math_exp_neon(x.c), math_exp_neon(x.d)};
}
VEC_INLINE vf vf_silu(vf x)
{
    return (vf){math_silu_neon(x.a), math_silu_neon(x.b), math_silu_neon(x.c), math_silu_neon(x.d)};
}
VEC_INLINE float32x4_t vf_keep4(float32x4_t x, int lo, int hi, float32x4_t fill)
{
    static const int32_t lanes[4] = {0, 1, 2, 3};
    int32x4_t            i = vld1q_s32(lanes);
    return vbslq_f32(vandq_u32(vcgeq_s32(i, vdupq_n_s32(lo)), vcltq_s32(i, vdupq_n_s32(hi))), x, fill);
}
VEC_INLINE vf vf_keep(vf x, int lo, int hi, vf fill)
{
    return (vf){vf_keep4(x.a, lo, hi, fill.a), vf_keep4(x.b, lo - 4, hi - 4, fill.b),
                vf_keep4(x.c, lo - 8, hi - 8, fill.c), vf_keep4(x.d, lo - 12, hi - 12, fill.d)};
}
VEC_INLINE void vf_load_pairs(const float *p, vf *even, vf *odd)
{
    float32x4x2_t a = vld2q_f32(p), b = vld2q_f32(p + 8), c = vld2q_f32(p + 16), d = vld2q_f32(p + 24);
    *even = (vf){a.val[0], b.val[0], c.val[0], d.val[0]};
    *odd = (vf){a.val[1], b.val[1], c.val[1], d.val[1]};
}
VEC_INLINE void vf_store_pairs4(float *p, float32x4_t even, float32x4_t odd)
{
    float32x4x2_t pairs = {{even, odd}};
    vst2q_f32(p, pairs);
}
VEC_INLINE void vf_store_pairs(float *p, vf even, vf odd)
{
    vf_store_pairs4(p, even.a, odd.a);
    vf_store_pairs4(p + 8, even.b, odd.b);
    vf_store_pairs4(p + 16, even.c, odd.c);
    vf_store_pairs4(p + 24, even.d, odd.d);
}
VEC_INLINE float vf_sum(vf x)
{
    float32x4_t s = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    float32x2_t h = vadd_f32(vget_low_f32(s), vget_high_f32(s));
    return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}
VEC_INLINE float vf_max_lane(vf x)
{
    float32x4_t m = vf_max4(vf_max4(x.a, x.c), vf_max4(x.b, x.d));
    m = vf_max4(m, vextq_f32(m, m, 2));
    m = vf_max4(m, vextq_f32(m, m, 1));
    return vgetq_lane_f32(m, 0);
}

#endif
