/* Internal to src/quant: what a mode can do with one row. The contracts are those of quant_decode_row and so on. */
#ifndef MLXCEL_QUANT_MODES_H
#define MLXCEL_QUANT_MODES_H

#include "quant/quant.h"

struct quant_ops {
    void (*decode)(const struct quant *q, const void *codes, const void *scales, const void *biases, int64_t K,
                   float *out);
    void (*codes)(const struct quant *q, const void *codes, int64_t K, uint8_t *out);
    void (*pack)(const struct quant *q, const uint8_t *codes, int64_t K, void *out);
    void (*encode)(const struct quant *q, const float *w, int64_t K, void *codes, void *scales, void *biases);
};

extern const struct quant_ops quant_affine, quant_floats, quant_fp8;

#endif
