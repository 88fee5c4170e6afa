/* Attention with grouped heads:
 *
 *     q = x Wq^T (+ bq)   k = x Wk^T (+ bk)   v = x Wv^T (+ bv)        [rows, heads * head_dim], stored apart or as one
 *     q, k = norm(q, k);  q, k, v = clip(q, k, v)                     where there is one; the norm may come after rope
 *     q, k = rope(q, k);  cache <- k, v                               layers without a rope know no positions
 *     y = softmax(scale q K^T) V  Wo^T (+ bo)                          query head h reads kv head h / (n_head / n_kv_head)
 *
 * and where there is a gate g (x Wg^T, or a part of q's projection) the heads' outputs times sigmoid(g) go into Wo. What
 * changes the softmax (windows, chunks, sinks, soft caps, scales by position) is the operation's: struct attn.
 */
#include <string.h>

#include "model/block.h"
#include "model/target.h"

/* The norm of q or k: one, or one of each head. */
struct heads_norm {
    struct norm *norm;
    int          n;
};

struct attn_block {
    const struct attn_desc *d;
    struct weight           q, k, v, o; /* q also where all three are one */
    struct weight           gate, sinks;
    struct heads_norm       q_norm, k_norm;
    struct attn             op;
};

static int64_t q_cols(const struct attn_desc *a)
{
    return (int64_t)a->n_head * a->head_dim;
}

static int64_t kv_cols(const struct attn_desc *a)
{
    return (int64_t)a->n_kv_head * a->head_dim;
}

/* q, k and v as one matrix. Where its rows are q, then k, then v, adapters may aim at each. */
static void declare_fused(const struct declare *k, struct attn_block *b, const char *bias)
{
    const struct attn_desc *a = b->d;
    int64_t                 n_q = q_cols(a), n_kv = kv_cols(a);
    declare_linear(k, NAME_QKV, SHARD_ROWS, n_q + 2 * n_kv, k->d->n_embd,
                   "(num_attention_heads + 2 * num_key_value_heads) * head_dim, hidden_size", bias, &b->q);
    if (a->qkv != QKV_ROWS)
        return;
    params_part(k->p, k->layer, declare_name(k, NAME_Q, ""), &b->q, 0, n_q);
    params_part(k->p, k->layer, declare_name(k, NAME_K, ""), &b->q, n_q, n_kv);
    params_part(k->p, k->layer, declare_name(k, NAME_V, ""), &b->q, n_q + n_kv, n_kv);
}

static void declare_apart(const struct declare *k, struct attn_block *b, const char *bias)
{
    const struct attn_desc *a = b->d;
    bool                    gated = a->gate == GATE_IN_Q;
    const char             *q_why =
        gated ? "2 * num_attention_heads * head_dim, hidden_size" : "num_attention_heads * head_dim, hidden_size";
    const char *kv_why = "num_key_value_heads * head_dim, hidden_size";
    declare_linear(k, NAME_Q, SHARD_ROWS, q_cols(a) * (gated ? 2 : 1), k->d->n_embd, q_why, bias, &b->q);
    declare_linear(k, NAME_K, SHARD_ROWS, kv_cols(a), k->d->n_embd, kv_why, bias, &b->k);
    declare_linear(k, NAME_V, SHARD_ROWS, kv_cols(a), k->d->n_embd, kv_why, bias, &b->v);
}

/* A norm of each head of its own: a tensor each where the name has a '#', which stands for the head's number; otherwise one
 * matrix [n_head, head_dim]. */
static bool declare_head_norms(const struct declare *k, enum name name, const struct attn_desc *a, int n_head,
                               struct heads_norm *out)
{
    const struct norm plain = {
        .kind = a->qk_norm.kind, .n = a->head_dim, .eps = a->qk_norm.eps, .w = {.plus = a->qk_norm.plus}};
    const char *full = declare_name(k, name, ""), *mark = strchr(full, '#');
    out->n = mark ? n_head : 1;
    out->norm = arena_calloc(k->p->arena, (size_t)out->n, sizeof *out->norm);
    if (!out->norm)
        return false;
    for (int i = 0; i < out->n; i++)
        out->norm[i] = plain;
    if (!mark)
        declare_array(k, name, ".weight", 2, (const int64_t[]){n_head, a->head_dim}, "heads, head_dim",
                      &out->norm[0].w);
    for (int i = 0; mark && i < n_head; i++) {
        const char *one = arena_printf(k->p->arena, "%.*s%d%s", (int)(mark - full), full, i, mark + 1);
        if (!one)
            return false;
        params_add(k->p, ROLE_NORM, SHARD_NONE, k->layer, one, a->head_dim, 0, "head_dim", &out->norm[i].w);
    }
    return true;
}

