/* The modes whose codes are small floats: mxfp4, mxfp8 and nvfp4. w = value(code) * value(scale), no bias.
 *
 *   mode    codes                      a scale for   scales                      largest code value
 *   mxfp4   E2M1, 4 bits               32 inputs     E8M0: 2^(byte - 127)        6
 *   mxfp8   E4M3, 8 bits               32 inputs     E8M0                        448
 *   nvfp4   E2M1, 4 bits               16 inputs     E4M3                        6
 *
 *   E2M1   s e e m          0 0.5 1 1.5 2 3 4 6, and from code 8 on the same below zero
 *   E4M3   s e e e e m m m  bias 7, subnormals in steps of 2^-9, no infinity; MLX reads 0x7f as 480
 *   E8M0   e e e e e e e e  a power of two; 0 is 2^-127, MLX reads 255 as infinity
 *
 * Encoding follows mx.quantize on the CPU for float32 input. Per group, in float32, with amax the largest magnitude:
 *
 *   mxfp4, mxfp8   e = ceil(log2(amax / largest)), 0 for a group of zeros; scale = 2^e
 *   nvfp4          scale = E4M3(amax / largest)
 *   code           of w / scale: the nearest E2M1 (the lower code of two at the same distance as float32 sees it), or
 *                  E4M3 to nearest even, at most 448
 *
 * One difference: below 2^-127 the exponent does not fit a byte, and MLX stores it modulo 256, which decodes to huge
 * values. Here it stays at 2^-127. Source: mlx 0.32.4 by experiment (its published source rounds the logarithm, its
 * packages take the ceiling), described in docs/quantization.md.
 */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "quant/modes.h"

#define E4M3_MAX_BITS 0x43e00000u    /* 448 as float32 */
#define E4M3_NORMAL_BITS 0x3c800000u /* 2^-6, the smallest normal */
#define E4M3_STEP_BITS 0x46800000u   /* 2^14: float32 numbers from here on have steps of 2^-9 */
#define E8M0_BIAS 127

const int8_t quant_e2m1_twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* --- values ------------------------------------------------------------------------------------------------------ */

/* The value of a float of 1 sign bit, n_exp exponent bits and n_frac fraction bits without infinity; inlined with constants
 * and without branches, so that loops over it become vectors. */
static inline __attribute__((always_inline)) float small_float(uint8_t code, int n_exp, int n_frac)
{
    uint32_t a = code & ((1u << (n_exp + n_frac)) - 1), sign = (uint32_t)(code ^ a) << (31 - n_exp - n_frac);
    uint32_t bias = (1u << (n_exp - 1)) - 1, is_subnormal = 0u - (a < 1u << n_frac);
    float    step = f32_from_bits((128 - bias - (uint32_t)n_frac) << 23); /* 2^(1 - bias - n_frac) */
    uint32_t subnormal = f32_bits((float)(int32_t)a * step), normal = (a << (23 - n_frac)) + ((127 - bias) << 23);
    return f32_from_bits(sign | (subnormal & is_subnormal) | (normal & ~is_subnormal));
}

static float e2m1_value(uint8_t code)
{
    return small_float(code, 2, 1);
}

float quant_e4m3_value(uint8_t code)
{
    return small_float(code, 4, 3);
}

float quant_e8m0_value(uint8_t code)
{
    return f32_from_bits(code ? (uint32_t)code << 23 : 0x00400000);
}

/* The nearest E2M1 code; of two at the same distance the lower. Far away distances are rounded to float32, as MLX has
 * them, so that many codes are equally near. */
static uint8_t e2m1_code(float x)
{
    float a = fabsf(x), least = a;
    if (a <= 8) {
        int c = (a > 0.25f) + (a > 0.75f) + (a > 1.25f) + (a > 1.75f) + (a > 2.5f) + (a > 3.5f) + (a > 5);
        return (uint8_t)(c && x < 0 ? c | 8 : c);
    }
    uint8_t best = 0;
    for (uint8_t c = 1; c < 16; c++) {
        float d = fabsf(x - e2m1_value(c));
        if (d < least) {
            least = d;
            best = c;
        }
    }
    return best;
}

