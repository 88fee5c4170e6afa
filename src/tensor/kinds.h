/* Kinds of small operations that both a model's description and the operations name. */
#ifndef MLXCEL_TENSOR_KINDS_H
#define MLXCEL_TENSOR_KINDS_H

/* RMS: x / sqrt(mean(x^2) + eps) w (Zhang and Sennrich 2019); LAYER: (x - mean) / sqrt(variance + eps) w + b (Ba et al.
 * 2016). NONE: there is no norm. */
enum norm_kind { NORM_NONE, NORM_RMS, NORM_LAYER };

enum act_kind {
    ACT_SILU,       /* x sigmoid(x) */
    ACT_GELU,       /* x Phi(x), Phi the normal distribution: by erf (Hendrycks and Gimpel 2016) */
    ACT_GELU_TANH,  /* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
    ACT_GELU_QUICK, /* x sigmoid(1.702 x) */
    ACT_RELU,
    ACT_RELU2, /* max(x, 0)^2 */
    ACT_SIGMOID,
    ACT_SOFTPLUS, /* log(1 + e^x) */
    ACT_TANH,
    ACT_IDENTITY,       /* x */
    ACT_SWIGLU_CLAMPED, /* of a gate and what it multiplies alone (gpt-oss): struct act */
    ACT_XIELU,          /* without a gate alone (Huang and Schlag 2024): struct act */
};

#define DELTA_K_DIM_MAX 1024 /* widest key of a delta rule */
#define CONV_WIDTH_MAX 16    /* inputs of a short convolution */
#define MAMBA1_STATE_MAX 256 /* numbers of a channel's state */

/* How a router turns logits into the scores by which a row's experts are chosen and weighted: SOFTMAX over all experts,
 * SIGMOID of each, or TOP_SOFTMAX: chosen by the logits, weighted by the softmax over those chosen. SPARSE_MIXER (Liu et al.
 * 2023): one after the other, each weighted by the softmax over what is left and within 2 jitter of it. */
enum route_score { ROUTE_SOFTMAX, ROUTE_SIGMOID, ROUTE_TOP_SOFTMAX, ROUTE_SPARSE_MIXER };

#define ROUTE_EXPERTS_MAX 4096 /* that a router scores */
#define ROUTE_GROUPS_MAX 256

/* The score of a group of experts: its best one, or the sum of its best two. */
enum route_group { ROUTE_GROUP_BEST, ROUTE_GROUP_BEST2 };

#endif
