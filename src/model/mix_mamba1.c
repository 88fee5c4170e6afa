/* Mamba (Gu and Dao 2023): a convolution and a selective scan beside a gate.
 *
 *     x, z = W_in h (+ b_in)                    [n] each
 *     x = silu(conv(x))
 *     dt, B, C = W_x x                          [dt_rank], [n_state], [n_state]; each normalised where there is a norm
 *     dt = W_dt dt + b_dt                       [n]
 *     y = scan(x, dt, B, C)                     op_mamba1
 *     out = W_out (y silu(z)) (+ b_out)
 */
#include "model/block.h"

struct mamba1_block {
    struct weight in, x, dt, out;
    struct norm   dt_norm, b_norm, c_norm;
    struct conv   conv;
    struct mamba1 scan;
    int           dt_rank;
};

static void declare_scan(const struct declare *k, const struct mamba1_desc *d, struct mamba1_block *b)
{
    const int64_t a_log[] = {d->n, d->n_state};
    const char   *why = "width of the mixer, size of its state";
    declare_conv(k, NAME_SSM_CONV, d->n, d->width, "width of the mixer, convolution kernel",
                 d->conv_bias ? "width of the mixer" : NULL, &b->conv.w);
    declare_array(k, NAME_SSM_A_LOG, "", 2, a_log, why, &b->scan.a_log);
    declare_vector(k, NAME_SSM_D, d->n, "width of the mixer", &b->scan.d);
    declare_norm(k, NAME_SSM_DT_NORM, &d->norm, d->dt_rank, "rank of the time step", &b->dt_norm);
    declare_norm(k, NAME_SSM_B_NORM, &d->norm, d->n_state, why, &b->b_norm);
    declare_norm(k, NAME_SSM_C_NORM, &d->norm, d->n_state, why, &b->c_norm);
}

static bool declare(struct model *m, const struct declare *k, void **state)
{
    const struct mamba1_desc *d = k->d->layer[k->layer].mamba1;
    struct mamba1_block      *b = arena_calloc(&m->arena, 1, sizeof *b);
    const char               *bias = d->bias ? "use_bias" : NULL;
    if (!b)
        return false;
    declare_linear(k, NAME_SSM_IN, SHARD_NONE, 2 * (int64_t)d->n, k->d->n_embd, "2 * width of the mixer, hidden_size",
                   bias, &b->in);
    declare_linear(k, NAME_SSM_X, SHARD_NONE, d->dt_rank + 2 * (int64_t)d->n_state, d->n,
                   "rank of the time step + 2 * size of the state, width of the mixer", NULL, &b->x);
    declare_linear(k, NAME_SSM_DT, SHARD_NONE, d->n, d->dt_rank, "width of the mixer, rank of the time step",
                   "width of the mixer", &b->dt);
    declare_linear(k, NAME_SSM_OUT, SHARD_NONE, k->d->n_embd, d->n, "hidden_size, width of the mixer", bias, &b->out);
    declare_scan(k, d, b);
    b->dt_rank = d->dt_rank;
    b->conv.n = b->scan.n = d->n;
    b->conv.width = d->width;
    b->conv.silu = true;
    b->scan.n_state = d->n_state;
    b->conv.state = model_add_state(m, conv_state_bytes(&b->conv), k->layer);
    b->scan.state = model_add_state(m, mamba1_state_bytes(&b->scan), k->layer);
    *state = b;
    return true;
}

static int64_t scratch(const struct model_desc *m, int layer)
{
    const struct mamba1_desc *d = m->layer[layer].mamba1;
    return act_cols(2 * (int64_t)d->n) + act_cols(d->dt_rank + 2 * (int64_t)d->n_state) + act_cols(d->n);
}

static void norm(struct run *r, const struct norm *n, struct tensor x)
{
    if (n->kind != NORM_NONE)
        op_norm(r, n, x, x);
}

static void forward(const struct model *m, struct run *r, const void *state, struct activations *a, struct tensor x,
                    struct tensor y)
{
    const struct mamba1_block *b = state;
    int64_t                    n = b->scan.n, n_state = b->scan.n_state;
    struct tensor              in = act_take(a, x.n_row, 2 * n), p = act_take(a, x.n_row, b->x.n_out);
    struct tensor              dt = act_take(a, x.n_row, n), u = tensor_cols(in, 0, n), z = tensor_cols(in, n, n);
    struct tensor              rank = tensor_cols(p, 0, b->dt_rank), B = tensor_cols(p, b->dt_rank, n_state);
    struct tensor              C = tensor_cols(p, b->dt_rank + n_state, n_state);
    (void)m;
    op_linear(r, &b->in, x, in);
    op_conv(r, &b->conv, u, u);
    op_linear(r, &b->x, u, p);
    norm(r, &b->dt_norm, rank);
    norm(r, &b->b_norm, B);
    norm(r, &b->c_norm, C);
    op_linear(r, &b->dt, rank, dt);
    op_mamba1(r, &b->scan, u, dt, B, C, u);
    op_act_mul(r, (struct act){.kind = ACT_SILU}, z, u, u);
    op_linear(r, &b->out, u, y);
}

const struct block mix_mamba1 = {"Mamba", declare, scratch, forward};
