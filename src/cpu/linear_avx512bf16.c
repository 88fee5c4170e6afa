/* Products of bfloat16 weights with rows rounded to bfloat16, by AVX-512 BF16: vdpbf16ps adds the products of a pair of
 * inputs to each of 16 outputs. It takes subnormal operands and sums for zero and rounds to nearest, ties to even, after
 * each of the two products, the odd input's first (docs/order-law.md).
 *
 * A register tile is 6 rows by 4 tiles of 16 outputs: 24 sums, 4 vectors of weights and a broadcast pair, so that 10
 * loads serve 24 instructions, which is less than any machine's ratio of load to multiply units asks for. One row takes
 * the same tiles side by side: 4 independent chains, while memory is what it waits for.
 */
#define VEC_AVX512
#include "cpu/linear.h"
#include "cpu/linear_vec.h"

#include "base/half.h"

enum { ROWS = 6, TILES = LINEAR_GEMV_TILES };

/* acc + the products of the pairs of w and x. */
VEC_INLINE vf dot_pairs(vf acc, vi w, vi x)
{
#if defined(MLXCEL_SIMDE)
    return x86_dpbf16_ps(acc, w, x);
#else
    return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x);
#endif
}

/* f32_to_bf16 of 8 values, in 32 bits each. */
VEC_INLINE __m256i narrow8(const float *x)
{
    const __m256i u = _mm256_castps_si256(_mm256_loadu_ps(x)), high = _mm256_srli_epi32(u, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i size = _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff));
    const __m256i nan = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(0x7f800000));
    return _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
}

static void round_row(const struct acts *a, int64_t row, const float *x)
{
    uint16_t *out = acts_bf16(a, row);
    int64_t   i = 0;
    for (; i + 16 <= a->n_in; i += 16) {
        const __m256i v = _mm256_packus_epi32(narrow8(x + i), narrow8(x + i + 8)); /* by halves of 128 bits */
        _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm256_permute4x64_epi64(v, 0xd8));
    }
    for (; i < a->n_in; i++)
        out[i] = f32_to_bf16(x[i]);
    if (i % 2)
        out[i] = 0;
}

VEC_INLINE int32_t pair(const uint16_t *x)
{
    int32_t v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* n pairs of inputs of R rows and T tiles; x: the first row's first pair, x_stride: of rows; c[R][T]. */
VEC_INLINE void block(const int R, const int T, const unsigned char *w, size_t tile_size, int64_t n, const uint16_t *x,
                      size_t x_stride, struct chains *c)
{
    vf              acc[ROWS][TILES];
    const uint16_t *at[ROWS];
    VEC_UNROLL
    for (int r = 0; r < R; r++) {
        at[r] = x + (size_t)r * x_stride;
        VEC_UNROLL
        for (int t = 0; t < T; t++)
            acc[r][t] = vf_load(c[r * T + t].a);
    }
    for (int64_t k = 0; k < n; k++, w += LINEAR_PAIR_BYTES) {
        vi v[TILES];
        VEC_UNROLL
        for (int t = 0; t < T; t++)
            v[t] = vi_load(w + (size_t)t * tile_size);
        VEC_UNROLL
        for (int r = 0; r < R; r++) {
            const vi xr = vi_set1(pair(at[r] + 2 * k));
            VEC_UNROLL
            for (int t = 0; t < T; t++)
                acc[r][t] = dot_pairs(acc[r][t], v[t], xr);
        }
    }
    VEC_UNROLL
    for (int r = 0; r < R; r++) {
        VEC_UNROLL
        for (int t = 0; t < T; t++)
            vf_store(c[r * T + t].a, acc[r][t]);
    }
}

VEC_INLINE void rows(const int T, const unsigned char *w, size_t tile_size, int64_t n, const uint16_t *x,
                     size_t x_stride, int64_t n_row, struct chains *c)
{
    for (; n_row >= ROWS; n_row -= ROWS, x += ROWS * x_stride, c += ROWS * T)
        block(ROWS, T, w, tile_size, n, x, x_stride, c);
    switch (n_row) { /* the weights are read once for all that are left */
    case 5:
        block(5, T, w, tile_size, n, x, x_stride, c);
        break;
    case 4:
        block(4, T, w, tile_size, n, x, x_stride, c);
        break;
    case 3:
        block(3, T, w, tile_size, n, x, x_stride, c);
        break;
    case 2:
        block(2, T, w, tile_size, n, x, x_stride, c);
        break;
    case 1:
        block(1, T, w, tile_size, n, x, x_stride, c);
    }
}

static void product(const struct packed *p, const unsigned char *tile, int n_tile, int64_t k0, int64_t n,
                    const struct acts *a, int64_t row, int64_t n_row, struct chains *c)
{
    const unsigned char *w = tile + (size_t)k0 * LINEAR_PAIR_BYTES;
    const uint16_t      *x = acts_bf16(a, row) + 2 * k0;
    const size_t         stride = (size_t)a->bf16_stride;
    if (n_tile == TILES)
        rows(TILES, w, p->tile_size, n, x, stride, n_row, c);
    else
        rows(1, w, p->tile_size, n, x, stride, n_row, c);
}

const struct bf16_fns linear_bf16 = {round_row, product};
