/* Attention and Mamba 2 side by side on one input (Falcon-H1, 2025): y = mamba2(x) + attn_scale attention(x). */
#include "model/block.h"

struct both {
    void *attn, *mamba2;
    float attn_scale;
};

static bool declare(struct model *m, const struct declare *k, void **state)
{
    struct both *b = arena_calloc(&m->arena, 1, sizeof *b);
    if (!b)
        return false;
    b->attn_scale = k->d->layer[k->layer].attn_scale;
    *state = b;
    return mix_mamba2.declare(m, k, &b->mamba2) && mix_attn.declare(m, k, &b->attn);
}

static int64_t scratch(const struct model_desc *d, int layer)
{
    return mix_attn.scratch(d, layer) + mix_mamba2.scratch(d, layer) + act_cols(d->n_embd);
}

static void forward(const struct model *m, struct run *r, const void *state, struct activations *a, struct tensor x,
                    struct tensor y)
{
    const struct both *b = state;
    struct tensor      attn = act_take(a, x.n_row, y.n_col);
    mix_mamba2.forward(m, r, b->mamba2, a, x, y);
    mix_attn.forward(m, r, b->attn, a, x, attn);
    op_add(r, b->attn_scale, attn, y);
}

const struct block mix_attn_mamba2 = {"attention beside Mamba 2", declare, scratch, forward};
