/* A short convolution between two gates (LFM2, Liquid AI 2025):
 *
 *     B, C, h = x Win^T (+ b)      y = (C * conv(B * h)) Wout^T (+ b)
 */
#include "model/block.h"

struct shortconv_block {
    struct weight in, out;
    struct conv   conv;
};

static bool declare(struct model *m, const struct declare *k, void **state)
{
    const struct shortconv_desc *t = k->d->layer[k->layer].shortconv;
    struct shortconv_block      *b = arena_calloc(&m->arena, 1, sizeof *b);
    int64_t                      n = k->d->n_embd;
    const char                  *bias = t->bias ? "conv_bias" : NULL;
    if (!b)
        return false;
    b->conv = (struct conv){.n = (int)n, .width = t->conv};
    declare_conv(k, NAME_SHORTCONV, n, t->conv, "hidden_size, conv_L_cache", bias, &b->conv.w);
    b->conv.state = model_add_state(m, conv_state_bytes(&b->conv), k->layer);
    declare_linear(k, NAME_SHORTCONV_IN, SHARD_NONE, 3 * n, n, "3 * hidden_size, hidden_size", bias, &b->in);
    declare_linear(k, NAME_SHORTCONV_OUT, SHARD_COLS, n, n, "hidden_size, hidden_size", bias, &b->out);
    *state = b;
    return true;
}

static int64_t scratch(const struct model_desc *d, int layer)
{
    (void)layer;
    return act_cols(3 * (int64_t)d->n_embd);
}

static void forward(const struct model *m, struct run *r, const void *state, struct activations *a, struct tensor x,
                    struct tensor y)
{
    const struct shortconv_block *b = state;
    int64_t                       n = x.n_col;
    struct tensor                 bch = act_take(a, x.n_row, 3 * n), gate = tensor_cols(bch, 0, n);
    struct tensor                 out = tensor_cols(bch, n, n), h = tensor_cols(bch, 2 * n, n);
    struct act                    identity = {.kind = ACT_IDENTITY};
    (void)m;
    op_linear(r, &b->in, x, bch);
    op_act_mul(r, identity, gate, h, h);
    op_conv(r, &b->conv, h, h);
    op_act_mul(r, identity, out, h, h);
    op_linear(r, &b->out, h, y);
}

const struct block mix_shortconv = {"short convolution", declare, scratch, forward};
