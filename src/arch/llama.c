/* Llama and its near kin: pre-norm residual layers of grouped-head attention and a gated SiLU feed-forward block.
 *
 * Fields that give a parameter its shape must be there, except head_dim and num_key_value_heads. What is absent has the
 * default of transformers' config class, which for those two may be Llama's older rule (hidden_size / heads; as many as
 * heads). */
#include "arch/family.h"

static const char *const ignored[] = {
    "*.rotary_emb.inv_freq", /* a buffer, recomputed */
    "lm_head.*",             /* redundant beside tied embeddings */
    NULL,
};

static const char *const ignored_untied[] = {"*.rotary_emb.inv_freq", NULL};

/* What absent fields mean; 0: the older rule. */
struct defaults {
    int head_dim, n_kv_head, n_context;
};

static int head_dim(struct config *c, int n_embd, int n_head, int fallback)
{
    if (config_has(c, "head_dim") || fallback)
        return (int)config_int_or(c, "head_dim", 1, 4096, fallback);
    if (n_embd % n_head)
        config_fault(c, ERR_MISFIT, "num_attention_heads",
                     "is %d, a divisor of hidden_size (%d) is needed where head_dim is absent", n_head, n_embd);
    return n_embd / n_head > 0 ? n_embd / n_head : 1;
}

static void describe(struct model_desc *m, struct config *c, struct arena *a, const struct defaults *d)
{
    m->n_embd = (int)config_int(c, "hidden_size", 1, 1 << 20);
    m->n_layer = (int)config_int(c, "num_hidden_layers", 1, DESC_LAYERS_MAX);
    m->n_vocab = (int)config_int(c, "vocab_size", 1, 1 << 24);
    m->n_context = config_int_or(c, "max_position_embeddings", 1, (int64_t)1 << 31, d->n_context);
    m->norm = (struct norm_desc){.kind = NORM_RMS, .eps = (float)config_num_or(c, "rms_norm_eps", 0, 1, 1e-6)};
    m->tie = !config_has(c, "tie_word_embeddings")             ? TIE_BY_FILE
             : config_bool_or(c, "tie_word_embeddings", false) ? TIE_YES
                                                               : TIE_NO;
    m->ignore = m->tie == TIE_YES ? ignored : ignored_untied;
    int              n_head = (int)config_int(c, "num_attention_heads", 1, 1 << 14);
    int              n_kv_head = d->n_kv_head && !config_is_null(c, "num_key_value_heads") ? d->n_kv_head : n_head;
    struct attn_desc attn = {.n_head = n_head,
                             .n_kv_head = (int)config_int_or(c, "num_key_value_heads", 1, 1 << 14, n_kv_head),
                             .head_dim = head_dim(c, m->n_embd, n_head, d->head_dim)};
    attn.qkv_bias = attn.o_bias = config_bool_or(c, "attention_bias", false);
    attn.scale = (float)(1.0 / __builtin_sqrt((double)attn.head_dim));
    struct ff_desc ff = {.n_ff = (int)config_int(c, "intermediate_size", 1, 1 << 24),
                         .bias = config_bool_or(c, "mlp_bias", false)};
    arch_need_silu(c, "hidden_act");
    m->n_rope = 1;
    arch_rope(&m->rope[0], c, attn.head_dim, 10000.0);
    m->layer = arena_calloc(a, (size_t)m->n_layer, sizeof *m->layer);
    if (!m->layer) {
        config_fault(c, ERR_NOMEM, "num_hidden_layers", "is %d: out of memory for the layers", m->n_layer);
        m->n_layer = 0;
        return;
    }
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i] = (struct layer_desc){
            .mix = MIX_ATTN, .ff = FF_GATED, .mix_norm = m->norm, .ff_norm = m->norm, .attn = attn, .ffn = ff};
}

/* Llama (Touvron et al. 2023; Llama 3: Dubey et al. 2024). */
void arch_llama(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a, &(struct defaults){.n_context = 2048});
}

/* sliding_window; null: none. */
static int window_of(struct config *c)
{
    return config_is_null(c, "sliding_window") ? 0 : (int)config_int_or(c, "sliding_window", 1, 1 << 30, 4096);
}

/* Where use_sliding_window is set, layer_types or else max_window_layers says which layers see a window. */
static void qwen_windows(struct model_desc *m, struct config *c)
{
    if (config_bool_or(c, "use_sliding_window", false))
        arch_windows(m, c, window_of(c), (int)config_int_or(c, "max_window_layers", 0, 1 << 20, 28));
}

/* Mistral 7B (Jiang et al. 2023): Llama without biases; every layer sees a window of keys when sliding_window is a number. */
void arch_mistral(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a, &(struct defaults){.n_kv_head = 8, .n_context = 131072});
    arch_windows(m, c, window_of(c), 0);
}

/* Qwen 2 and 2.5: Llama with biases on q, k and v; use_sliding_window makes the layers from max_window_layers on see a window. */
void arch_qwen2(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a, &(struct defaults){.n_kv_head = 32, .n_context = 32768});
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.qkv_bias = true;
        m->layer[i].attn.o_bias = false;
    }
    qwen_windows(m, c);
}

/* Qwen 3: Llama with an RMS norm on every q and k head before rope; head_dim is explicit. */
void arch_qwen3(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a, &(struct defaults){.head_dim = 128, .n_kv_head = 32, .n_context = 32768});
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].attn.qk_norm = m->norm;
    qwen_windows(m, c);
}
