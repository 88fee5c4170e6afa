/* Matrix product kernels for AVX2 and FMA: a tile of 16 outputs is two registers of 8 lanes.
 *
 * Integer dots of a block: vpmaddubsw multiplies unsigned codes with signed activations and adds pairs in int16, where
 * pairs of several quads can be summed before they are widened, as many as cannot overflow:
 *
 *   4 bits   15 * 127 * 2 = 3810 a pair: all 8 quads of a block (30480)
 *   5 bits   7874: 4 quads                6 bits   16002: 2 quads
 *   8 bits   64770 would saturate: codes are taken minus 128 as |c| times sign(c) x, at most 32512, and 128 sum(x) is
 * added
 */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "cpu/linear.h"
#include "cpu/x86.h"

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Keeps a sum in its register and its order: without it GCC turns chains of integer sums into trees, and spills. */
#define KEEP(v) __asm__("" : "+x"(v))

#define GEMM_ROWS 4  /* rows of an affine register tile */
#define DENSE_ROWS 6 /* and of a dense one: 12 sums, 2 registers of weights, 1 of inputs */

/* --- activations ----------------------------------------------------------------------------------------------------
 */

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

/* --- weights --------------------------------------------------------------------------------------------------------
 */

INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* 16 elements of type d as float32. */
INLINE void widen(enum dtype d, const void *p, __m256 out[2])
{
    const __m128i *h = p;
    if (d == DTYPE_F32) {
        out[0] = _mm256_loadu_ps(p);
        out[1] = _mm256_loadu_ps((const float *)p + 8);
    } else if (d == DTYPE_F16) {
        out[0] = _mm256_cvtph_ps(_mm_loadu_si128(h));
        out[1] = _mm256_cvtph_ps(_mm_loadu_si128(h + 1));
    } else {
        out[0] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(h)), 16));
        out[1] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(h + 1)), 16));
    }
}

static void unpack(const struct packed *p, const unsigned char *tile, int64_t b0, int64_t n, struct panel *out)
{
    const __m256i low = _mm256_set1_epi8(15);
    for (int64_t g = 0; g < n / p->group_blocks; g++) {
        const unsigned char *s = tile + (size_t)(b0 / p->group_blocks + g) * p->group_size;
        for (int64_t b = g * p->group_blocks; b < (g + 1) * p->group_blocks; b++, s += p->block_size) {
            uint8_t *c = out->codes[b];
            if (p->form == LINEAR_BYTES)
                memcpy(c, s, LINEAR_BLOCK_BYTES);
            for (int i = 0; i < LINEAR_BLOCK_BYTES / 2 && p->form == LINEAR_NIBBLES; i += 32) {
                __m256i v = load(s + i), hi = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
                _mm256_store_si256((__m256i *)(void *)(c + i), _mm256_and_si256(v, low));
                _mm256_store_si256((__m256i *)(void *)(c + i + LINEAR_BLOCK_BYTES / 2), hi);
            }
        }
        __m256 w[2];
        widen(p->dtype, s, w);
        _mm256_store_ps(out->scale[g], w[0]);
        _mm256_store_ps(out->scale[g] + 8, w[1]);
        widen(p->dtype, s + LINEAR_TILE * (p->dtype == DTYPE_F32 ? 4 : 2), w);
        _mm256_store_ps(out->bias[g], w[0]);
        _mm256_store_ps(out->bias[g] + 8, w[1]);
    }
}

/* --- integer dots ---------------------------------------------------------------------------------------------------
 */

/* Four neighbouring activations in every lane. */
INLINE __m256i quad(const int8_t *q)
{
    int32_t v;
    memcpy(&v, q, 4);
    return _mm256_set1_epi32(v);
}

/* R rows by 16 outputs by one block of byte codes; `span` quads of products are summed in int16, 0: the 8-bit way.
 * q[r], sum[r]: the rows' activations of this block and their sums. dot[2r + half]. */
