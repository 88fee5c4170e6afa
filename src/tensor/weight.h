/* A bound parameter: how one logical matrix [n_out, n_in] (or vector) is stored, and the backend's packed form of it.
 *
 * Callers say op_linear(run, w, x, y); quantization mode, bias, adapters and shard live in here. The planes are views of
 * the checkpoint's read-only mapping; rows are contiguous, so a slice of rows is the same struct with moved pointers.
 * The packed form is a cache made from the planes by the backend (ops.h: backend.prepare).
 */
#ifndef MLXCEL_TENSOR_WEIGHT_H
#define MLXCEL_TENSOR_WEIGHT_H

#include <stdint.h>

#include "formats/dtype.h"
#include "quant/quant.h"

struct weight {
    const char  *name;  /* logical name without ".weight": "model.layers.0.self_attn.q_proj"; owned by the model */
    int          index; /* of all weights of the model, in order of declaration: adapters' tables (lora.h) */
    int64_t      n_out, n_in; /* a vector (norm) has n_out = 1 */
    struct quant quant;       /* mode QUANT_NONE when dense */
    enum dtype   dtype;       /* dense: F32, F16 or BF16 */
    const void  *data;        /* dense: [n_out, n_in]; quantized: packed codes, quant_row_bytes() a row */
    const void  *scales;      /* [n_out, n_in / group] of quant.scale_dtype; QUANT_FP8: see quant.h */
    const void  *biases;      /* likewise, affine only */
    const float *bias;        /* [n_out] added to the product, or NULL; a LAYER norm's [n_in] */
    float        plus;        /* added to a vector's stored values where it is used: 1 for norms by (1 + w) */
    void        *packed;      /* the backend's form, NULL until prepared */
};

/* Row `row` of the planes as float32 [n_in], widened or decoded. */
void weight_row(const struct weight *w, int64_t row, float *out);

#endif
