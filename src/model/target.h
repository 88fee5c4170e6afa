/* What a module's name means to an adapter: rows of parameters of the table.
 *
 * Mostly a name is that of a row of the table. Blocks declare the other names beside their rows, as data:
 *
 *   a part of a parameter stored as one     q_proj of qkv_proj: some of its rows
 *   a fused name over several parameters    qkv_proj where q, k and v are stored apart: one input, outputs split
 *   one matrix of a stack                   mlp.experts.3.gate_proj: a '#' in the declared name stands for the number
 *   a head that is tied to the embedding    lm_head: the embedding's rows, used as the head only
 *   planes of heads                         kv_b_proj where its rows are kept head by head, some of them transposed
 *
 * A pair (A [rank, n_in], B [n_out, rank]) of the module changes each segment's matrix by its rows of B.
 */
#ifndef MLXCEL_MODEL_TARGET_H
#define MLXCEL_MODEL_TARGET_H

#include "model/params.h"

#define SEGMENT_ALL (-1)

/* The module's outputs from, from + step, ... (n_row of them) are the rows [row, row + n_row) of a matrix; where
 * `transposed`, its columns [row, row + n_row), and the module's inputs are its rows. */
struct param_segment {
    const struct weight *weight; /* the parameter's (of a stack: its first) */
    const struct param  *param;  /* its row of the table; params_finish fills it */
    int                  slice;  /* the matrix of a stack, SEGMENT_ALL: those that the target's name means */
    bool                 transposed;
    int64_t              from, step, row, n_row;
};

struct param_target {
    int64_t                     n_in, n_out; /* of the module as it is named; of each matrix of a stack */
    int                         slice;   /* the number in the name, SEGMENT_ALL: every matrix (one where no stack is) */
    int                         n_slice; /* how many matrices the name means: an adapter has a pair for each */
    unsigned                    uses; /* WEIGHT_LINEAR, WEIGHT_EMBED: where the pair acts; WEIGHT_VECTOR: no pair can */
    int                         n;
    const struct param_segment *segment; /* [n], as long as the table */
};

/* What a module's name, without ".weight" and as the table spells it, stands for. False: nothing of the model. Rows of
 * layers that are not loaded are found, too; they are not bound (bytes = 0). */
bool params_target(const struct params *p, const char *name, struct param_target *t);

/* The weight that pair i, i < n_slice, of the target changes in segment s. */
static inline struct weight *param_target_weight(const struct param_target *t, const struct param_segment *s, int i)
{
    return &s->param->weight[s->slice != SEGMENT_ALL ? s->slice : t->slice != SEGMENT_ALL ? t->slice : i];
}

/* ---- declaring, between params_add and params_finish; name is formatted with the layer as there ---- */

/* The rows [row, row + n_row) of w (of every matrix of a stack, or with '#' in the name, of one). */
void params_part(struct params *p, int layer, const char *name, const struct weight *w, int64_t row, int64_t n_row);
#define FUSED_MAX 8
/* All rows of w[0], then of w[1], ... : n <= FUSED_MAX, of one width, all plain or all stacks of one size. */
void params_fused(struct params *p, int layer, const char *name, int n, const struct weight *const *w);
/* The head that is the embedding, which thereby is used as both. */
void params_tied_head(struct params *p, const char *name, const struct weight *embedding);
/* Any segments, copied; of each weight, slice, transposed, from, step, row and n_row are read. */
void params_segments(struct params *p, int layer, const char *name, int64_t n_in, int64_t n_out, int n,
                     const struct param_segment *s);
/* Whether that name has been declared; linear in how many there are. */
bool params_has_target(const struct params *p, const char *name);

/* ---- between params.c and target.c ---- */

char *params_layer_name(struct params *p, const char *name, int layer); /* in the arena; NULL when out of memory */
int   params_finish_targets(struct params *p, struct error *e);

#endif
