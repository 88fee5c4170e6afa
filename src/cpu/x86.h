/* The x86 intrinsics of the kernel files.
 *
 * With MLXCEL_SIMDE the 512-bit intrinsics come from SIMDe, which writes them as pairs of 256-bit ones: such a build
 * runs the AVX-512 kernels, slowly, on a machine without AVX-512, so that kernelcheck can test them there. What SIMDe
 * 0.7 lacks stands below. It is never part of a shipped program.
 */
#ifndef MLXCEL_CPU_X86_H
#define MLXCEL_CPU_X86_H

#include <stdint.h>
#include <string.h>

#ifndef MLXCEL_SIMDE
#include <immintrin.h>
#else

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wundef"
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#pragma GCC diagnostic pop

#undef _mm512_srai_epi32
#define _mm512_srai_epi32 x86_srai_epi32
static inline __m512i x86_srai_epi32(__m512i a, unsigned n)
{
    int32_t v[16];
    _mm512_storeu_si512(v, a);
    for (int i = 0; i < 16; i++)
        v[i] >>= n;
    return _mm512_loadu_si512(v);
}

#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b) /* SIMDe's alias has a wrong number of arguments */

#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps x86_cvtepi32_ps
static inline __m512 x86_cvtepi32_ps(__m512i a)
{
    int32_t v[16];
    float   f[16];
    _mm512_storeu_si512(v, a);
    for (int i = 0; i < 16; i++)
        f[i] = (float)v[i];
    return _mm512_loadu_ps(f);
}

#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 x86_cvtepu16_epi32
static inline __m512i x86_cvtepu16_epi32(__m256i a)
{
    uint16_t h[16];
    int32_t  v[16];
    _mm256_storeu_si256((__m256i *)(void *)h, a);
    for (int i = 0; i < 16; i++)
        v[i] = h[i];
    return _mm512_loadu_si512(v);
}

#undef _mm512_cvtepu8_epi16
#define _mm512_cvtepu8_epi16 x86_cvtepu8_epi16
static inline __m512i x86_cvtepu8_epi16(__m256i a)
{
    uint8_t  b[32];
    uint16_t v[32];
    _mm256_storeu_si256((__m256i *)(void *)b, a);
    for (int i = 0; i < 32; i++)
        v[i] = b[i];
    return _mm512_loadu_si512(v);
}

#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 x86_cvtepi8_epi32
static inline __m512i x86_cvtepi8_epi32(__m128i a)
{
    int8_t  b[16];
    int32_t v[16];
    _mm_storeu_si128((__m128i *)(void *)b, a);
    for (int i = 0; i < 16; i++)
        v[i] = b[i];
    return _mm512_loadu_si512(v);
}

#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32 x86_cvtps_epi32
static inline __m512i x86_cvtps_epi32(__m512 a)
{
    float   f[16];
    int32_t v[16];
    _mm512_storeu_ps(f, a);
    for (int i = 0; i < 16; i += 8)
        _mm256_storeu_si256((__m256i *)(void *)(v + i), _mm256_cvtps_epi32(_mm256_loadu_ps(f + i)));
    return _mm512_loadu_si512(v);
}

#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps x86_cvtph_ps
static inline __m512 x86_cvtph_ps(__m256i a)
{
    float v[16];
    _mm256_storeu_ps(v, _mm256_cvtph_ps(_mm256_castsi256_si128(a)));
    _mm256_storeu_ps(v + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)));
    return _mm512_loadu_ps(v);
}

#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph x86_cvtps_ph
static inline __m256i x86_cvtps_ph(__m512 a, int rounding)
{
    float v[16];
    (void)rounding; /* to nearest, ties to even */
    _mm512_storeu_ps(v, a);
    return _mm256_set_m128i(_mm256_cvtps_ph(_mm256_loadu_ps(v + 8), _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(_mm256_loadu_ps(v), _MM_FROUND_TO_NEAREST_INT));
}

/* Masked loads and stores do not touch memory outside the mask. */
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps x86_maskz_loadu_ps
static inline __m512 x86_maskz_loadu_ps(__mmask16 m, const void *p)
{
    float v[16] = {0};
    for (int i = 0; i < 16; i++)
        if (m >> i & 1)
            memcpy(&v[i], (const char *)p + 4 * i, 4);
    return _mm512_loadu_ps(v);
}

#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps x86_mask_storeu_ps
static inline void x86_mask_storeu_ps(void *p, __mmask16 m, __m512 a)
{
    float v[16];
    _mm512_storeu_ps(v, a);
    for (int i = 0; i < 16; i++)
        if (m >> i & 1)
            memcpy((char *)p + 4 * i, &v[i], 4);
}

/* vdpbf16ps as Intel's manual defines it: see linear_avx512bf16.c. */
static inline __m256 x86_flush(__m256 v)
{
    const __m256 exponent = _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000));
    const __m256 normal = _mm256_cmp_ps(_mm256_and_ps(v, exponent), _mm256_setzero_ps(), _CMP_NEQ_UQ);
    return _mm256_and_ps(v, _mm256_or_ps(normal, _mm256_set1_ps(-0.0f)));
}

static inline __m256 x86_dpbf16_ps8(__m256 acc, __m256i a, __m256i b)
{
    const __m256i high = _mm256_set1_epi32((int)0xffff0000);
    const __m256  a1 = x86_flush(_mm256_castsi256_ps(_mm256_and_si256(a, high)));
    const __m256  b1 = x86_flush(_mm256_castsi256_ps(_mm256_and_si256(b, high)));
    const __m256  a0 = x86_flush(_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)));
    const __m256  b0 = x86_flush(_mm256_castsi256_ps(_mm256_slli_epi32(b, 16)));
    acc = x86_flush(_mm256_fmadd_ps(a1, b1, x86_flush(acc)));
    return x86_flush(_mm256_fmadd_ps(a0, b0, acc));
}

static inline __m512 x86_dpbf16_ps(__m512 acc, __m512i a, __m512i b)
{
    float   f[16];
    __m256i v[4];
    _mm512_storeu_ps(f, acc);
    _mm512_storeu_si512(v, a);
    _mm512_storeu_si512(v + 2, b);
    for (int i = 0; i < 2; i++)
        _mm256_storeu_ps(f + 8 * i, x86_dpbf16_ps8(_mm256_loadu_ps(f + 8 * i), v[i], v[2 + i]));
    return _mm512_loadu_ps(f);
}

#endif
#endif
