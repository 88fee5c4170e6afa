/* The integer half of vec_neon.h: the Arm form of linear_vec.h, which includes it and has the contracts. With
 * VEC_DOT also the dot product instructions.
 *
 * Signed bytes multiply signed bytes only, so codes of 8 bits are taken as w - 128, like without VNNI on x86. Without
 * sdot, products of two bytes stand in int16 and neighbours are added there.
 */
#ifndef MLXCEL_CPU_LINEAR_VEC_NEON_H
#define MLXCEL_CPU_LINEAR_VEC_NEON_H

#include "cpu/vec.h"

typedef struct {
    int32x4_t a, b, c, d;
} vi;

#define VI_EACH(f, x) ((vi){f(x.a), f(x.b), f(x.c), f(x.d)})
#define VI_EACH2(f, x, y) ((vi){f(x.a, y.a), f(x.b, y.b), f(x.c, y.c), f(x.d, y.d)})

VEC_INLINE vi vi_load(const void *p)
{
    const int32_t *v = p;
    return (vi){vld1q_s32(v), vld1q_s32(v + 4), vld1q_s32(v + 8), vld1q_s32(v + 12)};
}
VEC_INLINE void vi_store(void *p, vi x)
{
    int32_t *v = p;
    vst1q_s32(v, x.a);
    vst1q_s32(v + 4, x.b);
    vst1q_s32(v + 8, x.c);
    vst1q_s32(v + 12, x.d);
}
VEC_INLINE vi vi_set1(int32_t v)
{
    int32x4_t x = vdupq_n_s32(v);
    return (vi){x, x, x, x};
}
VEC_INLINE vi vi_or(vi x, vi y)
{
    return VI_EACH2(vorrq_s32, x, y);
}
VEC_INLINE vi vi_add(vi x, vi y)
{
    return VI_EACH2(vaddq_s32, x, y);
}
VEC_INLINE int32x4_t vi_bits4(int32x4_t x, int n, int mask)
{
    const int  left = (n < 0 ? 0xff >> -n : 0xff << n) & 0xff; /* after a shift of bytes there may be nothing to mask */
    uint8x16_t b = vreinterpretq_u8_s32(x);
    b = n < 0 ? b >> (uint8_t)-n : b << (uint8_t)n;
    return vreinterpretq_s32_u8(left & ~mask ? vandq_u8(b, vdupq_n_u8((uint8_t)mask)) : b);
}
VEC_INLINE vi vi_bits(vi x, int n, int mask)
{
    return (vi){vi_bits4(x.a, n, mask), vi_bits4(x.b, n, mask), vi_bits4(x.c, n, mask), vi_bits4(x.d, n, mask)};
}
VEC_INLINE int32x4_t vi_table4(uint8x16_t table, int32x4_t x)
{
    return vreinterpretq_s32_u8(vqtbl1q_u8(table, vreinterpretq_u8_s32(x)));
}
VEC_INLINE vi vi_table(const uint8_t table[16], vi x)
{
    uint8x16_t t = vld1q_u8(table);
    return (vi){vi_table4(t, x.a), vi_table4(t, x.b), vi_table4(t, x.c), vi_table4(t, x.d)};
}
VEC_INLINE vf vi_float(vi x)
{
    return (vf){vcvtq_f32_s32(x.a), vcvtq_f32_s32(x.b), vcvtq_f32_s32(x.c), vcvtq_f32_s32(x.d)};
}

/* --- stored types ---------------------------------------------------------------------------------------------------
 */

