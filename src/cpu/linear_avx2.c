/* Matrix product kernels for AVX2 and FMA, and the quantization of activations that the levels above use too. */
#define VEC_AVX2
#include "cpu/linear_kernels.h"

#include <math.h>

/* The bits of the largest magnitude of 32 values; those of NaN are larger than any number's. */
static uint32_t max_bits(const __m256 v[4])
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i       a = _mm256_and_si256(_mm256_castps_si256(v[0]), mask);
    for (int i = 1; i < 4; i++)
        a = _mm256_max_epi32(a, _mm256_and_si256(_mm256_castps_si256(v[i]), mask));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

/* Stores 32 integers as int8 and returns their sum. */
static int32_t store_q(int8_t *q, const __m256i v[4])
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i       p = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    __m256i       s = _mm256_add_epi32(_mm256_add_epi32(v[0], v[1]), _mm256_add_epi32(v[2], v[3]));
    _mm256_storeu_si256((__m256i *)(void *)q, _mm256_permutevar8x32_epi32(p, order));
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return _mm_cvtsi128_si32(h);
}

static void put_block(const struct acts *a, int64_t row, int64_t b, const __m256i v[4], float sx)
{
    int32_t sum = store_q(acts_q(a, row) + b * LINEAR_BLOCK, v);
    acts_sx(a, row)[b] = sx;
    acts_d(a, row)[b] = sx * (float)sum;
    acts_sum(a, row)[b] = sum;
}

void linear_quantize_avx2(const struct acts *a, int64_t row, const float *x)
{
    for (int64_t b = 0; b < a->blocks; b += a->terms, x += LINEAR_BLOCK) {
        __m256  v[4];
        __m256i q[4], rest[4];
        for (int i = 0; i < 4; i++) {
            v[i] = _mm256_loadu_ps(x + 8 * i);
            q[i] = rest[i] = _mm256_setzero_si256();
        }
        uint32_t top = max_bits(v);
        float    amax = f32_from_bits(top), inv = 127.0f / amax, sx = amax / 127.0f;
        if (top >= 0x7f800000) {
            sx = NAN;
        } else if (!(inv <= LINEAR_INV_MAX)) {
            sx = 0;
        } else {
            __m256 s = _mm256_set1_ps(sx), is = _mm256_set1_ps(inv), sub = _mm256_set1_ps(inv * LINEAR_TERM2_INV);
            for (int i = 0; i < 4; i++) {
                q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], is));
                __m256 left = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(q[i]), s, v[i]);
                rest[i] = _mm256_cvtps_epi32(_mm256_mul_ps(left, sub));
            }
        }
        put_block(a, row, b, q, sx);
        if (a->terms == 2)
            put_block(a, row, b + 1, rest, sx * LINEAR_TERM2);
    }
}

const struct linear_fns linear_avx2 = LINEAR_FNS;