INLINE void dot_bytes(const int R, const int span, const uint8_t *codes, const int8_t *const q[], const int32_t sum[],
                      __m256i dot[])
{
    const __m256i ones = _mm256_set1_epi16(1), flip = _mm256_set1_epi8((char)0x80);
    __m256i       s[2 * GEMM_ROWS];
    UNROLL
    for (int i = 0; i < 2 * R; i++)
        dot[i] = span ? _mm256_setzero_si256() : _mm256_set1_epi32(sum[i / 2] * 128);
    UNROLL
    for (int j = 0; j < LINEAR_QUADS; j++) {
        __m256i w[2] = {load(codes + 64 * j), load(codes + 64 * j + 32)};
        if (span == 0) {
            w[0] = _mm256_xor_si256(w[0], flip);
            w[1] = _mm256_xor_si256(w[1], flip);
        }
        UNROLL
        for (int i = 0; i < 2 * R; i++) {
            __m256i x = quad(q[i / 2] + 4 * j);
            if (span == 0) {
                x = _mm256_maddubs_epi16(_mm256_abs_epi8(w[i % 2]), _mm256_sign_epi8(x, w[i % 2]));
                dot[i] = _mm256_add_epi32(dot[i], _mm256_madd_epi16(x, ones));
                KEEP(dot[i]);
                continue;
            }
            x = _mm256_maddubs_epi16(w[i % 2], x);
            s[i] = j % span == 0 ? x : _mm256_add_epi16(s[i], x);
            KEEP(s[i]);
            if (j % span == span - 1) {
                __m256i d = _mm256_madd_epi16(s[i], ones);
                dot[i] = span == LINEAR_QUADS ? d : _mm256_add_epi32(dot[i], d);
            }
        }
    }
}

/* One row by 16 outputs by one block of nibbles. */
INLINE void dot_nibbles(const unsigned char *codes, const int8_t *q, __m256i dot[2])
{
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    __m256i       s[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    UNROLL
    for (int j = 0; j < LINEAR_QUADS / 2; j++) {
        __m256i lo = quad(q + 4 * j), hi = quad(q + 16 + 4 * j);
        UNROLL
        for (int h = 0; h < 2; h++) {
            __m256i v = load(codes + 64 * j + 32 * h);
            __m256i a = _mm256_maddubs_epi16(_mm256_and_si256(v, low), lo);
            __m256i b = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(v, 4), low), hi);
            s[h] = _mm256_add_epi16(s[h], _mm256_add_epi16(a, b));
        }
    }
    dot[0] = _mm256_madd_epi16(s[0], ones);
    dot[1] = _mm256_madd_epi16(s[1], ones);
}

/* --- affine products ------------------------------------------------------------------------------------------------
 */

/* acc += dot * (sx * scale): the first chain. */
INLINE __m256 chain(__m256i dot, float sx, __m256 scale, __m256 acc)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(_mm256_set1_ps(sx), scale), acc);
}

INLINE void gemm_rows(const int R, const int span, const int T, const struct packed *p, const struct panel *panel,
                      int64_t b0, int64_t n, const struct acts *a, int64_t row, struct chains *c)
{
    const int8_t  *q[GEMM_ROWS];
    const float   *sx[GEMM_ROWS], *d[GEMM_ROWS];
    const int32_t *sums[GEMM_ROWS];
    int32_t        sum[GEMM_ROWS];
    __m256         acc[2 * GEMM_ROWS];
    const uint8_t *codes = panel->codes[0];
    const float   *scale = panel->scale[0], *bias = panel->bias[0];
    int            per_group = p->group_blocks * T;
    UNROLL
    for (int r = 0; r < R; r++) {
        q[r] = acts_q(a, row + r) + b0 * T * LINEAR_BLOCK;
        sx[r] = acts_sx(a, row + r) + b0 * T;
        d[r] = acts_d(a, row + r) + b0 * T;
        sums[r] = acts_sum(a, row + r) + b0 * T;
        acc[2 * r] = _mm256_load_ps(c[r].a);
        acc[2 * r + 1] = _mm256_load_ps(c[r].a + 8);
    }
    for (int64_t i = 0; i < n * T; scale += LINEAR_TILE)
        for (int64_t end = i + per_group; i < end; codes += LINEAR_BLOCK_BYTES)
            for (int t = 0; t < T; t++, i++) {
                __m256i dot[2 * GEMM_ROWS];
                UNROLL
                for (int r = 0; r < R; r++)
                    sum[r] = sums[r][i];
                dot_bytes(R, span, codes, q, sum, dot);
                UNROLL
                for (int r = 0; r < R; r++) {
                    acc[2 * r] = chain(dot[2 * r], sx[r][i], _mm256_load_ps(scale), acc[2 * r]);
                    acc[2 * r + 1] = chain(dot[2 * r + 1], sx[r][i], _mm256_load_ps(scale + 8), acc[2 * r + 1]);
                    q[r] += LINEAR_BLOCK;
                }
            }
    UNROLL
    for (int r = 0; r < R; r++) {
        _mm256_store_ps(c[r].a, acc[2 * r]);
        _mm256_store_ps(c[r].a + 8, acc[2 * r + 1]);
        acc[2 * r] = _mm256_load_ps(c[r].b);
        acc[2 * r + 1] = _mm256_load_ps(c[r].b + 8);
    }
    for (int64_t i = 0; i < n * T; bias += LINEAR_TILE) /* the second chain */
        for (int64_t end = i + per_group; i < end; i++) {
            UNROLL
            for (int r = 0; r < 2 * R; r++)
                acc[r] = _mm256_fmadd_ps(_mm256_set1_ps(d[r / 2][i]), _mm256_load_ps(bias + 8 * (r % 2)), acc[r]);
        }
    UNROLL
    for (int r = 0; r < R; r++) {
        _mm256_store_ps(c[r].b, acc[2 * r]);
        _mm256_store_ps(c[r].b + 8, acc[2 * r + 1]);
    }
}

