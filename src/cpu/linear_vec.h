/* The integer half of vec.h for matrix products: `vi` holds one quad (4 bytes) of each of the 16 outputs of a tile, or
 * one int32 of each. The including file defines VEC_AVX2, VEC_AVX512 or VEC_NEON, and VEC_DOT beside the latter two
 * where the machine has dot-product instructions.
 *
 * vi_dot (with VEC_DOT): acc + w . x per lane for w < 128, exact. vi_dot_bytes: the same for any unsigned w that
 * vi_bytes prepared, less VEC_BYTES_ZERO sum(x), which is left to the caller: without VNNI bytes are taken as w - 128.
 * vpmaddubsw would saturate otherwise; it multiplies |w - 128| with sign(w - 128) x, at most 32512 a pair.
 */
#ifndef MLXCEL_CPU_LINEAR_VEC_H
#define MLXCEL_CPU_LINEAR_VEC_H

#include "cpu/vec.h"

/* Keeps a sum in its register and its order: without it GCC turns chains of integer sums into trees, and spills. */
#if defined(MLXCEL_SIMDE)
#define VEC_KEEP(v) (void)0
#elif defined(VEC_NEON)
#define VEC_KEEP(v) __asm__("" : "+w"(v))
#else
#define VEC_KEEP(v) __asm__("" : "+v"(v))
#endif

#if defined(VEC_AVX512) && defined(VEC_DOT)
#define VEC_BYTES_ZERO 0
#else
#define VEC_BYTES_ZERO 128
#endif

#if defined(VEC_NEON)
#include "cpu/linear_vec_neon.h"
#else

/* 16 E4M3 values as float16 / 256: the fields have the same order, and float16 has one exponent bit more. */
VEC_INLINE __m256i e4m3_as_f16(const void *p)
{
    __m256i c = _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(p)), 8);
    return _mm256_and_si256(_mm256_srai_epi16(c, 1), _mm256_set1_epi16((short)0xbf80));
}

#if defined(VEC_AVX512)

typedef __m512i vi;

VEC_INLINE vi vi_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
VEC_INLINE void vi_store(void *p, vi a)
{
    _mm512_storeu_si512(p, a);
}
VEC_INLINE vi vi_set1(int32_t v)
{
    return _mm512_set1_epi32(v);
}
VEC_INLINE vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}
/* Bytes moved n bits up (down when n < 0), then masked: mask must clear what comes from the neighbouring byte. */
VEC_INLINE vi vi_bits(vi a, int n, int mask)
{
    vi s = n == 0 ? a : n > 0 ? _mm512_slli_epi16(a, (unsigned)n) : _mm512_srli_epi16(a, (unsigned)-n);
    return _mm512_and_si512(s, _mm512_set1_epi8((char)mask));
}
VEC_INLINE vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}
/* Each byte of a, below 16, becomes an entry of the table. */
VEC_INLINE vi vi_table(const uint8_t table[16], vi a)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)table)), a);
}
VEC_INLINE vf vi_float(vi a)
{
    return _mm512_cvtepi32_ps(a);
}
VEC_INLINE vf vf_load_e8m0(const void *p)
{
    __m512i w = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_cvtepu8_epi16(_mm_loadu_si128(p))), 23);
    return _mm512_castsi512_ps(_mm512_max_epi32(w, _mm512_set1_epi32(0x00400000)));
}
VEC_INLINE vf vf_load_e4m3_256th(const void *p)
{
    return _mm512_cvtph_ps(e4m3_as_f16(p));
}
/* Two such vectors of neighbouring codes. */
VEC_INLINE void vf_load2_e4m3_256th(const void *p, vf v[2])
{
    __m512i c = _mm512_slli_epi16(_mm512_cvtepu8_epi16(_mm256_loadu_si256(p)), 8);
    c = _mm512_and_si512(_mm512_srai_epi16(c, 1), _mm512_set1_epi16((short)0xbf80));
    v[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(c));
    v[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(c, 1));
}

#if defined(VEC_DOT)
VEC_INLINE vi vi_dot(vi acc, vi w, vi x)
{
    return _mm512_dpbusd_epi32(acc, w, x);
}
VEC_INLINE vi vi_bytes(vi w)
{
    return w;
}
VEC_INLINE vi vi_dot_bytes(vi acc, vi w, vi x)
{
    return vi_dot(acc, w, x);
}
#else
VEC_INLINE vi vi_pairs(vi w, vi x)
{
    return _mm512_maddubs_epi16(w, x);
}
VEC_INLINE vi vi_add_pairs(vi a, vi b)
{
    vi s = _mm512_add_epi16(a, b);
    VEC_KEEP(s);
    return s;
}
VEC_INLINE vi vi_sum_pairs(vi a)
{
    return _mm512_madd_epi16(a, _mm512_set1_epi16(1));
}
VEC_INLINE vi vi_bytes(vi w)
{
    return _mm512_xor_si512(w, _mm512_set1_epi8((char)0x80));
}
VEC_INLINE vi vi_dot_bytes(vi acc, vi w, vi x)
{
    x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
    vi s = _mm512_add_epi32(acc, vi_sum_pairs(vi_pairs(_mm512_abs_epi8(w), x)));
    VEC_KEEP(s);
    return s;
}
#endif

