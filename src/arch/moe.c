/* Families that are those of their dense kin but for experts instead of a feed-forward block. */
#include "arch/family.h"

/* Mixtral's files say block_sparse_moe, transformers 5 mlp, and mlp.router where PhiMoE has a gate. */
static const struct layout_rule mixtral_layout[] = {
    W_EXPERTS_LAYOUT,
    {.param = "*.block_sparse_moe.switch_mlp.gate_proj", .from = "*.mlp.experts.gate_up_proj", .part = 0, .parts = 2},
    {.param = "*.block_sparse_moe.switch_mlp.up_proj", .from = "*.mlp.experts.gate_up_proj", .part = 1, .parts = 2},
    {.param = "*.block_sparse_moe.switch_mlp.down_proj", .from = "*.mlp.experts.down_proj"},
    {.param = "*.block_sparse_moe.gate", .from = "*.mlp.gate"},
    {.param = "*.block_sparse_moe.gate", .from = "*.mlp.router"},
    {0},
};

static void block_sparse_names(struct model_desc *m)
{
    m->name[NAME_ROUTER] = "block_sparse_moe.gate";
    m->name[NAME_ROUTER_CORRECTION] = "block_sparse_moe.e_score_correction_bias";
    arch_name_experts(m, "block_sparse_moe.switch_mlp");
    m->layout = mixtral_layout;
}

/* Mixtral (Jiang et al. 2024): Mistral with experts in every layer, weighted by the softmax over those chosen. */
void arch_mixtral(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 8, .n_context = 131072, .eps = 1e-5, .rope = {.theta = 1e6}});
    arch_windows(m, c, arch_window(c, 0), 0);
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_local_experts", 8, "num_experts_per_tok", 2, "intermediate_size", 14336});
    block_sparse_names(m);
    if (e)
        e->score = ROUTE_TOP_SOFTMAX;
    arch_all_experts(m, e);
}

/* PhiMoE (Phi 3.5 MoE; Abdin et al. 2024): LayerNorms, and weights of the two experts by SparseMixer (Liu et al. 2023). */
void arch_phimoe(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 8, .n_context = 131072, .eps = 1e-5, .rope = {.theta = 1e6}});
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_local_experts", 16, "num_experts_per_tok", 2, "intermediate_size", 6400});
    if (e) {
        e->score = ROUTE_SPARSE_MIXER;
        e->jitter = (float)config_num_or(c, "router_jitter_noise", 0, 1, 0.01);
        if (e->top_k != 2)
            config_fault(c, ERR_UNSUPPORTED, "num_experts_per_tok", "is %d; supported: 2", e->top_k);
    }
    block_sparse_names(m);
    arch_layer_norms(m, true);
    m->head_bias = config_bool_or(c, "lm_head_bias", false);
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].attn.window = arch_window(c, 0);
    arch_all_experts(m, e);
}

/* MiniMax M2: norms of queries and keys over all heads together, part of a head rotates; sigmoid scores. */
void arch_minimax_m2(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a,
               &(struct dense_rule){
                   .head_dim = 128, .n_kv_head = 8, .n_context = 196608, .rope = {.theta = 5e6, .partial = 1}});
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_local_experts", 256, "num_experts_per_tok", 8, "intermediate_size", 1536});
    arch_need_word(c, "scoring_func", "sigmoid");
    if (config_int_or(c, "shared_intermediate_size", 0, 1 << 24, 0))
        config_fault(c, ERR_UNSUPPORTED, "shared_intermediate_size", "is not 0; shared experts are not known here");
    block_sparse_names(m);
    if (e) {
        e->score = ROUTE_SIGMOID;
        e->normalize = true;
        e->sum_add = 1e-20f;
        e->correction = config_bool_or(c, "use_routing_bias", true);
    }
    for (int i = 0; i < m->n_layer && config_bool_or(c, "use_qk_norm", true); i++) {
        m->layer[i].attn.qk_norm = m->norm;
        m->layer[i].attn.qk_norm_span = QK_ALL;
    }
    if (config_has(c, "rotary_dim") && m->n_layer)
        m->rope[0].dims = (int)config_int(c, "rotary_dim", 2, m->layer[0].attn.head_dim);
    m->ignore_further_layers = true;
    arch_all_experts(m, e);
}

/* OLMoE (Muennighoff et al. 2024): OLMo 2's norms of queries and keys, before the blocks; softmax over all experts. */
void arch_olmoe(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_context = 4096, .eps = 1e-5});
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_experts", 64, "num_experts_per_tok", 8, "intermediate_size", 2048});
    if (e)
        e->normalize = config_bool_or(c, "norm_topk_prob", false);
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.qk_norm = m->norm;
        m->layer[i].attn.qk_norm_span = QK_ALL;
        m->layer[i].attn.qkv_clip = config_has(c, "clip_qkv") ? (float)config_num(c, "clip_qkv", 1e-6, 1e6) : 0;
    }
    m->layout = arch_experts_layout;
    arch_all_experts(m, e);
}

static const struct layout_rule granitemoe_layout[] = {
    GRANITE_EXPERTS_LAYOUT,
    {0},
};

/* Granite 3 with experts: Granite, weighted by the softmax over the experts chosen. */
void arch_granitemoe(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_granite(m, c, a);
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_local_experts", 8, "num_experts_per_tok", 2, "intermediate_size", 11008});
    if (e)
        e->score = ROUTE_TOP_SOFTMAX;
    block_sparse_names(m);
    m->name[NAME_ROUTER] = "block_sparse_moe.router.layer";
    m->layout = granitemoe_layout;
    arch_all_experts(m, e);
}

static const struct layout_rule gpt_oss_layout[] = {
    {.param = "*.experts.gate_proj",
     .from = "*.experts.gate_up_proj",
     .transposed = true,
     .parts = 2,
     .interleaved = true},
    {.param = "*.experts.up_proj",
     .from = "*.experts.gate_up_proj",
     .transposed = true,
     .part = 1,
     .parts = 2,
     .interleaved = true},
    {.param = "*.experts.down_proj", .from = "*.experts.down_proj", .transposed = true},
    {0},
};

/* gpt-oss (OpenAI 2025): sinks, every other layer with a window, experts with biases and a clamped SwiGLU. */
void arch_gpt_oss(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a,
               &(struct dense_rule){
                   .head_dim = 64, .n_kv_head = 8, .n_context = 131072, .eps = 1e-5, .rope = {.theta = 150000}});
    if (arch_lacks_rope(c)) {
        arch_default_yarn(&m->rope[0], 32, 4096, true);
        m->rope[0].fractional = true;
    }
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_local_experts", 128, "num_experts_per_tok", 4, "intermediate_size", 2880});
    if (e) {
        e->score = ROUTE_TOP_SOFTMAX;
        e->bias = e->router_bias = true;
        e->act = ACT_SWIGLU_CLAMPED;
        e->act_limit = (float)config_num_or(c, "swiglu_limit", 1e-6, 1e6, 7);
        e->act_alpha = (float)config_num_or(c, "swiglu_alpha", 1e-6, 1e6, 1.702);
    }
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.sinks = true;
        m->layer[i].attn.qkv_bias = m->layer[i].attn.o_bias = config_bool_or(c, "attention_bias", true);
    }
    m->name[NAME_ROUTER] = "mlp.router";
    arch_name_experts(m, "mlp.experts");
    m->layout = gpt_oss_layout;
    arch_windows_every(m, c, arch_window(c, 128), 2);
    arch_all_experts(m, e);
}
