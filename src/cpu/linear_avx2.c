/* Matrix product kernels for AVX2 and FMA, and the quantization of activations that the levels above use too. */
#define VEC_AVX2
#include "cpu/linear_kernels.h"

/* The bits of the largest magnitude of 32 values; those of NaN are larger than any number's. */
VEC_INLINE uint32_t max_bits(const __m256 v[4])
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i       a = _mm256_and_si256(_mm256_castps_si256(v[0]), mask);
    VEC_UNROLL
    for (int i = 1; i < 4; i++)
        a = _mm256_max_epi32(a, _mm256_and_si256(_mm256_castps_si256(v[i]), mask));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

/* Stores a block: 32 integers, their scale and their sums. */
VEC_INLINE void store_block(struct qblock *to, const __m256i v[4], float sx)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i       p = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    __m256i       s = _mm256_hadd_epi32(_mm256_add_epi32(v[0], v[1]), _mm256_add_epi32(v[2], v[3]));
    _mm256_storeu_si256((__m256i *)(void *)to->q, _mm256_permutevar8x32_epi32(p, order));
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1)); /* low, low, high, high */
    h = _mm_hadd_epi32(h, h);
    _mm_storel_epi64((__m128i *)(void *)to->sum, h);
    qblock_finish(to, sx);
}

VEC_INLINE void quantize_terms(const int terms, const struct acts *a, int64_t row, const float *row_x)
{
    struct qblock *to = acts_at(a, row, 0);
    for (int64_t b = 0; b < a->blocks; b += terms, to += a->group) {
        float        part[LINEAR_BLOCK];
        const float *x = acts_inputs(a, row_x, b, part);
        __m256       v[4];
        __m256i      n[4];
        VEC_UNROLL
        for (int i = 0; i < 4; i++)
            v[i] = _mm256_loadu_ps(x + 8 * i);
        float inv, s = qblock_scale(max_bits(v), &inv), step = s;
        if (__builtin_expect(inv == 0, 0)) {
            step = 0;
            VEC_UNROLL
            for (int i = 0; i < 4; i++)
                v[i] = _mm256_setzero_ps();
        }
        VEC_UNROLL
        for (int i = 0; i < 4; i++)
            n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(inv)));
        store_block(to, n, s);
        if (terms == 1)
            continue;
        VEC_UNROLL
        for (int i = 0; i < 4; i++) {
            __m256 left = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(n[i]), _mm256_set1_ps(step), v[i]);
            n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(left, _mm256_set1_ps(inv * LINEAR_TERM2_INV)));
        }
        store_block(to += a->group, n, s * LINEAR_TERM2);
    }
}

void linear_quantize_avx2(const struct acts *a, int64_t row, const float *x)
{
    if (a->terms == 1)
        quantize_terms(1, a, row, x);
    else
        quantize_terms(2, a, row, x);
}

const struct linear_fns linear_avx2 = LINEAR_FNS(linear_quantize_avx2);
