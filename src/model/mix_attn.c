/* Attention with grouped heads:
 *
 *     q = x Wq^T (+ bq)   k = x Wk^T (+ bk)   v = x Wv^T (+ bv)        [rows, heads * head_dim]
 *     q, k = norm over head_dim                                       where there is one
 *     q, k = rope(q, k);  cache <- k, v
 *     y = softmax(scale q K^T) V  Wo^T (+ bo)                          query head h reads kv head h / (n_head / n_kv_head)
 */
#include "model/block.h"

struct attn_block {
    struct weight q, k, v, o;
    struct norm   q_norm, k_norm;
    struct attn   op;
    int           rope; /* index into model.rope; -1: none */
};

static bool declare(struct model *m, const struct declare *k, void **state)
{
    const struct attn_desc *a = &k->d->layer[k->layer].attn;
    struct attn_block      *b = arena_calloc(&m->arena, 1, sizeof *b);
    int64_t                 n_q = (int64_t)a->n_head * a->head_dim, n_kv = (int64_t)a->n_kv_head * a->head_dim;
    int                     n_embd = k->d->n_embd;
    const char             *kv_why = "num_key_value_heads * head_dim, hidden_size";
    const char             *qkv_bias = a->qkv_bias ? "attention_bias" : NULL;
    if (!b)
        return false;
    declare_linear(k, NAME_Q, SHARD_ROWS, n_q, n_embd, "num_attention_heads * head_dim, hidden_size", qkv_bias, &b->q);
    declare_linear(k, NAME_K, SHARD_ROWS, n_kv, n_embd, kv_why, qkv_bias, &b->k);
    declare_linear(k, NAME_V, SHARD_ROWS, n_kv, n_embd, kv_why, qkv_bias, &b->v);
    declare_linear(k, NAME_O, SHARD_COLS, n_embd, n_q, "hidden_size, num_attention_heads * head_dim",
                   a->o_bias ? "attention_bias" : NULL, &b->o);
    declare_norm(k, NAME_Q_NORM, &a->qk_norm, a->head_dim, "head_dim", &b->q_norm);
    declare_norm(k, NAME_K_NORM, &a->qk_norm, a->head_dim, "head_dim", &b->k_norm);
    b->rope = a->rope;
    b->op = (struct attn){.n_head = a->n_head,
                          .n_kv_head = a->n_kv_head,
                          .head_dim = a->head_dim,
                          .v_dim = a->head_dim,
                          .window = a->window,
                          .scale = a->scale};
    model_add_kv(m, &b->op, k->layer);
    *state = b;
    return true;
}

static int64_t scratch(const struct model_desc *d, int layer)
{
    const struct attn_desc *a = &d->layer[layer].attn;
    return 2 * act_cols((int64_t)a->n_head * a->head_dim) + 2 * act_cols((int64_t)a->n_kv_head * a->head_dim);
}

static void forward(const struct model *m, struct run *r, const void *state, struct activations *a, struct tensor x,
                    struct tensor y)
{
    const struct attn_block   *b = state;
    const struct weight *const w[3] = {&b->q, &b->k, &b->v};
    struct tensor              q = act_take(a, x.n_row, b->q.n_out), k = act_take(a, x.n_row, b->k.n_out);
    struct tensor              v = act_take(a, x.n_row, b->v.n_out), heads = act_take(a, x.n_row, b->q.n_out);
    op_linear_many(r, 3, w, x, (const struct tensor[]){q, k, v});
    if (b->q_norm.kind != NORM_NONE) {
        op_norm(r, &b->q_norm, q, q);
        op_norm(r, &b->k_norm, k, k);
    }
    if (b->rope < 0)
        op_kv_write(r, &b->op, k, v);
    else
        op_rope_kv_write(r, &m->rope[b->rope], tensor_rows(a->cs[b->rope], x.n_row), &b->op, q, k, v);
    op_attention(r, &b->op, q, heads);
    op_linear(r, &b->o, heads, y);
}

const struct block mix_attn = {declare, scratch, forward};