static bool declare_qk_norm(const struct declare *k, enum name name, const struct attn_desc *a, int n_head,
                            struct heads_norm *out)
{
    bool all = a->qk_norm_span == QK_ALL;
    if (a->qk_norm.kind == NORM_NONE)
        return true;
    if (a->qk_norm_span == QK_HEADS)
        return declare_head_norms(k, name, a, n_head, out);
    out->n = 1;
    out->norm = arena_calloc(k->p->arena, 1, sizeof *out->norm);
    if (out->norm)
        declare_norm(k, name, &a->qk_norm, (int64_t)(all ? n_head : 1) * a->head_dim,
                     all ? "heads * head_dim" : "head_dim", out->norm);
    return out->norm;
}

static bool declare(struct model *m, const struct declare *k, void **state)
{
    const struct attn_desc *a = &k->d->layer[k->layer].attn;
    struct attn_block      *b = arena_calloc(&m->arena, 1, sizeof *b);
    if (!b)
        return false;
    b->d = a;
    (a->qkv == QKV_APART ? declare_apart : declare_fused)(k, b, a->qkv_bias ? "attention_bias" : NULL);
    declare_linear(k, NAME_O, SHARD_COLS, k->d->n_embd, q_cols(a), "hidden_size, num_attention_heads * head_dim",
                   a->o_bias ? "attention_bias" : NULL, &b->o);
    if (a->gate == GATE_PROJ || a->gate == GATE_HEAD)
        declare_linear(k, NAME_ATTN_GATE, SHARD_ROWS, a->gate == GATE_HEAD ? a->n_head : q_cols(a), k->d->n_embd,
                       a->gate == GATE_HEAD ? "num_attention_heads, hidden_size"
                                            : "num_attention_heads * head_dim, hidden_size",
                       NULL, &b->gate);
    if (!declare_qk_norm(k, NAME_Q_NORM, a, a->n_head, &b->q_norm) ||
        !declare_qk_norm(k, NAME_K_NORM, a, a->n_kv_head, &b->k_norm))
        return false;
    if (a->sinks)
        declare_vector(k, NAME_SINKS, a->n_head, "num_attention_heads", &b->sinks);
    b->op = (struct attn){.n_head = a->n_head,
                          .n_kv_head = a->n_kv_head,
                          .head_dim = a->head_dim,
                          .v_dim = a->head_dim,
                          .window = a->window,
                          .chunk = a->chunk,
                          .scale = a->scale,
                          .softcap = a->softcap,
                          .position_scale = a->position_scale,
                          .position_unit = a->position_unit,
                          .sinks = a->sinks ? &b->sinks : NULL};
    model_add_kv(m, &b->op, k->layer);
    *state = b;
    return true;
}

static int64_t scratch(const struct model_desc *d, int layer)
{
    const struct attn_desc *a = &d->layer[layer].attn;
    int64_t                 n = 2 * act_cols(q_cols(a)) + 2 * act_cols(kv_cols(a));
    if (a->qkv != QKV_APART)
        n += act_cols(q_cols(a) + 2 * kv_cols(a));
    if (a->gate == GATE_IN_Q)
        n += act_cols(2 * q_cols(a));
    return a->gate != GATE_NONE ? n + act_cols(q_cols(a)) : n;
}

/* What is made of a row before attention. */
struct inputs {
    struct tensor q, k, v, gate;
};

static void project_fused(const struct attn_block *b, struct run *r, struct activations *a, struct tensor x,
                          struct inputs *in)
{
    const struct attn_desc *d = b->d;
    int64_t                 n_q = q_cols(d), n_kv = kv_cols(d), dim = d->head_dim, group = n_q / d->n_kv_head;
    struct tensor           qkv = act_take(a, x.n_row, n_q + 2 * n_kv);
    op_linear(r, &b->q, x, qkv);
    if (d->qkv == QKV_ROWS) {
        in->q = tensor_cols(qkv, 0, n_q);
        in->k = tensor_cols(qkv, n_q, n_kv);
        in->v = tensor_cols(qkv, n_q + n_kv, n_kv);
        return;
    }
    in->q = act_take(a, x.n_row, n_q);
    in->k = act_take(a, x.n_row, n_kv);
    in->v = act_take(a, x.n_row, n_kv);
    op_gather_cols(r, 0, group + 2 * dim, group, qkv, in->q);
    op_gather_cols(r, group, group + 2 * dim, dim, qkv, in->k);
    op_gather_cols(r, group + dim, group + 2 * dim, dim, qkv, in->v);
}

