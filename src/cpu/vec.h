/* Sixteen float lanes, in the form of the instruction set that the including file is compiled for.
 *
 * A kernel that is written once in terms of `vf` and compiled for every level does the same float operations in the
 * same order everywhere, so that levels agree bit for bit without any proof. The including file says which form it
 * wants by defining VEC_SCALAR, VEC_AVX2, VEC_AVX512 or VEC_NEON (one instruction set per file). All functions are static inline:
 * no copy of them can be picked by the linker for a file of another level.
 *
 * _part forms touch only the first n < 16 elements in memory; loaded lanes beyond are 0. f16 is converted to nearest
 * even; values beyond its range become infinite. i8 is rounded to nearest even and must be in range. max returns b where
 * a lane of a or b is NaN.
 */
#ifndef MLXCEL_CPU_VEC_H
#define MLXCEL_CPU_VEC_H

#include <stdint.h>
#include <string.h>

#include "base/half.h"
#include "cpu/math.h"
#include "formats/dtype.h"

#define VEC_LANES 16
#define VEC_INLINE static inline __attribute__((always_inline))

#if defined(MLXCEL_SIMDE)
#define VEC_UNROLL /* emulated instructions are long enough */
#elif defined(__clang__)
#define VEC_UNROLL _Pragma("unroll")
#else
#define VEC_UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(VEC_AVX512)

#define VEC_REGISTERS 32 /* how many vf values the registers hold */
typedef __m512 vf;

VEC_INLINE __mmask16 vf_mask(int n)
{
    return (__mmask16)((1u << n) - 1);
}
VEC_INLINE vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}
VEC_INLINE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
VEC_INLINE vf vf_load_part(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(vf_mask(n), p);
}
VEC_INLINE void vf_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}
VEC_INLINE void vf_store_part(float *p, vf a, int n)
{
    _mm512_mask_storeu_ps(p, vf_mask(n), a);
}
VEC_INLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
VEC_INLINE void vf_store_f16(uint16_t *p, vf a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
VEC_INLINE vf vf_load_bf16(const void *p)
{
    __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}
VEC_INLINE vf vf_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
VEC_INLINE void vf_store_i8(int8_t *p, vf a)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a)));
}
VEC_INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}
VEC_INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}
VEC_INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}
VEC_INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}
VEC_INLINE vf vf_sqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}
VEC_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
VEC_INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}
/* Lanes of x where a > b, of y elsewhere. */
VEC_INLINE vf vf_where_gt(vf a, vf b, vf x, vf y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), y, x);
}
VEC_INLINE vf vf_exp(vf a)
{
    return math_exp_avx512(a);
}
VEC_INLINE vf vf_silu(vf a)
{
    return math_silu_avx512(a);
}
/* Lanes lo <= i < hi of a, fill elsewhere; lo and hi may lie outside 0..16. */
VEC_INLINE vf vf_keep(vf a, int lo, int hi, vf fill)
{
    __mmask16 below = vf_mask(lo < 0 ? 0 : lo > 16 ? 16 : lo), upto = vf_mask(hi < 0 ? 0 : hi > 16 ? 16 : hi);
    return _mm512_mask_blend_ps((__mmask16)(upto & ~below), fill, a);
}
VEC_INLINE __m256 vf_half(vf a, int high)
{
    return _mm256_castpd_ps(high ? _mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)
                                 : _mm512_castpd512_pd256(_mm512_castps_pd(a)));
}
/* Of 32 floats in memory: those at even and at odd places. */
VEC_INLINE void vf_load_pairs(const float *p, vf *even, vf *odd)
{
    __m512i i = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512  a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + 16);
    *even = _mm512_permutex2var_ps(a, i, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(i, _mm512_set1_epi32(1)), b);
}
VEC_INLINE void vf_store_pairs(float *p, vf even, vf odd)
{
    __m512i lo = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    _mm512_storeu_ps(p, _mm512_permutex2var_ps(even, lo, odd));
    _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(even, _mm512_add_epi32(lo, _mm512_set1_epi32(8)), odd));
}

#elif defined(VEC_AVX2)

