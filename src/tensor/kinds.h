/* Kinds of small operations that both a model's description and the operations name. */
#ifndef MLXCEL_TENSOR_KINDS_H
#define MLXCEL_TENSOR_KINDS_H

/* RMS: x / sqrt(mean(x^2) + eps) w (Zhang and Sennrich 2019); LAYER: (x - mean) / sqrt(variance + eps) w + b (Ba et al.
 * 2016). NONE: there is no norm. */
enum norm_kind { NORM_NONE, NORM_RMS, NORM_LAYER };

enum act_kind {
    ACT_SILU, /* x sigmoid(x) */
};

#define DELTA_K_DIM_MAX 1024 /* widest key of a delta rule */

#endif