static void project(const struct attn_block *b, struct run *r, struct activations *a, struct tensor x,
                    struct inputs *in)
{
    const struct attn_desc    *d = b->d;
    const struct weight *const w[4] = {&b->q, &b->k, &b->v, &b->gate};
    bool                       in_q = d->gate == GATE_IN_Q, own = d->gate == GATE_PROJ || d->gate == GATE_HEAD;
    if (own)
        in->gate = act_take(a, x.n_row, b->gate.n_out);
    if (d->qkv != QKV_APART) {
        project_fused(b, r, a, x, in);
        if (own)
            op_linear(r, &b->gate, x, in->gate);
        return;
    }
    struct tensor q = act_take(a, x.n_row, b->q.n_out);
    in->k = act_take(a, x.n_row, b->k.n_out);
    in->v = act_take(a, x.n_row, b->v.n_out);
    op_linear_many(r, own ? 4 : 3, w, x, (const struct tensor[]){q, in->k, in->v, in->gate});
    in->q = q;
    if (in_q) {
        in->q = act_take(a, x.n_row, q_cols(d));
        in->gate = act_take(a, x.n_row, q_cols(d));
        op_gather_cols(r, 0, 2 * d->head_dim, d->head_dim, q, in->q);
        op_gather_cols(r, d->head_dim, 2 * d->head_dim, d->head_dim, q, in->gate);
    }
}

static void norm_heads(struct run *r, const struct heads_norm *h, struct tensor x)
{
    int64_t n = x.n_col / h->n;
    for (int i = 0; i < h->n; i++)
        op_norm(r, &h->norm[i], tensor_cols(x, i * n, n), tensor_cols(x, i * n, n));
}

static void qk_norm(const struct attn_block *b, struct run *r, const struct inputs *in)
{
    norm_heads(r, &b->q_norm, in->q);
    norm_heads(r, &b->k_norm, in->k);
}

/* Norms and rope of q and k; k and v go to the cache. */
static void remember(const struct model *m, const struct attn_block *b, struct run *r, struct activations *a,
                     const struct inputs *in)
{
    const struct attn_desc *d = b->d;
    bool                    normed = d->qk_norm.kind != NORM_NONE;
    if (normed && !d->qk_norm_last)
        qk_norm(b, r, in);
    if (d->qkv_clip > 0) {
        op_clip(r, d->qkv_clip, in->q);
        op_clip(r, d->qkv_clip, in->k);
        op_clip(r, d->qkv_clip, in->v);
    }
    if (d->rope >= 0) {
        const struct rope *rope = &m->rope[d->rope];
        struct tensor      cs = tensor_rows(a->cs[d->rope], in->q.n_row);
        if (!normed || !d->qk_norm_last) {
            op_rope_kv_write(r, rope, cs, &b->op, in->q, in->k, in->v);
            return;
        }
        op_rope(r, rope, cs, d->n_head, d->head_dim, in->q);
        op_rope(r, rope, cs, d->n_kv_head, d->head_dim, in->k);
    }
    if (normed && d->qk_norm_last)
        qk_norm(b, r, in);
    op_kv_write(r, &b->op, in->k, in->v);
}

static void forward(const struct model *m, struct run *r, const void *state, struct activations *a, struct tensor x,
                    struct tensor y)
{
    const struct attn_block *b = state;
    struct inputs            in;
    project(b, r, a, x, &in);
    remember(m, b, r, a, &in);
    struct tensor heads = act_take(a, x.n_row, q_cols(b->d));
    op_attention(r, &b->op, in.q, heads);
    if (b->d->gate != GATE_NONE)
        op_act_mul(r, (struct act){.kind = ACT_SIGMOID}, in.gate, heads, heads);
    op_linear(r, &b->o, heads, y);
}

const struct block mix_attn = {"attention", declare, scratch, forward};
