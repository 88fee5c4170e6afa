/* Internal: the kernels of the gated delta rule. Every level gives the same bits: they are written once (delta_kernels.h) on
 * the 16 lanes of vec.h, a lane being a column of the values.
 */
#ifndef MLXCEL_CPU_DELTA_H
#define MLXCEL_CPU_DELTA_H

#include "tensor/ops.h"

/* One head's rows of one sequence over the value columns of one or two such slices. The tensors' rows are the sequence's, and
 * their data begins at the head (v and y: at the first column). */
struct delta_scan {
    int           k_dim, n_col; /* n_col <= 2 STATE_LANES */
    bool          per_channel;  /* decay: [k_dim] of a row, else one */
    float        *state;        /* of the slices, one after the other */
    struct tensor q, k, v, decay, beta, y;
};

struct delta_fns {
    /* x = (x / sqrt(sum(x^2) + eps)) scale, in place; sum as in rms_norm (rows.h). */
    void (*unit)(float *x, float eps, float scale, int64_t n);
    /* x = exp(-exp(a_log) softplus(x + dt)), in place; one a_log, or n of them. */
    void (*decay)(const float *a_log, bool one, const float *dt, float *x, int64_t n);
    void (*scan)(const struct delta_scan *s);
};

extern const struct delta_fns delta_scalar, delta_avx2, delta_avx512, delta_neon;

#endif
