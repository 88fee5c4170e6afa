/* Families of Llama's shape with LayerNorms: Phi, StableLM, StarCoder 2, OLMo, Nemotron. */
#include "arch/family.h"

/* Phi 1 to 2 (Gunasekar et al. 2023): attention and feed-forward block side by side behind one norm, biases everywhere, the
 * head's too. */
void arch_phi(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(
        m, c, a,
        &(struct dense_rule){.eps_key = "layer_norm_eps", .eps = 1e-5, .act = "gelu_new", .rope = {.partial = 0.5}});
    arch_layer_norms(m, true);
    m->head_bias = true;
    for (int i = 0; i < m->n_layer; i++) {
        struct layer_desc *l = &m->layer[i];
        l->wiring = WIRE_PARALLEL;
        l->ff_norm.kind = NORM_NONE;
        l->ff = FF_PLAIN;
        l->ffn.bias = l->attn.qkv_bias = l->attn.o_bias = true;
        if (config_bool_or(c, "qk_layernorm", false))
            l->attn.qk_norm = m->norm;
    }
    m->name[NAME_NORM] = "model.final_layernorm";
    m->name[NAME_Q_NORM] = "self_attn.q_layernorm";
    m->name[NAME_K_NORM] = "self_attn.k_layernorm";
    m->name[NAME_O] = "self_attn.dense";
    m->name[NAME_UP] = "mlp.fc1";
    m->name[NAME_DOWN] = "mlp.fc2";
}

/* StableLM 2 and 3B (Bellagente et al. 2024); some have both blocks behind one norm, and norms of each head by itself. */
void arch_stablelm(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(
        m, c, a,
        &(struct dense_rule){
            .n_kv_head = 32, .n_context = 4096, .eps_key = "layer_norm_eps", .eps = 1e-5, .rope = {.partial = 0.25}});
    arch_layer_norms(m, true);
    bool parallel = config_bool_or(c, "use_parallel_residual", false), norms = config_bool_or(c, "qk_layernorm", false);
    bool qkv_bias = config_bool_or(c, "use_qkv_bias", false);
    for (int i = 0; i < m->n_layer; i++) {
        struct layer_desc *l = &m->layer[i];
        l->wiring = parallel ? WIRE_PARALLEL : WIRE_SEQUENTIAL;
        if (parallel)
            l->ff_norm.kind = NORM_NONE;
        l->attn.qkv_bias = qkv_bias;
        l->attn.o_bias = l->ffn.bias = false;
        if (norms)
            l->attn.qk_norm = (struct norm_desc){.kind = NORM_LAYER, .eps = m->norm.eps};
        l->attn.qk_norm_span = QK_HEADS;
    }
    m->name[NAME_Q_NORM] = "self_attn.q_layernorm.norms.#";
    m->name[NAME_K_NORM] = "self_attn.k_layernorm.norms.#";
}

/* StarCoder 2 (Lozhkov et al. 2024): no gate, biases everywhere; all layers may see a window. */
void arch_starcoder2(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(
        m, c, a,
        &(struct dense_rule){
            .n_kv_head = 2, .n_context = 4096, .eps_key = "norm_epsilon", .eps = 1e-5, .act = "gelu_pytorch_tanh"});
    arch_layer_norms(m, true);
    bool bias = config_bool_or(c, "use_bias", true);
    for (int i = 0; i < m->n_layer; i++) {
        struct layer_desc *l = &m->layer[i];
        l->ff = FF_PLAIN;
        l->ffn.bias = l->attn.qkv_bias = l->attn.o_bias = bias;
    }
    arch_windows(m, c, arch_window(c, 0), 0);
    m->name[NAME_UP] = "mlp.c_fc";
    m->name[NAME_DOWN] = "mlp.c_proj";
}

/* OLMo (Groeneveld et al. 2024): norms that learn nothing; clip_qkv holds q, k and v within a range. */
void arch_olmo(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){0});
    m->norm.eps = 1e-5f;
    m->norm.no_weight = true;
    arch_layer_norms(m, false);
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].ffn.bias = false;
        if (config_has(c, "clip_qkv"))
            m->layer[i].attn.qkv_clip = (float)config_num(c, "clip_qkv", 1e-6, 1e6);
    }
}

/* Nemotron 3 and 4, Minitron (Nvidia 2024): norms by 1 + w, squared ReLU without a gate. */
void arch_nemotron(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a,
               &(struct dense_rule){
                   .n_context = 4096, .eps_key = "norm_eps", .eps = 1e-5, .act = "relu2", .rope = {.partial = 0.5}});
    m->norm.plus = 1;
    arch_layer_norms(m, true);
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].ff = FF_PLAIN;
}
