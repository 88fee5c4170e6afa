/* Scalar conversions between float32 and the two 16-bit floats, by their bits.
 *
 * float16: sign, 5 exponent bits (bias 15), 10 fraction bits. bfloat16: the upper half of a float32. Narrowing rounds
 * to nearest, ties to even, as IEEE 754 and every reference does; NaN stays NaN (made quiet). Kernels have their own
 * vector forms; these serve loading, files and tests.
 */
#ifndef MLXCEL_BASE_HALF_H
#define MLXCEL_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float f32_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Without branches, so that loops over it become vectors. */
static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, a = h & 0x7fff, is_small = 0u - (a < 0x400);
    uint32_t small = f32_bits((float)(int32_t)a * 0x1p-24f); /* zero and subnormals */
    uint32_t normal =
        (a << 13) + ((a < 0x7c00 ? 127u - 15 : 255u - 31) << 23); /* infinity and NaN keep all exponent bits */
    return f32_from_bits(sign | (small & is_small) | (normal & ~is_small));
}

static inline uint16_t f32_to_f16(float f)
{
    uint32_t u = f32_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x1ff));
    if (a >= 0x477ff000) /* 65520, half way to the first power beyond the range */
        return (uint16_t)(sign | 0x7c00);
    if (a >= 0x38800000) { /* normal: at least 2^-14 */
        a += 0xfff + (a >> 13 & 1);
        return (uint16_t)(sign | (a - 0x38000000) >> 13);
    }
    uint32_t shift = 126 - (a >> 23);
    if (shift > 24)
        return (uint16_t)sign;
    uint32_t whole = (a & 0x7fffff) | 0x800000, q = whole >> shift;
    uint32_t rest = whole & ((1u << shift) - 1), tie = 1u << (shift - 1);
    return (uint16_t)(sign | (q + (rest > tie || (rest == tie && (q & 1)))));
}

static inline float bf16_to_f32(uint16_t h)
{
    return f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t f32_to_bf16(float f)
{
    uint32_t u = f32_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

#endif