#define VEC_REGISTERS 8
typedef struct {
    __m256 a, b;
} vf;

VEC_INLINE __m256i vf_mask8(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
VEC_INLINE vf vf_set1(float x)
{
    __m256 v = _mm256_set1_ps(x);
    return (vf){v, v};
}
VEC_INLINE vf vf_load(const float *p)
{
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
VEC_INLINE vf vf_load_part(const float *p, int n)
{
    return (vf){_mm256_maskload_ps(p, vf_mask8(n)), _mm256_maskload_ps(p + 8, vf_mask8(n - 8))};
}
VEC_INLINE void vf_store(float *p, vf a)
{
    _mm256_storeu_ps(p, a.a);
    _mm256_storeu_ps(p + 8, a.b);
}
VEC_INLINE void vf_store_part(float *p, vf a, int n)
{
    _mm256_maskstore_ps(p, vf_mask8(n), a.a);
    _mm256_maskstore_ps(p + 8, vf_mask8(n - 8), a.b);
}
VEC_INLINE vf vf_load_f16(const uint16_t *p)
{
    const __m128i *q = (const __m128i *)(const void *)p;
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
VEC_INLINE void vf_store_f16(uint16_t *p, vf a)
{
    __m128i *q = (__m128i *)(void *)p;
    _mm_storeu_si128(q, _mm256_cvtps_ph(a.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(q + 1, _mm256_cvtps_ph(a.b, _MM_FROUND_TO_NEAREST_INT));
}
VEC_INLINE __m256 vf_load8_bf16(const void *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
VEC_INLINE vf vf_load_bf16(const void *p)
{
    return (vf){vf_load8_bf16(p), vf_load8_bf16((const __m128i *)p + 1)};
}
VEC_INLINE __m256 vf_load_i8x8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
VEC_INLINE vf vf_load_i8(const int8_t *p)
{
    return (vf){vf_load_i8x8(p), vf_load_i8x8(p + 8)};
}
VEC_INLINE void vf_store_i8(int8_t *p, vf a)
{
    __m256i w = _mm256_packs_epi32(_mm256_cvtps_epi32(a.a), _mm256_cvtps_epi32(a.b));
    w = _mm256_permute4x64_epi64(w, 0xd8);
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}
#define VEC_LANEWISE(name, intrinsic)                                                                                  \
    VEC_INLINE vf name(vf x, vf y)                                                                                     \
    {                                                                                                                  \
        return (vf){intrinsic(x.a, y.a), intrinsic(x.b, y.b)};                                                         \
    }
VEC_LANEWISE(vf_add, _mm256_add_ps)
VEC_LANEWISE(vf_sub, _mm256_sub_ps)
VEC_LANEWISE(vf_mul, _mm256_mul_ps)
VEC_LANEWISE(vf_div, _mm256_div_ps)
VEC_LANEWISE(vf_max, _mm256_max_ps)
#undef VEC_LANEWISE
VEC_INLINE vf vf_sqrt(vf x)
{
    return (vf){_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)};
}
VEC_INLINE vf vf_fma(vf x, vf y, vf z)
{
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
VEC_INLINE vf vf_where_gt(vf a, vf b, vf x, vf y)
{
    return (vf){_mm256_blendv_ps(y.a, x.a, _mm256_cmp_ps(a.a, b.a, _CMP_GT_OQ)),
                _mm256_blendv_ps(y.b, x.b, _mm256_cmp_ps(a.b, b.b, _CMP_GT_OQ))};
}
VEC_INLINE vf vf_exp(vf x)
{
    return (vf){math_exp_avx2(x.a), math_exp_avx2(x.b)};
}
VEC_INLINE vf vf_silu(vf x)
{
    return (vf){math_silu_avx2(x.a), math_silu_avx2(x.b)};
}
VEC_INLINE __m256 vf_keep8(__m256 x, int lo, int hi, __m256 fill)
{
    __m256i keep = _mm256_andnot_si256(vf_mask8(lo), vf_mask8(hi));
    return _mm256_blendv_ps(fill, x, _mm256_castsi256_ps(keep));
}
VEC_INLINE vf vf_keep(vf x, int lo, int hi, vf fill)
{
    return (vf){vf_keep8(x.a, lo, hi, fill.a), vf_keep8(x.b, lo - 8, hi - 8, fill.b)};
}
VEC_INLINE __m256 vf_half(vf x, int high)
{
    return high ? x.b : x.a;
}
VEC_INLINE __m256 vf_unzip8(__m256 x, __m256 y, int odd)
{
    __m256 s = odd ? _mm256_shuffle_ps(x, y, 0xdd) : _mm256_shuffle_ps(x, y, 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(s), 0xd8));
}
VEC_INLINE void vf_load_pairs(const float *p, vf *even, vf *odd)
{
    vf x = vf_load(p), y = vf_load(p + 16);
    *even = (vf){vf_unzip8(x.a, x.b, 0), vf_unzip8(y.a, y.b, 0)};
    *odd = (vf){vf_unzip8(x.a, x.b, 1), vf_unzip8(y.a, y.b, 1)};
}
VEC_INLINE void vf_store_pairs8(float *p, __m256 even, __m256 odd)
{
    __m256 lo = _mm256_unpacklo_ps(even, odd), hi = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(p, _mm256_permute2f128_ps(lo, hi, 0x20));
    _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(lo, hi, 0x31));
}
VEC_INLINE void vf_store_pairs(float *p, vf even, vf odd)
{
    vf_store_pairs8(p, even.a, odd.a);
    vf_store_pairs8(p + 16, even.b, odd.b);
}

#elif defined(VEC_NEON)

#include "cpu/vec_neon.h"

#elif defined(VEC_SCALAR)

#define VEC_REGISTERS 2 /* of 128 bits: keep blocks small */
typedef struct {
    float v[VEC_LANES];
} vf;
#define VEC_EACH for (int i = 0; i < VEC_LANES; i++)

VEC_INLINE vf vf_set1(float x)
{
    vf       r;
    VEC_EACH r.v[i] = x;
    return r;
}
VEC_INLINE vf vf_load_part(const float *p, int n)
{
    vf       r;
    VEC_EACH r.v[i] = i < n ? p[i] : 0;
    return r;
}
VEC_INLINE vf vf_load(const float *p)
{
    vf       r;
    VEC_EACH r.v[i] = p[i];
    return r;
}
VEC_INLINE void vf_store_part(float *p, vf a, int n)
{
    VEC_EACH if (i < n) p[i] = a.v[i];
}
VEC_INLINE void vf_store(float *p, vf a)
{
    VEC_EACH p[i] = a.v[i];
}
VEC_INLINE vf vf_load_f16(const uint16_t *p)
{
    vf       r;
    VEC_EACH r.v[i] = f16_to_f32(p[i]);
    return r;
}
VEC_INLINE void vf_store_f16(uint16_t *p, vf a)
{
    VEC_EACH p[i] = f32_to_f16(a.v[i]);
}
VEC_INLINE vf vf_load_bf16(const void *p)
{
    uint16_t t[VEC_LANES];
    vf       r;
    memcpy(t, p, sizeof t);
    VEC_EACH r.v[i] = bf16_to_f32(t[i]);
    return r;
}
VEC_INLINE vf vf_load_i8(const int8_t *p)
{
    vf       r;
    VEC_EACH r.v[i] = p[i];
    return r;
}
VEC_INLINE void vf_store_i8(int8_t *p, vf a)
{
    VEC_EACH p[i] = (int8_t)lrintf(a.v[i]);
}
#define VEC_LANEWISE(name, expr)                                                                                       \
    VEC_INLINE vf name(vf a, vf b)                                                                                     \
    {                                                                                                                  \
        vf       r;                                                                                                    \
        VEC_EACH r.v[i] = expr;                                                                                        \
        return r;                                                                                                      \
    }
VEC_LANEWISE(vf_add, a.v[i] + b.v[i])
VEC_LANEWISE(vf_sub, a.v[i] - b.v[i])
VEC_LANEWISE(vf_mul, a.v[i] * b.v[i])
VEC_LANEWISE(vf_div, a.v[i] / b.v[i])
VEC_LANEWISE(vf_max, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
#undef VEC_LANEWISE
VEC_INLINE vf vf_sqrt(vf a)
{
    VEC_EACH a.v[i] = sqrtf(a.v[i]);
    return a;
}
VEC_INLINE vf vf_fma(vf a, vf b, vf c)
{
    vf       r;
    VEC_EACH r.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return r;
}
VEC_INLINE vf vf_where_gt(vf a, vf b, vf x, vf y)
{
    VEC_EACH y.v[i] = a.v[i] > b.v[i] ? x.v[i] : y.v[i];
    return y;
}
VEC_INLINE vf vf_exp(vf a)
{
    VEC_EACH a.v[i] = math_exp(a.v[i]);
    return a;
}
VEC_INLINE vf vf_silu(vf a)
{
    VEC_EACH a.v[i] = math_silu(a.v[i]);
    return a;
}
VEC_INLINE vf vf_keep(vf a, int lo, int hi, vf fill)
{
    VEC_EACH a.v[i] = i >= lo && i < hi ? a.v[i] : fill.v[i];
    return a;
}
VEC_INLINE void vf_load_pairs(const float *p, vf *even, vf *odd)
{
    VEC_EACH
    {
        even->v[i] = p[2 * i];
        odd->v[i] = p[2 * i + 1];
    }
}
VEC_INLINE void vf_store_pairs(float *p, vf even, vf odd)
{
    VEC_EACH
    {
        p[2 * i] = even.v[i];
        p[2 * i + 1] = odd.v[i];
    }
}

#else
#error "define VEC_SCALAR, VEC_AVX2, VEC_AVX512 or VEC_NEON"
#endif

/* The sum of the lanes by halving (i + 8, i + 4, i + 2, i + 1), and their maximum. */
#if defined(VEC_SCALAR)
VEC_INLINE float vf_sum(vf a)
{
    for (int n = VEC_LANES / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            a.v[i] += a.v[i + n];
    return a.v[0];
}
VEC_INLINE float vf_max_lane(vf a)
{
    float    m = a.v[0];
    VEC_EACH m = a.v[i] > m ? a.v[i] : m;
    return m;
}
#elif !defined(VEC_NEON)
VEC_INLINE float vf_sum(vf x)
{
    __m256 a = _mm256_add_ps(vf_half(x, 0), vf_half(x, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
VEC_INLINE float vf_max_lane(vf x)
{
    __m256 a = _mm256_max_ps(vf_half(x, 0), vf_half(x, 1));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
#endif

/* 16 elements of a stored type, which is F32, F16 or BF16. */
VEC_INLINE vf vf_load_as(enum dtype type, const void *p)
{
    return type == DTYPE_F32 ? vf_load(p) : type == DTYPE_F16 ? vf_load_f16(p) : vf_load_bf16(p);
}

/* f16 and i8 forms of the part functions, by a copy. */
VEC_INLINE vf vf_load_f16_part(const uint16_t *p, int n)
{
    uint16_t t[VEC_LANES] = {0};
    memcpy(t, p, (size_t)n * sizeof *t);
    return vf_load_f16(t);
}
VEC_INLINE void vf_store_f16_part(uint16_t *p, vf a, int n)
{
    uint16_t t[VEC_LANES];
    vf_store_f16(t, a);
    memcpy(p, t, (size_t)n * sizeof *t);
}
VEC_INLINE vf vf_load_i8_part(const int8_t *p, int n)
{
    int8_t t[VEC_LANES] = {0};
    memcpy(t, p, (size_t)n);
    return vf_load_i8(t);
}
VEC_INLINE void vf_store_i8_part(int8_t *p, vf a, int n)
{
    int8_t t[VEC_LANES];
    vf_store_i8(t, a);
    memcpy(p, t, (size_t)n);
}

/* 16 floats, or the n < 16 that are there. */
VEC_INLINE vf vf_load_upto(const float *p, int64_t n)
{
    return n < VEC_LANES ? vf_load_part(p, (int)n) : vf_load(p);
}
VEC_INLINE void vf_store_upto(float *p, vf a, int64_t n)
{
    if (n < VEC_LANES)
        vf_store_part(p, a, (int)n);
    else
        vf_store(p, a);
}

#endif
