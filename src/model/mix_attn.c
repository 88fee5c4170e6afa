/* Attention with grouped heads:
 *
 *     q = x Wq^T (+ bq)   k = x Wk^T (+ bk)   v = x Wv^T (+ bv)        [rows, heads * head_dim]
 *     q, k = RMSnorm over head_dim                                    when qk_norm
 *     q, k = rope(q, k);  cache <- k, v
 *     y = softmax(scale q K^T) V  Wo^T (+ bo)                          query head h reads kv head h / (n_head / n_kv_head)
 */
#include "model/model.h"

static void bias(struct params *p, enum param_shard shard, int layer, const char *name, int64_t n, struct weight *w)
{
    params_add(p, ROLE_BIAS, shard, layer, name, n, 0, "attention_bias", w);
}

void mix_attn_declare(struct params *p, const struct model_desc *d, int i, struct layer *l)
{
    const struct attn_desc *a = &d->layer[i].attn;
    struct attn_block      *b = &l->attn;
    int64_t                 n_q = (int64_t)a->n_head * a->head_dim, n_kv = (int64_t)a->n_kv_head * a->head_dim;
    const char             *q_why = "num_attention_heads * head_dim, hidden_size";
    const char             *kv_why = "num_key_value_heads * head_dim, hidden_size";
    params_add(p, ROLE_LINEAR, SHARD_ROWS, i, "model.layers.%d.self_attn.q_proj", n_q, d->n_embd, q_why, &b->q);
    params_add(p, ROLE_LINEAR, SHARD_ROWS, i, "model.layers.%d.self_attn.k_proj", n_kv, d->n_embd, kv_why, &b->k);
    params_add(p, ROLE_LINEAR, SHARD_ROWS, i, "model.layers.%d.self_attn.v_proj", n_kv, d->n_embd, kv_why, &b->v);
    params_add(p, ROLE_LINEAR, SHARD_COLS, i, "model.layers.%d.self_attn.o_proj", d->n_embd, n_q,
               "hidden_size, num_attention_heads * head_dim", &b->o);
    if (a->qkv_bias) {
        bias(p, SHARD_ROWS, i, "model.layers.%d.self_attn.q_proj.bias", n_q, &b->q);
        bias(p, SHARD_ROWS, i, "model.layers.%d.self_attn.k_proj.bias", n_kv, &b->k);
        bias(p, SHARD_ROWS, i, "model.layers.%d.self_attn.v_proj.bias", n_kv, &b->v);
    }
    if (a->o_bias)
        bias(p, SHARD_NONE, i, "model.layers.%d.self_attn.o_proj.bias", d->n_embd, &b->o);
    if (a->qk_norm) {
        params_add(p, ROLE_NORM, SHARD_NONE, i, "model.layers.%d.self_attn.q_norm", a->head_dim, 0, "head_dim",
                   &b->q_norm);
        params_add(p, ROLE_NORM, SHARD_NONE, i, "model.layers.%d.self_attn.k_norm", a->head_dim, 0, "head_dim",
                   &b->k_norm);
    }
    b->qk_norm = a->qk_norm;
    b->rope = a->rope;
    b->op = (struct attn){.n_head = a->n_head,
                          .n_kv_head = a->n_kv_head,
                          .head_dim = a->head_dim,
                          .window = a->window,
                          .scale = a->scale};
}

void mix_attn_forward(const struct model *m, struct run *r, const struct layer *l, struct activations *a)
{
    const struct attn_block   *b = &l->attn;
    int                        n = r->step->n_row;
    const struct weight *const w[3] = {&b->q, &b->k, &b->v};
    struct tensor              q = tensor_rows(tensor_cols(a->q, 0, b->q.n_out), n);
    struct tensor              k = tensor_rows(tensor_cols(a->k, 0, b->k.n_out), n);
    struct tensor              v = tensor_rows(tensor_cols(a->v, 0, b->v.n_out), n);
    struct tensor              y = tensor_rows(tensor_cols(a->a, 0, b->q.n_out), n);
    const struct tensor        out[3] = {q, k, v};
    op_linear_many(r, 3, w, tensor_rows(a->y, n), out);
    if (b->qk_norm) {
        op_rms_norm(r, &b->q_norm, m->desc.norm_eps, q, q);
        op_rms_norm(r, &b->k_norm, m->desc.norm_eps, k, k);
    }
    op_rope_kv_write(r, &m->rope[b->rope], tensor_rows(a->cs[b->rope], n), &b->op, q, k, v);
    op_attention(r, &b->op, q, y);
    op_linear(r, &b->o, y, tensor_rows(a->delta, n));
}
