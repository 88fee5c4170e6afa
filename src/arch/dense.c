/* The description that dense families share: pre-norm residual layers of grouped-head attention and a gated feed-forward
 * block; contract in family.h.
 *
 * Fields that give a parameter its shape must be there, except head_dim and num_key_value_heads and where a family's
 * config class says what they are when absent. What is absent has the default of transformers' config class, which for
 * those two may be Llama's older rule (hidden_size / heads; as many as heads). */
#include "arch/family.h"
#include "base/num.h"

static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL}; /* a buffer, recomputed */

static int head_dim(struct config *c, int n_embd, int n_head, int fallback)
{
    if (config_has(c, "head_dim") || fallback)
        return (int)config_int_or(c, "head_dim", 1, 4096, fallback);
    if (n_embd % n_head)
        config_fault(c, ERR_MISFIT, "num_attention_heads",
                     "is %d, a divisor of hidden_size (%d) is needed where head_dim is absent", n_head, n_embd);
    return n_embd / n_head > 0 ? n_embd / n_head : 1;
}

enum tie arch_tie(struct config *c)
{
    if (!config_has(c, "tie_word_embeddings"))
        return TIE_BY_FILE;
    return config_bool_or(c, "tie_word_embeddings", false) ? TIE_YES : TIE_NO;
}

bool arch_room_for_layers(struct model_desc *m, struct config *c, struct arena *a, const char *key)
{
    m->layer = arena_calloc(a, (size_t)m->n_layer, sizeof *m->layer);
    if (m->layer)
        return true;
    config_fault(c, ERR_NOMEM, key, "is %d: out of memory for the layers", m->n_layer);
    m->n_layer = 0;
    return false;
}

bool arch_make_layers(struct model_desc *m, struct config *c, struct arena *a, const char *key)
{
    int n_part = MAX(m->n_part, 1);
    m->n_layer = n_part * (int)config_int(c, key, 1, DESC_LAYERS_MAX / n_part);
    return arch_room_for_layers(m, c, a, key);
}

static struct attn_desc attention(struct model_desc *m, struct config *c, struct arena *a, const struct dense_rule *d)
{
    int              n_head = arch_number(c, "num_attention_heads", 1 << 14, d->n_head);
    int              n_kv_head = d->n_kv_head && !config_is_null(c, "num_key_value_heads") ? d->n_kv_head : n_head;
    struct attn_desc attn = {.n_head = n_head,
                             .n_kv_head = (int)config_int_or(c, "num_key_value_heads", 1, 1 << 14, n_kv_head),
                             .head_dim = head_dim(c, m->n_embd, n_head, d->head_dim)};
    attn.qkv_bias = attn.o_bias = config_bool_or(c, "attention_bias", false);
    attn.scale = (float)(1.0 / __builtin_sqrt((double)attn.head_dim));
    attn.rope = arch_add_rope(m, c, a, attn.head_dim, &d->rope);
    return attn;
}

void arch_frame(struct model_desc *m, struct config *c, const struct dense_rule *d)
{
    m->n_embd = arch_number(c, "hidden_size", 1 << 20, d->n_embd);
    m->n_vocab = arch_number(c, "vocab_size", 1 << 24, d->n_vocab);
    m->n_context = config_int_or(c, "max_position_embeddings", 1, (int64_t)1 << 31, d->n_context ? d->n_context : 2048);
    m->norm = (struct norm_desc){
        .kind = NORM_RMS,
        .eps = (float)config_num_or(c, d->eps_key ? d->eps_key : "rms_norm_eps", 0, 1, d->eps > 0 ? d->eps : 1e-6)};
    m->tie = arch_tie(c);
}

void arch_dense(struct model_desc *m, struct config *c, struct arena *a, const struct dense_rule *d)
{
    arch_frame(m, c, d);
    m->ignore = ignored;
    struct attn_desc attn = attention(m, c, a, d);
    struct ff_desc   ff = {.n_ff = arch_number(c, "intermediate_size", 1 << 24, d->n_ff),
                           .bias = config_bool_or(c, "mlp_bias", false)};
    if (!d->own_act)
        ff.act = arch_act(c, "hidden_act", d->act ? d->act : "silu");
    if (!arch_make_layers(m, c, a, "num_hidden_layers"))
        return;
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i] = (struct layer_desc){
            .mix = MIX_ATTN, .ff = FF_GATED, .mix_norm = m->norm, .ff_norm = m->norm, .attn = attn, .ffn = ff};
}
