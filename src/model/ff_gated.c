/* The gated feed-forward block: y = (act(x Wg^T + bg) * (x Wu^T + bu)) Wd^T + bd. With SiLU it is SwiGLU; Shazeer 2020.
 * Wg and Wu may be the halves of one matrix. */
#include "model/block.h"
#include "model/target.h"

struct ff_block {
    struct weight gate, up; /* of a fused one gate is both */
    struct weight down;
    struct act    act;
    int64_t       n_ff;
    bool          fused;
};

/* The halves keep their usual names for adapters. */
static void declare_fused(const struct declare *k, const struct ff_desc *f, const char *bias, struct weight *w)
{
    declare_linear(k, NAME_GATE_UP, SHARD_NONE, 2 * (int64_t)f->n_ff, k->d->n_embd,
                   "2 * intermediate_size, hidden_size", bias, w);
    params_part(k->p, k->layer, declare_name(k, NAME_GATE, ""), w, 0, f->n_ff);
    params_part(k->p, k->layer, declare_name(k, NAME_UP, ""), w, f->n_ff, f->n_ff);
}

static bool declare(struct model *m, const struct declare *k, void **state)
{
    const struct ff_desc *f = &k->d->layer[k->layer].ffn;
    struct ff_block      *b = arena_calloc(&m->arena, 1, sizeof *b);
    const char           *why = "intermediate_size, hidden_size", *bias = f->bias ? "mlp_bias" : NULL;
    if (!b)
        return false;
    if (f->fused) {
        declare_fused(k, f, bias, &b->gate);
    } else {
        declare_linear(k, NAME_GATE, SHARD_ROWS, f->n_ff, k->d->n_embd, why, bias, &b->gate);
        declare_linear(k, NAME_UP, SHARD_ROWS, f->n_ff, k->d->n_embd, why, bias, &b->up);
    }
    declare_linear(k, NAME_DOWN, SHARD_COLS, k->d->n_embd, f->n_ff, "hidden_size, intermediate_size", bias, &b->down);
    b->act = (struct act){.kind = f->act};
    b->n_ff = f->n_ff;
    b->fused = f->fused;
    *state = b;
    return true;
}

static int64_t scratch(const struct model_desc *d, int layer)
{
    return 2 * act_cols(d->layer[layer].ffn.n_ff);
}

static void forward(const struct model *m, struct run *r, const void *state, struct activations *a, struct tensor x,
                    struct tensor y)
{
    const struct ff_block *b = state;
    (void)m;
    if (b->fused) {
        struct tensor both = act_take(a, x.n_row, 2 * b->n_ff), gate = tensor_cols(both, 0, b->n_ff);
        op_linear(r, &b->gate, x, both);
        op_act_mul(r, b->act, gate, tensor_cols(both, b->n_ff, b->n_ff), gate);
        op_linear(r, &b->down, gate, y);
    } else {
        struct tensor gate = act_take(a, x.n_row, b->n_ff), up = act_take(a, x.n_row, b->n_ff);
        op_linear_act_mul(r, b->act, &b->gate, &b->up, x, up, gate);
        op_linear(r, &b->down, gate, y);
    }
}

const struct block ff_gated = {NULL, declare, scratch, forward};