#else /* VEC_AVX2 */

typedef struct {
    __m256i a, b;
} vi;

VEC_INLINE vi vi_load(const void *p)
{
    const __m256i *v = p;
    return (vi){_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
}
VEC_INLINE void vi_store(void *p, vi x)
{
    __m256i *v = p;
    _mm256_storeu_si256(v, x.a);
    _mm256_storeu_si256(v + 1, x.b);
}
VEC_INLINE vi vi_set1(int32_t v)
{
    __m256i x = _mm256_set1_epi32(v);
    return (vi){x, x};
}
VEC_INLINE vi vi_or(vi x, vi y)
{
    return (vi){_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
VEC_INLINE vi vi_bits(vi x, int n, int mask)
{
    const __m256i m = _mm256_set1_epi8((char)mask);
    if (n > 0)
        x = (vi){_mm256_slli_epi16(x.a, n), _mm256_slli_epi16(x.b, n)};
    if (n < 0)
        x = (vi){_mm256_srli_epi16(x.a, -n), _mm256_srli_epi16(x.b, -n)};
    return (vi){_mm256_and_si256(x.a, m), _mm256_and_si256(x.b, m)};
}
VEC_INLINE vi vi_add(vi x, vi y)
{
    return (vi){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
VEC_INLINE vi vi_table(const uint8_t table[16], vi x)
{
    const __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table));
    return (vi){_mm256_shuffle_epi8(t, x.a), _mm256_shuffle_epi8(t, x.b)};
}
VEC_INLINE vf vi_float(vi x)
{
    return (vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
/* E8M0: the exponent of a float32; 0 is 2^-127. */
VEC_INLINE __m256 vf_load8_e8m0(const void *p)
{
    __m256i w = _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p)), 23);
    return _mm256_castsi256_ps(_mm256_max_epi32(w, _mm256_set1_epi32(0x00400000)));
}
VEC_INLINE vf vf_load_e8m0(const void *p)
{
    return (vf){vf_load8_e8m0(p), vf_load8_e8m0((const char *)p + 8)};
}
VEC_INLINE vf vf_load_e4m3_256th(const void *p)
{
    const __m256i h = e4m3_as_f16(p);
    return (vf){_mm256_cvtph_ps(_mm256_castsi256_si128(h)), _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1))};
}
/* Two such vectors of neighbouring codes: unpacked behind zeros the codes are moved up without a shift. */
VEC_INLINE void vf_load2_e4m3_256th(const void *p, vf v[2])
{
    const __m256i c = _mm256_loadu_si256(p), zero = _mm256_setzero_si256(), mask = _mm256_set1_epi16((short)0xbf80);
    const __m256i lo = _mm256_and_si256(_mm256_srai_epi16(_mm256_unpacklo_epi8(zero, c), 1), mask);
    const __m256i hi = _mm256_and_si256(_mm256_srai_epi16(_mm256_unpackhi_epi8(zero, c), 1), mask);
    v[0] = (vf){_mm256_cvtph_ps(_mm256_castsi256_si128(lo)), _mm256_cvtph_ps(_mm256_castsi256_si128(hi))};
    v[1] = (vf){_mm256_cvtph_ps(_mm256_extracti128_si256(lo, 1)), _mm256_cvtph_ps(_mm256_extracti128_si256(hi, 1))};
}
VEC_INLINE vi vi_pairs(vi w, vi x)
{
    return (vi){_mm256_maddubs_epi16(w.a, x.a), _mm256_maddubs_epi16(w.b, x.b)};
}
VEC_INLINE vi vi_add_pairs(vi x, vi y)
{
    vi s = {_mm256_add_epi16(x.a, y.a), _mm256_add_epi16(x.b, y.b)};
    VEC_KEEP(s.a);
    VEC_KEEP(s.b);
    return s;
}
VEC_INLINE vi vi_sum_pairs(vi x)
{
    const __m256i ones = _mm256_set1_epi16(1);
    return (vi){_mm256_madd_epi16(x.a, ones), _mm256_madd_epi16(x.b, ones)};
}
VEC_INLINE vi vi_bytes(vi w)
{
    const __m256i flip = _mm256_set1_epi8((char)0x80);
    return (vi){_mm256_xor_si256(w.a, flip), _mm256_xor_si256(w.b, flip)};
}
VEC_INLINE vi vi_dot_bytes(vi acc, vi w, vi x)
{
    x = (vi){_mm256_sign_epi8(x.a, w.a), _mm256_sign_epi8(x.b, w.b)};
    vi s = vi_add(acc, vi_sum_pairs(vi_pairs((vi){_mm256_abs_epi8(w.a), _mm256_abs_epi8(w.b)}, x)));
    VEC_KEEP(s.a);
    VEC_KEEP(s.b);
    return s;
}

#endif
#endif

#endif
