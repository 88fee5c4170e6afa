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
/* How a router turns logits into the scores by which a row's experts are chosen and weighted: SOFTMAX over all experts,
 * SIGMOID of each, or TOP_SOFTMAX: chosen by the logits, weighted by the softmax over those chosen. */
enum route_score { ROUTE_SOFTMAX, ROUTE_SIGMOID, ROUTE_TOP_SOFTMAX };

#define ROUTE_EXPERTS_MAX 4096 /* that a router scores */
#define ROUTE_GROUPS_MAX 256

/* The score of a group of experts: its best one, or the sum of its best two. */
enum route_group { ROUTE_GROUP_BEST, ROUTE_GROUP_BEST2 };

#endif
