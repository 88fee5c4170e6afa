/* Internal: the kernels of row operations (norms, add, activations, rope, 16-bit and 8-bit conversion). Every level gives the same bits:
 * the kernels are written once (rows_kernels.h) on the 16 lanes of vec.h.
 *
 * Arrays may be unaligned; n is any count; y may be x where both are given. */
#ifndef MLXCEL_CPU_ROWS_H
#define MLXCEL_CPU_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/ops.h"

struct row_fns {
    /* y = (x * r) * w, r = 1 / sqrt(sum / n + eps); sum: lane j takes columns j, j + 16, ... in one fma chain, then the
     * tree of vf_sum. Without w (NULL): y = x * r. */
    void (*rms_norm)(const float *x, const float *w, float eps, int64_t n, float *y);
    /* y = ((x - mean) * r) * w + b, mean = sum(x) / n, r = 1 / sqrt(sum((x - mean)^2) / n + eps); sums as above, the first
     * by additions. w and b may be NULL. */
    void (*layer_norm)(const float *x, const float *w, const float *b, float eps, int64_t n, float *y);
    void (*add)(const float *x, float scale, float *y, int64_t n);   /* y += scale x, product and sum rounded */
    void (*scale)(const float *x, float scale, float *y, int64_t n); /* y = scale x */
    void (*softcap)(float cap, float *y, int64_t n);                 /* y = cap tanh(y / cap) */
    /* y = act(x); not for SWIGLU_CLAMPED. xielu: alpha_p, alpha_n, beta, eps of XIELU */
    void (*act)(enum act_kind kind, const float *xielu, const float *x, float *y, int64_t n);
    /* y = act(gate) up; not for XIELU */
    void (*act_mul)(const struct act *act, const float *gate, const float *up, float *y, int64_t n);
    void (*clip)(float limit, float *y, int64_t n); /* y within +-limit; NaN stays */
    /* Rotates the pairs of one head: a' = a cos - b sin, b' = a sin + b cos, every product and sum rounded.
     * cs: [dims / 2][2] cosines and sines. */
    void (*rope)(float *x, const float *cs, int dims, bool interleaved);
    void (*to_f16)(const float *x, uint16_t *y, int64_t n);
    void (*from_f16)(const uint16_t *x, float *y, int64_t n);
    float (*amax)(const float *x, int64_t n);                       /* greatest |x|; NaN where one is infinite or NaN */
    void (*to_i8)(const float *x, float inv, int8_t *y, int64_t n); /* x inv, to nearest even; |x inv| <= 127 */
    void (*from_i8)(const int8_t *x, float *y, int64_t n);
    /* y = e / sum(e), e = exp(x - max x); the sum's lane j takes columns j, j + 16, ..., then vf_sum's tree. */
    void (*softmax)(const float *x, int64_t n, float *y);
};

extern const struct row_fns rows_scalar, rows_avx2, rows_avx512, rows_neon;

#endif
