/* Mamba 2 (Dao and Gu 2024): a convolution and a scan with one decay per head, beside a gate.
 *
 *     z, x, B, C, dt = W_in h (+ b_in)          [n], [n], [n_group * n_state] twice, [n_head]; n = n_head * head_dim
 *     x, B, C = silu(conv(x, B, C))
 *     y = scan(x, dt, B, C)                     op_mamba2
 *     y = norm(y silu(z)), or norm(y) silu(z), or y silu(z); the norm is over each group's heads by itself
 *     out = W_out y (+ b_out)
 */
#include "model/block.h"

struct mamba2_block {
    struct weight in, out;
    struct conv   conv;
    struct mamba2 scan;
    struct norm   norm;
    bool          norm_first;
};

static int64_t inner(const struct mamba2_desc *d)
{
    return (int64_t)d->n_head * d->head_dim;
}

static int64_t conv_cols(const struct mamba2_desc *d)
{
    return inner(d) + 2 * (int64_t)d->n_group * d->n_state;
}

static void declare_scan(const struct declare *k, const struct mamba2_desc *d, struct mamba2_block *b)
{
    const char *conv = "heads * head size + 2 * groups * size of the state", *heads = "heads of the mixer";
    declare_conv(k, NAME_SSM_CONV, conv_cols(d), d->width, conv, d->conv_bias ? conv : NULL, &b->conv.w);
    declare_vector(k, NAME_SSM_A_LOG, d->n_head, heads, &b->scan.a_log);
    declare_vector(k, NAME_SSM_D, d->n_head, heads, &b->scan.d);
    declare_vector(k, NAME_SSM_DT_BIAS, d->n_head, heads, &b->scan.dt_bias);
    declare_norm(k, NAME_SSM_NORM, &d->norm, inner(d), "heads * head size of the mixer", &b->norm);
    b->norm.n = (int)(inner(d) / d->n_group);
}

static bool declare(struct model *m, const struct declare *k, void **state)
{
    const struct mamba2_desc *d = k->d->layer[k->layer].mamba2;
    struct mamba2_block      *b = arena_calloc(&m->arena, 1, sizeof *b);
    const char               *bias = d->bias ? "use_bias, mamba_proj_bias" : NULL;
    if (!b)
        return false;
    b->conv = (struct conv){.n = (int)conv_cols(d), .width = d->width, .silu = true};
    b->scan = (struct mamba2){.n_head = d->n_head,
                              .head_dim = d->head_dim,
                              .n_state = d->n_state,
                              .n_group = d->n_group,
                              .dt_min = d->dt_min,
                              .dt_max = d->dt_max};
    b->norm_first = d->norm_first;
    declare_linear(k, NAME_SSM_IN, SHARD_NONE, inner(d) + conv_cols(d) + d->n_head, k->d->n_embd,
                   "2 * heads * head size + 2 * groups * size of the state + heads, hidden_size", bias, &b->in);
    declare_linear(k, NAME_SSM_OUT, SHARD_NONE, k->d->n_embd, inner(d), "hidden_size, heads * head size of the mixer",
                   bias, &b->out);
    declare_scan(k, d, b);
    b->conv.state = model_add_state(m, conv_state_bytes(&b->conv), k->layer);
    b->scan.state = model_add_state(m, mamba2_state_bytes(&b->scan), k->layer);
    *state = b;
    return true;
}

static int64_t scratch(const struct model_desc *m, int layer)
{
    const struct mamba2_desc *d = m->layer[layer].mamba2;
    return act_cols(inner(d) + conv_cols(d) + d->n_head);
}

static void gate(const struct mamba2_block *b, struct run *r, struct tensor z, struct tensor y)
{
    if (b->norm_first && b->norm.kind != NORM_NONE)
        op_norm(r, &b->norm, y, y);
    op_act_mul(r, (struct act){.kind = ACT_SILU}, z, y, y);
    if (!b->norm_first && b->norm.kind != NORM_NONE)
        op_norm(r, &b->norm, y, y);
}

static void forward(const struct model *m, struct run *r, const void *state, struct activations *a, struct tensor x,
                    struct tensor y)
{
    const struct mamba2_block *b = state;
    int64_t       n = (int64_t)b->scan.n_head * b->scan.head_dim, n_bc = (int64_t)b->scan.n_group * b->scan.n_state;
    struct tensor in = act_take(a, x.n_row, b->in.n_out), conv = tensor_cols(in, n, b->conv.n);
    struct tensor dt = tensor_cols(in, n + b->conv.n, b->scan.n_head), u = tensor_cols(conv, 0, n);
    (void)m;
    op_linear(r, &b->in, x, in);
    op_conv(r, &b->conv, conv, conv);
    op_mamba2(r, &b->scan, u, dt, tensor_cols(conv, n, n_bc), tensor_cols(conv, n + n_bc, n_bc), u);
    gate(b, r, tensor_cols(in, 0, n), u);
    op_linear(r, &b->out, u, y);
}

const struct block mix_mamba2 = {"Mamba 2", declare, scratch, forward};