INLINE void gemm_span(const int span, const int T, const struct packed *p, const struct panel *panel, int64_t b0,
                      int64_t n, const struct acts *a, int64_t row, int64_t n_row, struct chains *c)
{
    for (; n_row >= GEMM_ROWS; n_row -= GEMM_ROWS, row += GEMM_ROWS, c += GEMM_ROWS)
        gemm_rows(GEMM_ROWS, span, T, p, panel, b0, n, a, row, c);
    for (; n_row > 0; n_row--, row++, c++)
        gemm_rows(1, span, T, p, panel, b0, n, a, row, c);
}

static void gemm(const struct packed *p, const struct panel *panel, int64_t b0, int64_t n, const struct acts *a,
                 int64_t row, int64_t n_row, struct chains *c)
{
#define CASE(bits, span)                                                                                               \
    case bits:                                                                                                         \
        a->terms == 1 ? gemm_span(span, 1, p, panel, b0, n, a, row, n_row, c)                                          \
                      : gemm_span(span, 2, p, panel, b0, n, a, row, n_row, c);                                         \
        break;
    switch (MAX(p->bits, 4)) {
        CASE(4, 8)
        CASE(5, 4)
        CASE(6, 2)
        CASE(8, 0)
    }
#undef CASE
}

/* span 8: nibbles. */
INLINE void gemv_span(const int span, const struct packed *p, const unsigned char *tile, const struct acts *a,
                      int64_t row, struct chains *c)
{
    const int8_t  *q = acts_q(a, row);
    const float   *sx = acts_sx(a, row), *d = acts_d(a, row);
    const int32_t *sum = acts_sum(a, row);
    __m256         acc[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, accb[2] = {acc[0], acc[0]};
    int            blocks = p->group_blocks, T = a->terms;
    size_t         at = (size_t)blocks * p->block_size, bias_at = LINEAR_TILE * (p->dtype == DTYPE_F32 ? 4 : 2);
    for (int64_t i = 0; i < a->blocks; tile += p->group_size) {
        __m256 scale[2], bias[2];
        widen(p->dtype, tile + at, scale);
        widen(p->dtype, tile + at + bias_at, bias);
        for (int b = 0; b < blocks; b++)
            for (int t = 0; t < T; t++, i++, q += LINEAR_BLOCK) {
                const unsigned char *codes = tile + (size_t)b * p->block_size;
                __m256i              dot[2];
                if (span == LINEAR_QUADS)
                    dot_nibbles(codes, q, dot);
                else
                    dot_bytes(1, span, codes, &q, sum + i, dot);
                acc[0] = chain(dot[0], sx[i], scale[0], acc[0]);
                acc[1] = chain(dot[1], sx[i], scale[1], acc[1]);
                accb[0] = _mm256_fmadd_ps(_mm256_set1_ps(d[i]), bias[0], accb[0]);
                accb[1] = _mm256_fmadd_ps(_mm256_set1_ps(d[i]), bias[1], accb[1]);
            }
    }
    _mm256_store_ps(c->a, acc[0]);
    _mm256_store_ps(c->a + 8, acc[1]);
    _mm256_store_ps(c->b, accb[0]);
    _mm256_store_ps(c->b + 8, accb[1]);
}

static void gemv(const struct packed *p, const unsigned char *tile, const struct acts *a, int64_t row, struct chains *c)
{
    switch (p->bits) {
    case 5:
        gemv_span(4, p, tile, a, row, c);
        break;
    case 6:
        gemv_span(2, p, tile, a, row, c);
        break;
    case 8:
        gemv_span(0, p, tile, a, row, c);
        break;
    default:
        gemv_span(LINEAR_QUADS, p, tile, a, row, c);
    }
}

/* --- dense products -------------------------------------------------------------------------------------------------
 */

INLINE void dense_rows(const int R, const enum dtype type, const unsigned char *w, int64_t n, const float *x,
                       int64_t x_stride, struct chains *c)
{
    const size_t step = LINEAR_TILE * (type == DTYPE_F32 ? 4 : 2);
    __m256       acc[2 * DENSE_ROWS], v[2];
    UNROLL
    for (int i = 0; i < 2 * R; i++)
        acc[i] = _mm256_load_ps(c[i / 2].a + 8 * (i % 2));
    for (int64_t k = 0; k < n; k++, w += step) {
        widen(type, w, v);
        UNROLL
        for (int i = 0; i < 2 * R; i++)
            acc[i] = _mm256_fmadd_ps(_mm256_broadcast_ss(x + (i / 2) * x_stride + k), v[i % 2], acc[i]);
    }
    UNROLL
    for (int i = 0; i < 2 * R; i++)
        _mm256_store_ps(c[i / 2].a + 8 * (i % 2), acc[i]);
}

INLINE void dense_type(const enum dtype type, const unsigned char *w, int64_t n, const float *x, int64_t x_stride,
                       int64_t n_row, struct chains *c)
{
    for (; n_row >= DENSE_ROWS; n_row -= DENSE_ROWS, x += DENSE_ROWS * x_stride, c += DENSE_ROWS)
        dense_rows(DENSE_ROWS, type, w, n, x, x_stride, c);
    for (; n_row >= 2; n_row -= 2, x += 2 * x_stride, c += 2)
        dense_rows(2, type, w, n, x, x_stride, c);
    if (n_row)
        dense_rows(1, type, w, n, x, x_stride, c);
}

static void dense(const struct packed *p, const unsigned char *tile, int64_t k0, int64_t n, const float *x,
                  int64_t x_stride, int64_t n_row, struct chains *c)
{
    const unsigned char *w = tile + (size_t)k0 * LINEAR_TILE * (p->dtype == DTYPE_F32 ? 4 : 2);
    if (p->dtype == DTYPE_F32)
        dense_type(DTYPE_F32, w, n, x + k0, x_stride, n_row, c);
    else if (p->dtype == DTYPE_F16)
        dense_type(DTYPE_F16, w, n, x + k0, x_stride, n_row, c);
    else
        dense_type(DTYPE_BF16, w, n, x + k0, x_stride, n_row, c);
}

/* T tiles side by side: 2T independent chains, which hide the latency of the sums. */
INLINE void dense_tiles(const int T, const enum dtype type, size_t tile_size, const unsigned char *w, int64_t n,
                        const float *x, struct chains *c)
{
    const size_t step = LINEAR_TILE * (type == DTYPE_F32 ? 4 : 2);
    __m256       acc[2 * LINEAR_GEMV_TILES], v[2];
    UNROLL
    for (int i = 0; i < 2 * T; i++)
        acc[i] = _mm256_setzero_ps();
    for (int64_t k = 0; k < n; k++, w += step) {
        __m256 xk = _mm256_broadcast_ss(x + k);
        UNROLL
        for (int t = 0; t < T; t++) {
            widen(type, w + (size_t)t * tile_size, v);
            acc[2 * t] = _mm256_fmadd_ps(xk, v[0], acc[2 * t]);
            acc[2 * t + 1] = _mm256_fmadd_ps(xk, v[1], acc[2 * t + 1]);
        }
    }
    UNROLL
    for (int i = 0; i < 2 * T; i++)
        _mm256_store_ps(c[i / 2].a + 8 * (i % 2), acc[i]);
}

INLINE void dense_gemv_type(const enum dtype type, const struct packed *p, const unsigned char *tile, int n_tile,
                            const float *x, struct chains *c)
{
    if (n_tile == LINEAR_GEMV_TILES) {
        dense_tiles(LINEAR_GEMV_TILES, type, p->tile_size, tile, p->n_in, x, c);
        return;
    }
    for (int t = 0; t < n_tile; t++)
        dense_tiles(1, type, p->tile_size, tile + (size_t)t * p->tile_size, p->n_in, x, c + t);
}

static void dense_gemv(const struct packed *p, const unsigned char *tile, int n_tile, const float *x, struct chains *c)
{
    if (p->dtype == DTYPE_F32)
        dense_gemv_type(DTYPE_F32, p, tile, n_tile, x, c);
    else if (p->dtype == DTYPE_F16)
        dense_gemv_type(DTYPE_F16, p, tile, n_tile, x, c);
    else
        dense_gemv_type(DTYPE_BF16, p, tile, n_tile, x, c);
}

const struct linear_fns linear_avx2 = {linear_quantize_avx2, unpack, gemm, gemv, dense, dense_gemv};
