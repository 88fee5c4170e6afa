/* Kimi delta attention (Kimi Team 2025): a gated delta net whose decay is per channel of a key.
 *
 *     q, k, v = silu(conv(x Wq^T)), silu(conv(x Wk^T)), silu(conv(x Wv^T))
 *     a = (x Fa^T) Fb^T      b = x Wb^T      g = (x Ga^T) Gb^T
 *     y = the gated delta rule of q, k, v with decays from a and steps sigmoid(b)      tensor/ops.h
 *     y = (norm(y) sigmoid(g)) Wo^T                       the norm over each head
 */
#include <math.h>

#include "model/block.h"

struct kda_block {
    struct weight q, k, v, f_a, f_b, g_a, g_b, b, out;
    struct conv   conv[3];
    struct delta  op;
    struct norm   norm;
};

static bool declare(struct model *m, const struct declare *k, void **state)
{
    const struct delta_desc *t = k->d->layer[k->layer].delta;
    struct kda_block        *b = arena_calloc(&m->arena, 1, sizeof *b);
    const enum name          proj[3] = {NAME_Q, NAME_K, NAME_V};
    const enum name          conv[3] = {NAME_KDA_Q_CONV, NAME_KDA_K_CONV, NAME_KDA_V_CONV};
    struct weight           *w[3] = {&b->q, &b->k, &b->v};
    int64_t                  n = (int64_t)t->n_head * t->k_dim, n_embd = k->d->n_embd, a_log[4] = {1, 1, t->n_head, 1};
    const char              *why = "linear num_heads * head_dim, hidden_size", *low = "linear head_dim, hidden_size";
    if (!b)
        return false;
    for (int i = 0; i < 3; i++)
        declare_linear(k, proj[i], SHARD_ROWS, n, n_embd, why, NULL, w[i]);
    for (int i = 0; i < 3; i++) {
        b->conv[i] = (struct conv){.n = (int)n, .width = t->conv, .silu = true};
        declare_conv(k, conv[i], n, t->conv, "linear num_heads * head_dim, short_conv_kernel_size", NULL,
                     &b->conv[i].w);
        b->conv[i].state = model_add_state(m, conv_state_bytes(&b->conv[i]), k->layer);
    }
    declare_linear(k, NAME_KDA_F_A, SHARD_NONE, t->k_dim, n_embd, low, NULL, &b->f_a);
    declare_linear(k, NAME_KDA_F_B, SHARD_ROWS, n, t->k_dim, "linear num_heads * head_dim, head_dim", NULL, &b->f_b);
    declare_linear(k, NAME_KDA_B, SHARD_ROWS, t->n_head, n_embd, "linear num_heads, hidden_size", NULL, &b->b);
    declare_linear(k, NAME_KDA_G_A, SHARD_NONE, t->k_dim, n_embd, low, NULL, &b->g_a);
    declare_linear(k, NAME_KDA_G_B, SHARD_ROWS, n, t->k_dim, "linear num_heads * head_dim, head_dim", NULL, &b->g_b);
    b->op = (struct delta){.n_k_head = t->n_head,
                           .n_head = t->n_head,
                           .k_dim = t->k_dim,
                           .v_dim = t->v_dim,
                           .per_channel = true,
                           .scale = (float)(1 / sqrt(t->k_dim)),
                           .eps = 1e-6f};
    declare_array(k, NAME_KDA_A_LOG, "", 4, a_log, "linear num_heads", &b->op.a_log);
    declare_vector(k, NAME_KDA_DT_BIAS, n, "linear num_heads * head_dim", &b->op.dt_bias);
    b->op.state = model_add_state(m, delta_state_bytes(&b->op), k->layer);
    declare_norm(k, NAME_KDA_NORM, &t->norm, t->v_dim, "linear head_dim", &b->norm);
    declare_linear(k, NAME_O, SHARD_COLS, n_embd, n, "hidden_size, linear num_heads * head_dim", NULL, &b->out);
    *state = b;
    return true;
}

static int64_t scratch(const struct model_desc *d, int layer)
{
    const struct delta_desc *t = d->layer[layer].delta;
    return 5 * act_cols((int64_t)t->n_head * t->k_dim) + 2 * act_cols(t->k_dim) + act_cols(t->n_head);
}

static void forward(const struct model *m, struct run *r, const void *state, struct activations *s, struct tensor x,
                    struct tensor y)
{
    const struct kda_block *b = state;
    int64_t                 n = b->q.n_out, low = b->f_a.n_out;
    struct tensor           q = act_take(s, x.n_row, n), k = act_take(s, x.n_row, n), v = act_take(s, x.n_row, n);
    struct tensor           f = act_take(s, x.n_row, low), g = act_take(s, x.n_row, low);
    struct tensor           decay = act_take(s, x.n_row, n), gate = act_take(s, x.n_row, n);
    struct tensor           beta = act_take(s, x.n_row, b->b.n_out), qkv[3] = {q, k, v};
    (void)m;
    op_linear_many(r, 3, (const struct weight *const[]){&b->q, &b->k, &b->v}, x, qkv);
    op_linear_many(r, 3, (const struct weight *const[]){&b->f_a, &b->g_a, &b->b}, x,
                   (const struct tensor[]){f, g, beta});
    op_linear(r, &b->f_b, f, decay);
    op_linear(r, &b->g_b, g, gate);
    for (int i = 0; i < 3; i++)
        op_conv(r, &b->conv[i], qkv[i], qkv[i]);
    op_delta_gates(r, &b->op, q, k, decay, beta);
    op_delta(r, &b->op, q, k, v, decay, beta, v);
    op_norm(r, &b->norm, v, v);
    op_act_mul(r, (struct act){.kind = ACT_SIGMOID}, gate, v, v);
    op_linear(r, &b->out, v, y);
}

const struct block mix_kda = {"Kimi delta attention", declare, scratch, forward};
