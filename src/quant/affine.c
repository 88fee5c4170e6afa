/* Affine quantization: w = scale * code + bias, one scale and bias per group of 32, 64 or 128 inputs of a row.
 *
 * Encoding follows mx.quantize on the CPU (ties to even). Per group, in float32:
 *
 *   s = max((hi - lo) / (2^bits - 1), 1e-7), negative unless |lo| > |hi|;  edge = the extreme of larger magnitude
 *   k = round(edge / s);  if k != 0: s = edge / k, bias = edge;  else bias = 0
 *   code = clamp(round((w - bias) / s), 0, 2^bits - 1)
 *
 * so that zero and the larger extreme are exact. Codes come from the float32 scale and bias; both are rounded to their
 * stored type afterwards. Source: mlx/backend/cpu/quantized.cpp as described in docs/quantization.md.
 */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "quant/modes.h"

static inline void decode_lanes(const uint8_t *restrict c, int n, float scale, float bias, float *restrict out)
{
    for (int i = 0; i < n; i++) {
        float v = scale * (float)c[i];
        out[i] = v + bias;
    }
}

static void decode(const uint8_t *c, int n, float scale, float bias, float *out)
{
    for (; n >= QUANT_LANES; n -= QUANT_LANES, c += QUANT_LANES, out += QUANT_LANES)
        decode_lanes(c, QUANT_LANES, scale, bias, out);
    decode_lanes(c, n, scale, bias, out);
}

static void encode_group(int bits, const float *w, int n, float *scale, float *bias, uint8_t *codes)
{
    const float eps = 1e-7f;
    float       hi = -INFINITY, lo = INFINITY, top = (float)((1 << bits) - 1);
    for (int i = 0; i < n; i++) {
        hi = w[i] > hi ? w[i] : hi;
        lo = w[i] < lo ? w[i] : lo;
    }
    float s = (hi - lo) / top;
    s = s > eps ? s : eps;
    bool  side = fabsf(lo) > fabsf(hi);
    float edge = side ? lo : hi;
    s = side ? s : -s;
    float k = rintf(edge / s);
    *scale = k == 0 ? s : edge / k;
    *bias = k == 0 ? 0 : edge;
    for (int i = 0; i < n; i++) {
        float c = rintf((w[i] - *bias) / *scale);
        codes[i] = (uint8_t)(c >= top ? top : c > 0 ? c : 0); /* NaN becomes 0 */
    }
}

static void encode_row(const struct quant *q, const float *w, int64_t K, void *codes, void *scales, void *biases)
{
    uint8_t  c[128]; /* the largest group */
    uint8_t *out = codes;
    for (int64_t g = 0; g < K / q->group; g++, out += q->group * q->bits / 8) {
        float s, b;
        encode_group(q->bits, w + g * q->group, q->group, &s, &b, c);
        quant_narrow(q->scale_dtype, &s, 1, (char *)scales + (size_t)g * dtype_size(q->scale_dtype));
        quant_narrow(q->scale_dtype, &b, 1, (char *)biases + (size_t)g * dtype_size(q->scale_dtype));
        quant_pack_row(q, c, q->group, out);
    }
}

const struct quant_ops quant_affine = {dtype_load, decode, encode_row};
