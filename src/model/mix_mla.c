/* Multi-head latent attention (DeepSeek-V2, 2024): keys and values of all heads are linear in one latent vector per token,
 * which is all that the cache holds.
 *
 *     q = x Wq^T,  or norm(x Wqa^T) Wqb^T                     per head [q_nope | q_pe]
 *     [c | k_pe] = x Wkva^T;  latent = kv_scale norm(c)       one of each for all heads
 *     q_pe, k_pe = rope(q_pe, k_pe);  cache <- [latent | k_pe]
 *     q'_h = [q_nope_h Eh^T | q_pe_h]                         Eh = embed_q [kv_rank, nope]
 *     o_h = softmax(scale q'_h K^T) V                         K the cache, V its first kv_rank features
 *     y = concat_h(o_h Uh^T) Wo^T                             Uh = unembed_out [v_dim, kv_rank]
 *
 * This is the absorbed form, for every token (the order law, rule f): Eh and Uh are the transposed first `nope` and the last
 * v_dim rows of head h in kv_b_proj [n_head (nope + v_dim), kv_rank], by which the model as trained makes k_nope and v.
 *
 * Where there is an indexer (DeepSeek-V3.2, 2025) a query sees only the keys that it picks:
 *
 *     [qI | kI] = rope(norm'd q_a Wiq^T, LN(x Wik^T));  w = x Wiw^T;  score(k) = sum over heads w_h max(qI_h kI, 0)
 */
#include <math.h>

#include "base/num.h"
#include "model/block.h"
#include "model/layout.h"
#include "model/target.h"

struct indexer {
    struct weight q, k, w;
    struct norm   k_norm;
    struct attn   op;
};

struct mla_block {
    const struct mla_desc *d;
    struct weight          q, q_a, kv_a, o;       /* q: from x, or from the bottleneck */
    struct weight         *embed_q, *unembed_out; /* [n_head] */
    struct weight          kv_b;                  /* where the table is that of files which keep it */
    struct norm            q_norm, kv_norm;
    struct attn            op;
    struct indexer        *indexer; /* NULL: none of its own */
};

static void declare_projections(const struct declare *k, const struct mla_desc *d, struct mla_block *b)
{
    int         n_embd = k->d->n_embd;
    int64_t     n_q = (int64_t)d->n_head * (d->nope + d->rope_dim);
    const char *bias = d->bias ? "attention_bias" : NULL;
    if (d->q_rank) {
        declare_linear(k, NAME_Q_A, SHARD_NONE, d->q_rank, n_embd, "q_lora_rank, hidden_size", bias, &b->q_a);
        declare_norm(k, NAME_Q_A_NORM, &d->q_norm, d->q_rank, "q_lora_rank", &b->q_norm);
        declare_linear(k, NAME_Q_B, SHARD_ROWS, n_q, d->q_rank,
                       "num_attention_heads * (qk_nope_head_dim + qk_rope_head_dim), q_lora_rank", NULL, &b->q);
    } else
        declare_linear(k, NAME_Q, SHARD_ROWS, n_q, n_embd,
                       "num_attention_heads * (qk_nope_head_dim + qk_rope_head_dim), hidden_size", NULL, &b->q);
    declare_linear(k, NAME_KV_A, SHARD_NONE, d->kv_rank + d->rope_dim, n_embd,
                   "kv_lora_rank + qk_rope_head_dim, hidden_size", bias, &b->kv_a);
    declare_norm(k, NAME_KV_A_NORM, &d->kv_norm, d->kv_rank, "kv_lora_rank", &b->kv_norm);
    declare_linear(k, NAME_O, SHARD_COLS, n_embd, (int64_t)d->n_head * d->v_dim,
                   "hidden_size, num_attention_heads * v_head_dim", bias, &b->o);
}

/* A table that nobody computes with is that of the MLX layout, in which some families keep kv_b_proj. */
static bool keeps_kv_b(const struct model *m, const struct declare *k, const struct mla_desc *d)
{
    if (!d->whole || m->backend)
        return false;
    const char *split = params_layer_name(k->p, declare_name(k, NAME_EMBED_Q, ".weight"), k->layer);
    k->p->failed |= !split;
    return split && !layout_find(&m->desc, m->checkpoint, split);
}

