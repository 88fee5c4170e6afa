/* Llama and its near kin. */
#include <string.h>

#include "arch/family.h"

/* Llama (Touvron et al. 2023; Llama 3: Dubey et al. 2024). Where there are layer_types, they may name layers with a window. */
void arch_llama(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){0});
    arch_windows(m, c, arch_window(c, 0), m->n_layer);
}

/* Mistral 7B (Jiang et al. 2023): Llama without biases; every layer sees a window of keys when sliding_window is a number. */
void arch_mistral(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 8, .n_context = 131072});
    arch_windows(m, c, arch_window(c, 4096), 0);
}

/* Ministral 3: Mistral whose queries grow with the logarithm of their position beyond the original context. */
void arch_ministral3(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 8, .n_context = 262144, .eps = 1e-5, .rope = {.theta = 1e6}});
    struct config_rope f = config_rope(c, NULL, 1e6, 1);
    double             beta = f.fields ? config_num_or(f.fields, "llama_4_scaling_beta", 0, 1e3, 0) : 0;
    if (arch_lacks_rope(c)) {
        arch_default_yarn(&m->rope[0], 16, 16384, false);
        beta = 0.1;
    }
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.position_scale = (float)beta;
        m->layer[i].attn.position_unit = m->rope[0].original_context ? m->rope[0].original_context : m->n_context;
    }
    arch_windows(m, c, arch_window(c, 0), 0);
}

/* The language model of Mistral 3 with vision: Mistral or Ministral 3. */
void arch_mistral3(struct model_desc *m, struct config *c, struct arena *a)
{
    struct config *text = config_object(c, "text_config");
    const char    *type = text ? config_str_or(text, "model_type", "mistral") : "mistral";
    if (!strcmp(type, "ministral3"))
        arch_ministral3(m, c, a);
    else if (!strcmp(type, "mistral"))
        arch_mistral(m, c, a);
    else
        config_fault(text, ERR_UNSUPPORTED, "model_type", "is \"%s\"; supported: mistral, ministral3", type);
    arch_wrapped(m);
}

/* SmolLM 3: Llama without a rope on every no_rope_layer_interval-th layer; no_rope_layers names those that have one. */
void arch_smollm3(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 4, .n_context = 32768, .rope = {.theta = 2e6}});
    int  every = (int)config_int_or(c, "no_rope_layer_interval", 1, DESC_LAYERS_MAX, 4);
    bool listed = arch_has_layer_list(m, c, "no_rope_layers");
    int  window = config_bool_or(c, "use_sliding_window", false) ? arch_window(c, 0) : 0;
    for (int i = 0; i < m->n_layer; i++) {
        bool has_rope = listed ? config_array_int(c, "no_rope_layers", i, 0, 1) : (i + 1) % every != 0;
        if (!has_rope)
            m->layer[i].attn.rope = -1;
        m->layer[i].attn.window = arch_slides(m, c, i, !has_rope) ? window : 0;
    }
}

/* Seed-OSS (ByteDance 2025): Llama with biases on q, k and v, and one of its own for o. */
void arch_seed_oss(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.head_dim = 128, .n_kv_head = 8, .n_context = 524288});
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.qkv_bias = config_bool_or(c, "attention_bias", true);
        m->layer[i].attn.o_bias = config_bool_or(c, "attention_out_bias", false);
    }
}

/* InternLM 3: Llama whose biases have other names in older files. */
void arch_internlm3(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.head_dim = 128, .n_kv_head = 2, .n_context = 32768, .eps = 1e-5});
    bool qkv = config_bool_or(c, "qkv_bias", config_bool_or(c, "attention_bias", false));
    bool rest = config_bool_or(c, "bias", config_bool_or(c, "mlp_bias", false));
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.qkv_bias = qkv;
        m->layer[i].attn.o_bias = m->layer[i].ffn.bias = rest;
    }
}

/* InternLM 2: Llama with q, k and v of each key/value head in one matrix. */
void arch_internlm2(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_context = 32768, .eps = 1e-5});
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.qkv = QKV_GROUPS;
        m->layer[i].attn.qkv_bias = m->layer[i].attn.o_bias = config_bool_or(c, "bias", true);
    }
    m->name[NAME_EMBED] = "model.tok_embeddings";
    m->name[NAME_HEAD] = "output";
    m->name[NAME_MIX_NORM] = "attention_norm";
    m->name[NAME_FF_NORM] = "ffn_norm";
    m->name[NAME_QKV] = "attention.wqkv";
    m->name[NAME_O] = "attention.wo";
    m->name[NAME_GATE] = "feed_forward.w1";
    m->name[NAME_UP] = "feed_forward.w3";
    m->name[NAME_DOWN] = "feed_forward.w2";
}

/* MiniCPM (Hu et al. 2024): Llama with scaled embeddings, residuals and logits. */
void arch_minicpm(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){0});
    if (config_has(c, "sparse_config"))
        config_fault(c, ERR_UNSUPPORTED, "sparse_config", "is set; supported: null (no block-sparse attention)");
    if (config_int_or(c, "num_experts", 0, 1 << 20, 0))
        config_fault(c, ERR_UNSUPPORTED, "num_experts", "is not 0; supported: dense models");
    m->embed_scale = (float)config_num_or(c, "scale_emb", 1e-6, 1e6, 1);
    m->residual_scale =
        (float)(config_num_or(c, "scale_depth", 1e-6, 1e6, 1) / __builtin_sqrt(m->n_layer > 0 ? m->n_layer : 1));
    m->logit_scale = (float)(config_num_or(c, "dim_model_base", 1, 1e6, 1) / m->n_embd);
}

/* Hunyuan (Tencent), dense: Llama with norms of queries and keys behind the rope. */
void arch_hunyuan_v1_dense(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.eps = 1e-5});
    for (int i = 0; i < m->n_layer && config_bool_or(c, "use_qk_norm", true); i++) {
        m->layer[i].attn.qk_norm = m->norm;
        m->layer[i].attn.qk_norm_last = true;
    }
    m->name[NAME_Q_NORM] = "self_attn.query_layernorm";
    m->name[NAME_K_NORM] = "self_attn.key_layernorm";
}