/* E8M0: the exponent of a float32; 0 is 2^-127. */
VEC_INLINE float32x4_t vf_e8m0(uint32x4_t exponent)
{
    return vreinterpretq_f32_u32(vmaxq_u32(vshlq_n_u32(exponent, 23), vdupq_n_u32(0x00400000)));
}
VEC_INLINE vf vf_load_e8m0(const void *p)
{
    uint8x16_t b = vld1q_u8(p);
    uint16x8_t x = vmovl_u8(vget_low_u8(b)), y = vmovl_high_u8(b);
    return (vf){vf_e8m0(vmovl_u16(vget_low_u16(x))), vf_e8m0(vmovl_high_u16(x)), vf_e8m0(vmovl_u16(vget_low_u16(y))),
                vf_e8m0(vmovl_high_u16(y))};
}
/* E4M3 as float16 / 256: the fields have the same order, and float16 has one exponent bit more. */
VEC_INLINE uint16x8_t e4m3_as_f16(uint8x8_t x)
{
    int16x8_t c = vshrq_n_s16(vreinterpretq_s16_u16(vshll_n_u8(x, 8)), 1);
    return vandq_u16(vreinterpretq_u16_s16(c), vdupq_n_u16(0xbf80));
}
VEC_INLINE vf vf_load_e4m3_256th(const void *p)
{
    uint8x16_t b = vld1q_u8(p);
    return vf_widen_f16(e4m3_as_f16(vget_low_u8(b)), e4m3_as_f16(vget_high_u8(b)));
}
VEC_INLINE void vf_load2_e4m3_256th(const void *p, vf v[2])
{
    v[0] = vf_load_e4m3_256th(p);
    v[1] = vf_load_e4m3_256th((const uint8_t *)p + 16);
}

/* --- dot products ---------------------------------------------------------------------------------------------------
 */

VEC_INLINE int32x4_t vi_flip(int32x4_t x)
{
    return veorq_s32(x, vreinterpretq_s32_u8(vdupq_n_u8(0x80)));
}
VEC_INLINE vi vi_bytes(vi w)
{
    return VI_EACH(vi_flip, w);
}

#if defined(VEC_DOT)

VEC_INLINE int32x4_t vi_dot4(int32x4_t acc, int32x4_t w, int32x4_t x)
{
    return vdotq_s32(acc, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(x));
}
VEC_INLINE vi vi_dot(vi acc, vi w, vi x)
{
    return (vi){vi_dot4(acc.a, w.a, x.a), vi_dot4(acc.b, w.b, x.b), vi_dot4(acc.c, w.c, x.c), vi_dot4(acc.d, w.d, x.d)};
}
VEC_INLINE vi vi_dot_bytes(vi acc, vi w, vi x)
{
    return vi_dot(acc, w, x);
}

#else

VEC_INLINE int32x4_t vi_pairs4(int32x4_t w, int32x4_t x)
{
    int8x16_t v = vreinterpretq_s8_s32(w), y = vreinterpretq_s8_s32(x);
    return vreinterpretq_s32_s16(vpaddq_s16(vmull_s8(vget_low_s8(v), vget_low_s8(y)), vmull_high_s8(v, y)));
}
VEC_INLINE vi vi_pairs(vi w, vi x)
{
    return VI_EACH2(vi_pairs4, w, x);
}
VEC_INLINE int32x4_t vi_add_pairs4(int32x4_t x, int32x4_t y)
{
    int32x4_t s = vreinterpretq_s32_s16(vaddq_s16(vreinterpretq_s16_s32(x), vreinterpretq_s16_s32(y)));
    VEC_KEEP(s);
    return s;
}
VEC_INLINE vi vi_add_pairs(vi x, vi y)
{
    return VI_EACH2(vi_add_pairs4, x, y);
}
VEC_INLINE int32x4_t vi_sum_pairs4(int32x4_t x)
{
    return vpaddlq_s16(vreinterpretq_s16_s32(x));
}
VEC_INLINE vi vi_sum_pairs(vi x)
{
    return VI_EACH(vi_sum_pairs4, x);
}
VEC_INLINE vi vi_dot_bytes(vi acc, vi w, vi x)
{
    return vi_add(acc, vi_sum_pairs(vi_pairs(w, x)));
}

#endif
#endif