/* The planes of heads, and what kv_b_proj means to an adapter. */
static bool declare_heads(struct model *m, const struct declare *k, const struct mla_desc *d, struct mla_block *b)
{
    int                   n = d->n_head;
    struct weight        *w = arena_calloc(&m->arena, 2 * (size_t)n, sizeof *w);
    struct param_segment *s = arena_calloc(&m->arena, 2 * (size_t)n, sizeof *s);
    if (!w || !s)
        return false;
    if (keeps_kv_b(m, k, d)) {
        declare_linear(k, NAME_KV_B, SHARD_ROWS, (int64_t)n * (d->nope + d->v_dim), d->kv_rank, KV_B_WHY, NULL,
                       &b->kv_b);
        return true;
    }
    b->embed_q = w;
    b->unembed_out = w + n;
    declare_stack(k, NAME_EMBED_Q, SHARD_ROWS, n, d->kv_rank, d->nope,
                  "num_attention_heads, kv_lora_rank, qk_nope_head_dim", NULL, b->embed_q);
    declare_stack(k, NAME_UNEMBED_OUT, SHARD_ROWS, n, d->v_dim, d->kv_rank,
                  "num_attention_heads, v_head_dim, kv_lora_rank", NULL, b->unembed_out);
    for (int h = 0; h < n; h++) {
        int64_t from = (int64_t)h * (d->nope + d->v_dim);
        s[2 * h] = (struct param_segment){b->embed_q, NULL, h, true, from, 1, 0, d->nope};
        s[2 * h + 1] = (struct param_segment){b->unembed_out, NULL, h, false, from + d->nope, 1, 0, d->v_dim};
    }
    params_segments(k->p, k->layer, declare_name(k, NAME_KV_B, ""), d->kv_rank, (int64_t)n * (d->nope + d->v_dim),
                    2 * n, s);
    return true;
}

static bool declare_indexer(struct model *m, const struct declare *k, const struct mla_desc *d, struct mla_block *b)
{
    struct indexer *x = arena_calloc(&m->arena, 1, sizeof *x);
    int             n_embd = k->d->n_embd;
    if (!x)
        return false;
    b->indexer = x;
    declare_linear(k, NAME_INDEX_Q, SHARD_NONE, (int64_t)d->index_head * d->index_dim, d->q_rank,
                   "index_n_heads * index_head_dim, q_lora_rank", NULL, &x->q);
    declare_linear(k, NAME_INDEX_K, SHARD_NONE, d->index_dim, n_embd, "index_head_dim, hidden_size", NULL, &x->k);
    declare_norm(k, NAME_INDEX_K_NORM, &d->index_norm, d->index_dim, "index_head_dim", &x->k_norm);
    declare_linear(k, NAME_INDEX_WEIGHT, SHARD_NONE, d->index_head, n_embd, "index_n_heads, hidden_size", NULL, &x->w);
    x->op = (struct attn){.n_head = d->index_head,
                          .n_kv_head = 1,
                          .head_dim = d->index_dim,
                          .scale = (float)(1 / sqrt((double)d->index_head * d->index_dim))};
    model_add_kv(m, &x->op, k->layer);
    m->limits.n_index_head = MAX(m->limits.n_index_head, d->index_head);
    m->limits.index_dim = MAX(m->limits.index_dim, d->index_dim);
    return true;
}

static bool declare(struct model *m, const struct declare *k, void **state)
{
    const struct mla_desc *d = k->d->layer[k->layer].mla;
    struct mla_block      *b = arena_calloc(&m->arena, 1, sizeof *b);
    if (!b)
        return false;
    b->d = d;
    declare_projections(k, d, b);
    b->op = (struct attn){.n_head = d->n_head,
                          .n_kv_head = 1,
                          .head_dim = d->kv_rank + d->rope_dim,
                          .v_dim = d->kv_rank,
                          .latent = true,
                          .scale = d->scale};
    model_add_kv(m, &b->op, k->layer);
    m->n_index_key = MAX(m->n_index_key, d->index_top);
    *state = b;
    return declare_heads(m, k, d, b) && (!d->index_top || d->index_shared || declare_indexer(m, k, d, b));
}

static int64_t scratch(const struct model_desc *desc, int layer)
{
    const struct mla_desc *d = desc->layer[layer].mla;
    int64_t                n = d->n_head, key = d->kv_rank + d->rope_dim;
    return act_cols(d->q_rank) + act_cols(n * (d->nope + d->rope_dim)) + act_cols(n * d->rope_dim) + act_cols(n * key) +
           act_cols(key) + act_cols(n * d->kv_rank) + act_cols(n * d->v_dim) +
           act_cols((int64_t)d->index_head * d->index_dim) + act_cols(d->index_dim) + act_cols(d->index_head);
}

