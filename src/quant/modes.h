/* Internal to src/quant: what differs between the modes. Codes come unpacked, one a byte (pack.c). */
#ifndef MLXCEL_QUANT_MODES_H
#define MLXCEL_QUANT_MODES_H

#include "quant/quant.h"

#define QUANT_LANES 16 /* loops of a constant length become vectors; every group is a multiple of it */

struct quant_ops {
    float (*scale)(enum dtype d, const void *scales, int64_t i); /* scale i of a row (for affine also bias i) */
    /* The n values of one group. */
    void (*decode)(const uint8_t *codes, int n, float scale, float bias, float *out);
    void (*encode)(const struct quant *q, const float *w, int64_t K, void *codes, void *scales, void *biases);
};

extern const struct quant_ops quant_affine, quant_mxfp4, quant_mxfp8, quant_nvfp4, quant_fp8;

#endif
