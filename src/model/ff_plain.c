/* The feed-forward block without a gate: y = act(x Wu^T + bu) Wd^T + bd. */
#include "model/block.h"

struct ff_block {
    struct weight up, down;
    struct weight xielu[4]; /* of that activation */
    struct act    act;
};

static void declare_xielu(const struct declare *k, struct weight w[4])
{
    static const enum name name[4] = {NAME_XIELU_P, NAME_XIELU_N, NAME_XIELU_BETA, NAME_XIELU_EPS};
    for (int i = 0; i < 4; i++)
        declare_array(k, name[i], "", 0, NULL, "hidden_act", &w[i]);
}

static bool declare(struct model *m, const struct declare *k, void **state)
{
    const struct ff_desc *f = &k->d->layer[k->layer].ffn;
    struct ff_block      *b = arena_calloc(&m->arena, 1, sizeof *b);
    const char           *bias = f->bias ? "mlp_bias" : NULL;
    if (!b)
        return false;
    declare_linear(k, NAME_UP, SHARD_ROWS, f->n_ff, k->d->n_embd, "intermediate_size, hidden_size", bias, &b->up);
    declare_linear(k, NAME_DOWN, SHARD_COLS, k->d->n_embd, f->n_ff, "hidden_size, intermediate_size", bias, &b->down);
    b->act = (struct act){.kind = f->act, .xielu = b->xielu};
    if (f->act == ACT_XIELU)
        declare_xielu(k, b->xielu);
    *state = b;
    return true;
}

static int64_t scratch(const struct model_desc *d, int layer)
{
    return act_cols(d->layer[layer].ffn.n_ff);
}

static void forward(const struct model *m, struct run *r, const void *state, struct activations *a, struct tensor x,
                    struct tensor y)
{
    const struct ff_block *b = state;
    struct tensor          up = act_take(a, x.n_row, b->up.n_out);
    (void)m;
    op_linear(r, &b->up, x, up);
    op_act(r, b->act, up, up);
    op_linear(r, &b->down, up, y);
}

const struct block ff_plain = {NULL, declare, scratch, forward};
