/* Gemma 1, 2 and 3: norms by (1 + w), embeddings scaled by the root of their width, and GELU in place of SiLU. */
#include <math.h>

#include "arch/family.h"

/* The activation. As hidden_act, the older field, "gelu" means the tanh form. */
static enum act_kind activation(struct config *c)
{
    bool          older = !config_has(c, "hidden_activation");
    enum act_kind act = arch_act(c, older ? "hidden_act" : "hidden_activation", "gelu_pytorch_tanh");
    return older && act == ACT_GELU ? ACT_GELU_TANH : act;
}

/* Gemma (Gemma Team 2024). */
static void describe(struct model_desc *m, struct config *c, struct arena *a, const struct dense_rule *d)
{
    arch_dense(m, c, a, d);
    m->norm.plus = 1;
    m->embed_scale = sqrtf((float)m->n_embd);
    enum act_kind act = activation(c);
    arch_need_bool(c, "use_bidirectional_attention", false);
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].mix_norm = m->layer[i].ff_norm = m->norm;
        m->layer[i].ffn.act = act;
    }
}

void arch_gemma(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a, &(struct dense_rule){.head_dim = 256, .n_kv_head = 16, .n_context = 8192, .own_act = true});
}

/* What Gemma 2 and 3 share: norms before and behind each block, a scale of their own, and soft caps. */
static void describe2(struct model_desc *m, struct config *c, float attn_softcap, float logit_softcap)
{
    float scale = (float)(1 / sqrt(config_num_or(c, "query_pre_attn_scalar", 1e-3, 1e9, 256)));
    m->logit_softcap = arch_softcap(c, "final_logit_softcapping", logit_softcap);
    m->name[NAME_FF_NORM] = "pre_feedforward_layernorm";
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].mix_post = m->layer[i].ff_post = m->norm;
        m->layer[i].attn.scale = scale;
        m->layer[i].attn.softcap = attn_softcap;
    }
}

/* Gemma 2: every second layer is full, the others see a window. */
void arch_gemma2(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a, &(struct dense_rule){.head_dim = 256, .n_kv_head = 4, .n_context = 8192, .own_act = true});
    describe2(m, c, arch_softcap(c, "attn_logit_softcapping", 50), 30);
    arch_windows_every(m, c, arch_window(c, 4096), 2);
}

/* Gemma 3: every sixth layer is full and has another rope; norms on q and k; scores without a soft cap, whatever
 * attn_logit_softcapping says (nobody applies it). Older files name only what differs from the
 * config class. */
void arch_gemma3_text(struct model_desc *m, struct config *c, struct arena *a)
{
    const struct rope_rule local = {
        .theta = 1e4, .theta_key = "rope_local_base_freq", .layer_type = "sliding_attention", .local = true};
    const struct dense_rule full = {.n_embd = 2304,
                                    .n_ff = 9216,
                                    .n_vocab = 262208,
                                    .n_head = 8,
                                    .head_dim = 256,
                                    .n_kv_head = 4,
                                    .n_context = 131072,
                                    .own_act = true,
                                    .rope = {.theta = 1e6, .layer_type = "full_attention"}};
    describe(m, c, a, &full);
    describe2(m, c, 0, 0);
    arch_windows_every(m, c, arch_window(c, 4096), arch_pattern(c, 6));
    arch_rope_of_windows(m, c, a, &local);
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].attn.qk_norm = m->norm;
}

/* The language model of Gemma 3 with vision. */
void arch_gemma3(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_gemma3_text(m, c, a);
    arch_wrapped(m);
}
