/* Internal: the kernels of short convolutions and of state space models. Every level gives the same bits: they are written
 * once (ssm_kernels.h) on the 16 lanes of vec.h, a lane being a channel.
 *
 * All walk the rows of one sequence over a few of its channels, whose state stays in the first-level cache. The tensors'
 * rows are the sequence's, and their data begins at the first of the channels (or at the head, the group).
 */
#ifndef MLXCEL_CPU_SSM_H
#define MLXCEL_CPU_SSM_H

#include "tensor/ops.h"

#define CONV_COLS 64 /* channels of one call */

struct conv_scan {
    int           n_col, width;
    bool          silu;
    const float  *w;           /* [n_col][width] */
    const float  *bias;        /* [n_col], or NULL */
    float        *state;       /* the last width - 1 inputs, the oldest first */
    int64_t       n_state_col; /* columns of a row of the state */
    struct tensor x, y;
};

struct mamba1_scan {
    int           n_col, n_state; /* n_col <= STATE_LANES */
    const float  *a_log;          /* [n_col][n_state] */
    const float  *d;              /* [n_col] */
    float        *state;          /* [n_state][STATE_LANES] */
    struct tensor x, dt, b, c, y;
};

struct mamba2_scan {
    int           n_col, n_state; /* n_col <= 2 STATE_LANES */
    float         a_log, dt_bias, d, dt_min, dt_max;
    float        *state; /* [n_state][STATE_LANES], once or twice */
    struct tensor x, dt, b, c, y;
};

struct ssm_fns {
    void (*conv)(const struct conv_scan *s);
    void (*mamba1)(const struct mamba1_scan *s);
    void (*mamba2)(const struct mamba2_scan *s);
};

extern const struct ssm_fns ssm_scalar, ssm_avx2, ssm_avx512, ssm_neon;

#endif