static uint8_t e4m3_code(float x)
{
    uint32_t u = f32_bits(x), sign = u & 0x80000000, code;
    u ^= sign;
    if (u >= E4M3_MAX_BITS)
        code = 0x7e;
    else if (u < E4M3_NORMAL_BITS)
        code = f32_bits(f32_from_bits(u) + f32_from_bits(E4M3_STEP_BITS)) - E4M3_STEP_BITS;
    else
        code = (u + 0x7ffff + (u >> 20 & 1) - ((127u - 7) << 23)) >> 20;
    return (uint8_t)(sign >> 24 | code);
}

/* The E8M0 code of a group whose largest magnitude over the largest code is r. */
static uint8_t e8m0_code(float r)
{
    float e = r == 0 ? 0 : ceilf(log2f(r));
    return (uint8_t)(e < -E8M0_BIAS ? 0 : e + E8M0_BIAS);
}

/* --- rows -------------------------------------------------------------------------------------------------------- */

static float e8m0_scale(enum dtype d, const void *scales, int64_t i)
{
    (void)d;
    return quant_e8m0_value(((const uint8_t *)scales)[i]);
}

static float e4m3_scale(enum dtype d, const void *scales, int64_t i)
{
    (void)d;
    return quant_e4m3_value(((const uint8_t *)scales)[i]);
}

/* n values of a mode of 4 or 8 bits. */
static inline __attribute__((always_inline)) void decode_lanes(const uint8_t *restrict c, int bits, int n, float scale,
                                                               float *restrict out)
{
    for (int i = 0; i < n; i++)
        out[i] = scale * (bits == 4 ? e2m1_value(c[i]) : quant_e4m3_value(c[i]));
}

static void decode_e2m1(const uint8_t *c, int n, float scale, float bias, float *out)
{
    (void)bias;
    for (; n >= QUANT_LANES; n -= QUANT_LANES, c += QUANT_LANES, out += QUANT_LANES)
        decode_lanes(c, 4, QUANT_LANES, scale, out);
    decode_lanes(c, 4, n, scale, out);
}

static void decode_e4m3(const uint8_t *c, int n, float scale, float bias, float *out)
{
    (void)bias;
    for (; n >= QUANT_LANES; n -= QUANT_LANES, c += QUANT_LANES, out += QUANT_LANES)
        decode_lanes(c, 8, QUANT_LANES, scale, out);
    decode_lanes(c, 8, n, scale, out);
}

static void encode_row(const struct quant *q, const float *w, int64_t K, void *codes, void *scales, void *biases)
{
    uint8_t c[32], *out = codes, *s = scales; /* the largest group */
    (void)biases;
    for (int64_t g = 0; g < K / q->group; g++, w += q->group, out += q->group * q->bits / 8) {
        float amax = 0;
        for (int i = 0; i < q->group; i++)
            amax = MAX(amax, fabsf(w[i]));
        float r = amax / (q->bits == 8 ? 448.0f : 6.0f);
        s[g] = q->mode == QUANT_NVFP4 ? e4m3_code(r) : e8m0_code(r);
        float scale = q->mode == QUANT_NVFP4 ? quant_e4m3_value(s[g]) : quant_e8m0_value(s[g]);
        for (int i = 0; i < q->group; i++)
            c[i] = q->bits == 8 ? e4m3_code(w[i] / scale) : e2m1_code(w[i] / scale);
        quant_pack_row(q, c, q->group, out);
    }
}

const struct quant_ops quant_mxfp4 = {e8m0_scale, decode_e2m1, encode_row};
const struct quant_ops quant_mxfp8 = {e8m0_scale, decode_e4m3, encode_row};
const struct quant_ops quant_nvfp4 = {e4m3_scale, decode_e2m1, encode_row};

/* Hugging Face's FP8: a row's scales are those of its band of 128 rows. */
static inline void round_lanes(float *v, int n)
{
    for (int i = 0; i < n; i++)
        v[i] = bf16_to_f32(f32_to_bf16(v[i]));
}

static void decode_fp8(const uint8_t *c, int n, float scale, float bias, float *out)
{
    decode_e4m3(c, n, scale, bias, out);
    for (; n >= QUANT_LANES; n -= QUANT_LANES, out += QUANT_LANES)
        round_lanes(out, QUANT_LANES);
    round_lanes(out, n);
}

const struct quant_ops quant_fp8 = {dtype_load, decode_fp8, NULL};
