/* Families that differ from Llama in factors, biases, pairs of the rope or the activation: Granite, GLM, Helium, ERNIE,
 * Apertus. */
#include "arch/family.h"

/* Granite 3 (IBM 2024): Llama with factors for embeddings, scores, residuals and logits. */
void arch_granite(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){0});
    m->embed_scale = (float)config_num_or(c, "embedding_multiplier", -1e6, 1e6, 1);
    m->residual_scale = (float)config_num_or(c, "residual_multiplier", -1e6, 1e6, 1);
    m->logit_scale = (float)(1 / config_num_or(c, "logits_scaling", 1e-6, 1e6, 1));
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].attn.scale = (float)config_num_or(c, "attention_multiplier", 1e-6, 1e6, 1);
}

/* GLM-4-9B (Zhipu 2024): neighbouring pairs of half of each head rotate; gate and up are one matrix. */
void arch_glm(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a,
               &(struct dense_rule){.head_dim = 128,
                                    .n_kv_head = 2,
                                    .n_context = 131072,
                                    .eps = 1.5625e-7,
                                    .rope = {.partial = 0.5, .interleaved = true}});
    for (int i = 0; i < m->n_layer; i++) {
        struct layer_desc *l = &m->layer[i];
        l->attn.qkv_bias = config_bool_or(c, "attention_bias", true);
        l->attn.o_bias = l->ffn.bias = false;
        l->ffn.fused = true;
    }
}

/* GLM-4-0414 (2025): GLM with norms on both sides of each block. */
void arch_glm4(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_glm(m, c, a);
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].mix_post = m->layer[i].ff_post = m->norm;
    m->name[NAME_MIX_POST] = "post_self_attn_layernorm";
    m->name[NAME_FF_POST] = "post_mlp_layernorm";
}

/* Helium 1 (Kyutai 2025): Llama with a rope of neighbouring pairs. */
void arch_helium(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a,
               &(struct dense_rule){.head_dim = 128,
                                    .n_kv_head = 20,
                                    .n_context = 4096,
                                    .eps = 1e-8,
                                    .rope = {.theta = 1e5, .interleaved = true}});
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].attn.o_bias = false;
}

/* ERNIE 4.5 (Baidu 2025), dense: Llama with a rope of neighbouring pairs; one field for all biases. */
void arch_ernie4_5(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a,
               &(struct dense_rule){.head_dim = config_is_null(c, "head_dim") ? 0 : 128,
                                    .n_kv_head = 2,
                                    .n_context = 131072,
                                    .eps = 1e-5,
                                    .rope = {.theta = 5e5, .interleaved = true}});
    bool bias = config_bool_or(c, "use_bias", false);
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].attn.qkv_bias = m->layer[i].attn.o_bias = m->layer[i].ffn.bias = bias;
}

/* Apertus (2025): norms of q and k heads, and xIELU with learned numbers in place of the gate. */
void arch_apertus(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a,
               &(struct dense_rule){.n_context = 65536, .eps = 1e-5, .act = "xielu", .rope = {.theta = 1.2e7}});
    if (arch_lacks_rope(c)) { /* the config class scales then, too */
        m->rope[0].scaling = ROPE_LLAMA3;
        m->rope[0].factor = 8;
        m->rope[0].low_freq_factor = 1;
        m->rope[0].high_freq_factor = 4;
        m->rope[0].original_context = 8192;
    }
    arch_need_bool(c, "post_norm", false);
    arch_need_bool(c, "qk_norm", true);
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].ff = FF_PLAIN;
        m->layer[i].attn.qk_norm = m->norm;
    }
    m->name[NAME_MIX_NORM] = "attention_layernorm";
    m->name[NAME_FF_NORM] = "feedforward_layernorm";
}
