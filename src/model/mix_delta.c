/* Gated delta net (Yang et al. 2024), as Qwen3-Next has it:
 *
 *     q, k, v = silu(conv([x Wq^T, x Wk^T, x Wv^T]))      one convolution over all columns
 *     z, b, a = x Wz^T, x Wb^T, x Wa^T
 *     y = the gated delta rule of q, k, v with decays from a and steps sigmoid(b)      tensor/ops.h
 *     y = (norm(y) silu(z)) Wo^T                          the norm over each head
 *
 * The matrices are [q, k, v], z, b and a, or fused: in_proj_qkvz has for every key head its q, k, and the v and z of its value
 * heads; in_proj_ba likewise b and a.
 */
#include <math.h>

#include "model/block.h"

struct delta_block {
    struct weight qkvz, ba;     /* fused */
    struct weight qkv, z, b, a; /* apart */
    struct conv   conv;
    struct delta  op;
    struct norm   norm;
    struct weight out;
    bool          fused;
};

static int64_t key_cols(const struct delta_desc *t)
{
    return (int64_t)t->n_k_head * t->k_dim;
}

static int64_t value_cols(const struct delta_desc *t)
{
    return (int64_t)t->n_head * t->v_dim;
}

static void declare_in(const struct declare *k, const struct delta_desc *t, struct delta_block *b)
{
    const char *why =
        "linear_num_key_heads, linear_key_head_dim, linear_num_value_heads, linear_value_head_dim, hidden_size";
    const char *head_why = "linear_num_value_heads, hidden_size";
    int64_t     n = k->d->n_embd, qkv = 2 * key_cols(t) + value_cols(t);
    if (t->fused) {
        declare_linear(k, NAME_DELTA_QKVZ, SHARD_ROWS, qkv + value_cols(t), n, why, NULL, &b->qkvz);
        declare_linear(k, NAME_DELTA_BA, SHARD_ROWS, 2 * t->n_head, n, head_why, NULL, &b->ba);
        return;
    }
    declare_linear(k, NAME_DELTA_QKV, SHARD_NONE, qkv, n, why, NULL, &b->qkv);
    declare_linear(k, NAME_DELTA_Z, SHARD_ROWS, value_cols(t), n, why, NULL, &b->z);
    declare_linear(k, NAME_DELTA_B, SHARD_ROWS, t->n_head, n, head_why, NULL, &b->b);
    declare_linear(k, NAME_DELTA_A, SHARD_ROWS, t->n_head, n, head_why, NULL, &b->a);
}

static bool declare(struct model *m, const struct declare *k, void **state)
{
    const struct delta_desc *t = k->d->layer[k->layer].delta;
    struct delta_block      *b = arena_calloc(&m->arena, 1, sizeof *b);
    const char              *heads = "linear_num_value_heads";
    if (!b)
        return false;
    b->fused = t->fused;
    declare_in(k, t, b);
    b->conv = (struct conv){.n = (int)(2 * key_cols(t) + value_cols(t)), .width = t->conv, .silu = true};
    declare_conv(k, NAME_DELTA_CONV, b->conv.n, t->conv,
                 "2 * linear_num_key_heads * linear_key_head_dim + linear_num_value_heads * linear_value_head_dim, "
                 "linear_conv_kernel_dim",
                 NULL, &b->conv.w);
    b->conv.state = model_add_state(m, conv_state_bytes(&b->conv), k->layer);
    b->op = (struct delta){.n_k_head = t->n_k_head,
                           .n_head = t->n_head,
                           .k_dim = t->k_dim,
                           .v_dim = t->v_dim,
                           .scale = (float)(1 / sqrt(t->k_dim)),
                           .eps = 1e-6f};
    declare_vector(k, NAME_DELTA_DT_BIAS, t->n_head, heads, &b->op.dt_bias);
    declare_vector(k, NAME_DELTA_A_LOG, t->n_head, heads, &b->op.a_log);
    b->op.state = model_add_state(m, delta_state_bytes(&b->op), k->layer);
    declare_norm(k, NAME_DELTA_NORM, &t->norm, t->v_dim, "linear_value_head_dim", &b->norm);
    declare_linear(k, NAME_DELTA_OUT, SHARD_COLS, k->d->n_embd, value_cols(t),
                   "hidden_size, linear_num_value_heads * linear_value_head_dim", NULL, &b->out);
    *state = b;
    return true;
}

