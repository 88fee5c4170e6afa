/* The gated feed-forward block: y = (act(x Wg^T + bg) * (x Wu^T + bu)) Wd^T + bd. With SiLU it is SwiGLU; Shazeer 2020. */
#include "model/block.h"

struct ff_block {
    struct weight gate, up, down;
    struct act    act;
};

static bool declare(struct model *m, const struct declare *k, void **state)
{
    const struct ff_desc *f = &k->d->layer[k->layer].ffn;
    struct ff_block      *b = arena_calloc(&m->arena, 1, sizeof *b);
    const char           *why = "intermediate_size, hidden_size", *bias = f->bias ? "mlp_bias" : NULL;
    if (!b)
        return false;
    declare_linear(k, NAME_GATE, SHARD_ROWS, f->n_ff, k->d->n_embd, why, bias, &b->gate);
    declare_linear(k, NAME_UP, SHARD_ROWS, f->n_ff, k->d->n_embd, why, bias, &b->up);
    declare_linear(k, NAME_DOWN, SHARD_COLS, k->d->n_embd, f->n_ff, "hidden_size, intermediate_size", bias, &b->down);
    b->act = (struct act){.kind = f->act};
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
    struct tensor          gate = act_take(a, x.n_row, b->gate.n_out), up = act_take(a, x.n_row, b->up.n_out);
    (void)m;
    op_linear_act_mul(r, b->act, &b->gate, &b->up, x, up, gate);
    op_linear(r, &b->down, gate, y);
}

const struct block ff_gated = {declare, scratch, forward};
