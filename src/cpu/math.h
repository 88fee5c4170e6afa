/* exp and silu for one float, 4 lanes (NEON), 8 (AVX2) and 16 (AVX-512): the same operations in the same order, so the
 * same bits for every element at every level.
 *
 *   n = round(x / ln 2),  r = x - n ln 2  (ln 2 in two parts),  |r| <= 0.3466
 *   e^x = 2^n (1 + r + r^2 q(r)),  q of degree 4, minimax for the relative error (3e-9; found by iterated least
 * squares)
 *
 * 2^n is applied as two factors, so that results below the normal range are rounded once. x is clamped to [-104, 89],
 * where the result is 0 or infinity already. The error is below 1 ulp. exp(-inf) = 0, exp(inf) = inf, exp(NaN) = NaN.
 *
 * silu(x) = x / (1 + exp(-x)). Below x = -89 the result is -0 (true value: smaller than 1e-36); silu(-inf) is NaN.
 */
#ifndef MLXCEL_CPU_MATH_H
#define MLXCEL_CPU_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include "cpu/x86.h"
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define MATH_EXP_MIN -104.0f
#define MATH_EXP_MAX 89.0f
#define MATH_LOG2E 0x1.715476p+0f
#define MATH_LN2_HI 0x1.62e43p-1f
#define MATH_LN2_LO -0x1.05c61p-29f
#define MATH_ROUND 0x1.8p23f /* x + this rounds x to an integer, which stands in the low bits */
#define MATH_ROUND_BITS 0x4b400000
#define MATH_Q0 0x1.fffffcp-2f
#define MATH_Q1 0x1.555492p-3f
#define MATH_Q2 0x1.5558f2p-5f
#define MATH_Q3 0x1.1239e4p-7f
#define MATH_Q4 0x1.6a2430p-10f

/* 2^n for -126 <= n <= 127. */
static inline float math_pow2(int32_t n)
{
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float    f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float math_exp(float x)
{
    float   lo = x < MATH_EXP_MIN ? MATH_EXP_MIN : x;
    float   c = lo > MATH_EXP_MAX ? MATH_EXP_MAX : lo;
    float   t = fmaf(c, MATH_LOG2E, MATH_ROUND), n = t - MATH_ROUND;
    float   r = fmaf(n, -MATH_LN2_LO, fmaf(n, -MATH_LN2_HI, c));
    float   q = fmaf(fmaf(fmaf(fmaf(MATH_Q4, r, MATH_Q3), r, MATH_Q2), r, MATH_Q1), r, MATH_Q0);
    float   p = fmaf(fmaf(q, r, 1.0f), r, 1.0f);
    int32_t i, half;
    memcpy(&i, &t, sizeof i);
    if (x != x)
        return x;
    i -= MATH_ROUND_BITS;
    half = (i + 256) / 2 - 128; /* floor(i / 2) */
    return p * math_pow2(half) * math_pow2(i - half);
}

static inline float math_silu(float x)
{
    return x / (1.0f + math_exp(-x));
}

#if defined(__AVX2__)
static inline __m256 math_exp_avx2(__m256 x)
{
    /* The second operand of max and min passes when one is NaN. */
    __m256 c = _mm256_min_ps(_mm256_set1_ps(MATH_EXP_MAX), _mm256_max_ps(_mm256_set1_ps(MATH_EXP_MIN), x));
    __m256 t = _mm256_fmadd_ps(c, _mm256_set1_ps(MATH_LOG2E), _mm256_set1_ps(MATH_ROUND));
    __m256 n = _mm256_sub_ps(t, _mm256_set1_ps(MATH_ROUND));
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-MATH_LN2_LO), _mm256_fmadd_ps(n, _mm256_set1_ps(-MATH_LN2_HI), c));
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(MATH_Q4), r, _mm256_set1_ps(MATH_Q3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MATH_Q2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MATH_Q1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MATH_Q0));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i i = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(MATH_ROUND_BITS));
    __m256i half = _mm256_srai_epi32(i, 1), bias = _mm256_set1_epi32(127);
    __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(i, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}

static inline __m256 math_silu_avx2(__m256 x)
{
    __m256 neg = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), math_exp_avx2(neg)));
}
#endif

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(MLXCEL_SIMDE))
static inline __m512 math_exp_avx512(__m512 x)
{
    __m512 c = _mm512_min_ps(_mm512_set1_ps(MATH_EXP_MAX), _mm512_max_ps(_mm512_set1_ps(MATH_EXP_MIN), x));
    __m512 t = _mm512_fmadd_ps(c, _mm512_set1_ps(MATH_LOG2E), _mm512_set1_ps(MATH_ROUND));
    __m512 n = _mm512_sub_ps(t, _mm512_set1_ps(MATH_ROUND));
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-MATH_LN2_LO), _mm512_fmadd_ps(n, _mm512_set1_ps(-MATH_LN2_HI), c));
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(MATH_Q4), r, _mm512_set1_ps(MATH_Q3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MATH_Q2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MATH_Q1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MATH_Q0));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    __m512i i = _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(MATH_ROUND_BITS));
    __m512i half = _mm512_srai_epi32(i, 1), bias = _mm512_set1_epi32(127);
    __m512i a = _mm512_slli_epi32(_mm512_add_epi32(half, bias), 23);
    __m512i b = _mm512_slli_epi32(_mm512_add_epi32(_mm512_sub_epi32(i, half), bias), 23);
    return _mm512_mul_ps(_mm512_mul_ps(p, _mm512_castsi512_ps(a)), _mm512_castsi512_ps(b));
}

static inline __m512 math_silu_avx512(__m512 x)
{
    __m512 neg = _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN)));
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), math_exp_avx512(neg)));
}
#endif

#if defined(__ARM_NEON)
static inline float32x4_t math_exp_neon(float32x4_t x)
{
    float32x4_t c = vminq_f32(vmaxq_f32(x, vdupq_n_f32(MATH_EXP_MIN)), vdupq_n_f32(MATH_EXP_MAX)); /* NaN passes */
    float32x4_t t = vfmaq_f32(vdupq_n_f32(MATH_ROUND), c, vdupq_n_f32(MATH_LOG2E));
    float32x4_t n = vsubq_f32(t, vdupq_n_f32(MATH_ROUND));
    float32x4_t r = vfmaq_f32(vfmaq_f32(c, n, vdupq_n_f32(-MATH_LN2_HI)), n, vdupq_n_f32(-MATH_LN2_LO));
    float32x4_t p = vfmaq_f32(vdupq_n_f32(MATH_Q3), vdupq_n_f32(MATH_Q4), r);
    p = vfmaq_f32(vdupq_n_f32(MATH_Q2), p, r);
    p = vfmaq_f32(vdupq_n_f32(MATH_Q1), p, r);
    p = vfmaq_f32(vdupq_n_f32(MATH_Q0), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    int32x4_t i = vsubq_s32(vreinterpretq_s32_f32(t), vdupq_n_s32(MATH_ROUND_BITS));
    int32x4_t half = vshrq_n_s32(i, 1), bias = vdupq_n_s32(127);
    int32x4_t a = vshlq_n_s32(vaddq_s32(half, bias), 23);
    int32x4_t b = vshlq_n_s32(vaddq_s32(vsubq_s32(i, half), bias), 23);
    return vmulq_f32(vmulq_f32(p, vreinterpretq_f32_s32(a)), vreinterpretq_f32_s32(b));
}

static inline float32x4_t math_silu_neon(float32x4_t x)
{
    return vdivq_f32(x, vaddq_f32(vdupq_n_f32(1.0f), math_exp_neon(vnegq_f32(x))));
}
#endif

#endif
