/* Affine quantization: w = scale * code + bias, one scale and bias per group of 32, 64 or 128 inputs of a row.
 *
 * A row of codes is one little-endian bit stream, element i in bits [i*bits, (i+1)*bits), lowest first. Eight codes
 * fill `bits` whole bytes whatever the width, so rows are read and written in packs of eight:
 *
 *   bits = 3:   byte 0            byte 1            byte 2
 *               2 2 1 1 1 0 0 0   5 4 4 4 3 3 3 2   7 7 7 6 6 6 5 5     (the element each bit belongs to)
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

#define PACK 8 /* codes read or written together: `bits` bytes */

/* The first n <= PACK codes of the pack at p. */
static void unpack(const uint8_t *p, int bits, int n, uint8_t *out)
{
    uint64_t v = 0;
    int      bytes = (n * bits + 7) / 8;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    for (int i = 0; i < n; i++)
        out[i] = (uint8_t)(v >> (i * bits) & ((1u << bits) - 1));
}

/* The 8 codes in the low bits of v, one a byte: halves, quarters and eighths are moved apart. */
static uint64_t spread(uint64_t v, int bits)
{
    uint64_t four = ((uint64_t)1 << 4 * bits) - 1, two = (((uint64_t)1 << 2 * bits) - 1) * 0x0000000100000001;
    uint64_t one = (((uint64_t)1 << bits) - 1) * 0x0001000100010001;
    v = (v & four) | (v >> 4 * bits & four) << 32;
    v = (v & two) | (v >> 2 * bits & two) << 16;
    return (v & one) | (v >> bits & one) << 8;
}

static void codes_row(const struct quant *q, const void *codes, int64_t K, uint8_t *out)
{
    const uint8_t *p = codes;
    if (q->bits == 8) {
        memcpy(out, p, (size_t)K);
        return;
    }
    for (int64_t i = 0; i < K; i += PACK, p += q->bits) {
        uint64_t v;
        if (K - i >= 32) { /* 4 packs: at least 8 bytes */
            memcpy(&v, p, sizeof v);
            v = spread(v, q->bits);
            memcpy(out + i, &v, sizeof v);
        } else {
            unpack(p, q->bits, (int)MIN(K - i, PACK), out + i);
        }
    }
}

static void pack_row(const struct quant *q, const uint8_t *codes, int64_t K, void *out)
{
    uint8_t *p = out;
    for (int64_t i = 0; i < K; i += PACK, p += q->bits) {
        uint64_t v = 0;
        int      n = (int)MIN(K - i, PACK);
        for (int j = 0; j < n; j++)
            v |= (uint64_t)codes[i + j] << (j * q->bits);
        for (int j = 0; j < (n * q->bits + 7) / 8; j++)
            p[j] = (uint8_t)(v >> (8 * j));
    }
}

static void decode_row(const struct quant *q, const void *codes, const void *scales, const void *biases, int64_t K,
                       float *out)
{
    const uint8_t *p = codes;
    uint8_t        c[PACK];
    float          s = 0, b = 0;
    for (int64_t i = 0; i < K; i += PACK, p += q->bits) {
        int n = (int)MIN(K - i, PACK);
        if (i % q->group == 0) {
            size_t at = (size_t)(i / q->group) * dtype_size(q->scale_dtype);
            quant_widen(q->scale_dtype, (const char *)scales + at, 1, &s);
            quant_widen(q->scale_dtype, (const char *)biases + at, 1, &b);
        }
        unpack(p, q->bits, n, c);
        for (int j = 0; j < n; j++) {
            float v = s * (float)c[j];
            out[i + j] = v + b;
        }
    }
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
        pack_row(q, c, q->group, out);
    }
}

const struct quant_ops quant_affine = {decode_row, codes_row, pack_row, encode_row};