/* The keys that each row may see, into `keys`; q_a is the queries' normed bottleneck. */
static void choose_keys(const struct model *m, struct run *r, const struct mla_block *b, struct activations *a,
                        struct tensor x, struct tensor q_a, struct tensor keys)
{
    const struct indexer *i = b->indexer;
    const struct rope    *rope = &m->rope[b->d->index_rope];
    struct tensor         q = act_take(a, x.n_row, i->q.n_out), k = act_take(a, x.n_row, i->k.n_out);
    struct tensor         w = act_take(a, x.n_row, i->w.n_out), cs = tensor_rows(a->cs[b->d->index_rope], x.n_row);
    op_linear(r, &i->q, q_a, q);
    op_linear(r, &i->k, x, k);
    op_norm(r, &i->k_norm, k, k);
    op_rope(r, rope, cs, b->d->index_head, b->d->index_dim, q);
    op_rope(r, rope, cs, 1, b->d->index_dim, k);
    op_kv_write(r, &i->op, k, k);
    op_linear(r, &i->w, x, w);
    op_index_keys(r, &i->op, q, w, keys);
}

/* [latent | k_pe], to the cache. */
static void write_latent(const struct model *m, struct run *r, const struct mla_block *b, struct activations *a,
                         struct tensor x)
{
    const struct mla_desc *d = b->d;
    struct tensor          k = act_take(a, x.n_row, d->kv_rank + d->rope_dim), latent = tensor_cols(k, 0, d->kv_rank);
    op_linear(r, &b->kv_a, x, k);
    op_norm(r, &b->kv_norm, latent, latent);
    if (d->kv_scale != 1)
        op_scale(r, d->kv_scale, latent);
    if (d->rope >= 0)
        op_rope(r, &m->rope[d->rope], tensor_rows(a->cs[d->rope], x.n_row), 1, d->rope_dim,
                tensor_cols(k, d->kv_rank, d->rope_dim));
    op_kv_write(r, &b->op, k, k);
}

/* q' of all heads from q. */
static void absorb(const struct model *m, struct run *r, const struct mla_block *b, struct activations *a,
                   struct tensor q, struct tensor out)
{
    const struct mla_desc *d = b->d;
    struct tensor          pe = act_take(a, q.n_row, (int64_t)d->n_head * d->rope_dim);
    op_gather_cols(r, d->nope, d->nope + d->rope_dim, d->rope_dim, q, pe);
    if (d->rope >= 0)
        op_rope(r, &m->rope[d->rope], tensor_rows(a->cs[d->rope], q.n_row), d->n_head, d->rope_dim, pe);
    op_linear_heads(r, d->n_head, b->embed_q, q, out);
    op_scatter_cols(r, d->kv_rank, b->op.head_dim, d->rope_dim, pe, out);
}

static void forward(const struct model *m, struct run *r, const void *state, struct activations *a, struct tensor x,
                    struct tensor y)
{
    const struct mla_block *b = state;
    const struct mla_desc  *d = b->d;
    struct tensor           q = act_take(a, x.n_row, b->q.n_out), keys = tensor_rows(a->keys, x.n_row), q_a = x;
    struct tensor           wide = act_take(a, x.n_row, (int64_t)d->n_head * b->op.head_dim);
    struct tensor           latents = act_take(a, x.n_row, (int64_t)d->n_head * d->kv_rank);
    struct tensor           heads = act_take(a, x.n_row, b->o.n_in);
    if (d->q_rank) {
        q_a = act_take(a, x.n_row, d->q_rank);
        op_linear(r, &b->q_a, x, q_a);
        op_norm(r, &b->q_norm, q_a, q_a);
    }
    op_linear(r, &b->q, q_a, q);
    write_latent(m, r, b, a, x);
    absorb(m, r, b, a, q, wide);
    if (b->indexer)
        choose_keys(m, r, b, a, x, q_a, keys);
    if (d->index_top)
        op_attention_keys(r, &b->op, wide, keys, latents);
    else
        op_attention(r, &b->op, wide, latents);
    op_linear_heads(r, d->n_head, b->unembed_out, latents, heads);
    op_linear(r, &b->o, heads, y);
}

const struct block mix_mla = {"latent attention", declare, scratch, forward};