static int64_t scratch(const struct model_desc *d, int layer)
{
    const struct delta_desc *t = d->layer[layer].delta;
    int64_t                  qkv = 2 * key_cols(t) + value_cols(t), v = value_cols(t);
    return act_cols(qkv) + act_cols(v) + 2 * act_cols(t->n_head) +
           (t->fused ? act_cols(qkv + v) + act_cols(2 * t->n_head) : 0);
}

/* The projections, taken apart when they are fused. */
static void project(struct run *r, const struct delta_block *b, struct activations *s, struct tensor x,
                    struct tensor qkv, struct tensor z, struct tensor beta, struct tensor a)
{
    if (!b->fused) {
        op_linear_many(r, 4, (const struct weight *const[]){&b->qkv, &b->z, &b->b, &b->a}, x,
                       (const struct tensor[]){qkv, z, beta, a});
        return;
    }
    const struct delta *d = &b->op;
    int                 per = d->n_head / d->n_k_head, n_v = per * d->v_dim, group = 2 * d->k_dim + 2 * n_v;
    int64_t             n_k = (int64_t)d->n_k_head * d->k_dim;
    struct tensor       qkvz = act_take(s, x.n_row, b->qkvz.n_out), ba = act_take(s, x.n_row, b->ba.n_out);
    op_linear_many(r, 2, (const struct weight *const[]){&b->qkvz, &b->ba}, x, (const struct tensor[]){qkvz, ba});
    op_gather_cols(r, 0, group, d->k_dim, qkvz, tensor_cols(qkv, 0, n_k));
    op_gather_cols(r, d->k_dim, group, d->k_dim, qkvz, tensor_cols(qkv, n_k, n_k));
    op_gather_cols(r, 2 * d->k_dim, group, n_v, qkvz, tensor_cols(qkv, 2 * n_k, z.n_col));
    op_gather_cols(r, 2 * d->k_dim + n_v, group, n_v, qkvz, z);
    op_gather_cols(r, 0, 2 * per, per, ba, beta);
    op_gather_cols(r, per, 2 * per, per, ba, a);
}

static void forward(const struct model *m, struct run *r, const void *state, struct activations *s, struct tensor x,
                    struct tensor y)
{
    const struct delta_block *b = state;
    const struct delta       *d = &b->op;
    int64_t                   n_k = (int64_t)d->n_k_head * d->k_dim, n_v = (int64_t)d->n_head * d->v_dim;
    struct tensor             qkv = act_take(s, x.n_row, 2 * n_k + n_v), z = act_take(s, x.n_row, n_v);
    struct tensor             beta = act_take(s, x.n_row, d->n_head), a = act_take(s, x.n_row, d->n_head);
    struct tensor q = tensor_cols(qkv, 0, n_k), k = tensor_cols(qkv, n_k, n_k), v = tensor_cols(qkv, 2 * n_k, n_v);
    (void)m;
    project(r, b, s, x, qkv, z, beta, a);
    op_conv(r, &b->conv, qkv, qkv);
    op_delta_gates(r, d, q, k, a, beta);
    op_delta(r, d, q, k, v, a, beta, v);
    op_norm(r, &b->norm, v, v);
    op_act_mul(r, (struct act){.kind = ACT_SILU}, z, v, v);
    op_linear(r, &b->out, v, y);
}

const struct block mix_delta = {"gated delta net", declare, scratch, forward};
