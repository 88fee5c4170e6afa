/* Families after DeepSeekMoE (Dai et al. 2024): many small experts beside shared ones, the first layers without. */
#include <string.h>

#include "arch/family.h"

/* What the routers of these families share: sigmoid scores, corrected for the choice, normalized and scaled. */
static void sigmoid_router(struct moe_desc *e, struct config *c)
{
    if (strcmp(config_str_or(c, "scoring_func", ""), "noaux_tc")) /* dots.llm1 has the method's name there */
        arch_need_word(c, "scoring_func", "sigmoid");
    arch_need_word(c, "topk_method", "noaux_tc");
    e->score = ROUTE_SIGMOID;
    e->group = ROUTE_GROUP_BEST2;
    e->correction = true;
    e->normalize = config_bool_or(c, "norm_topk_prob", true);
    e->sum_add = 1e-20f;
    e->scale = (float)config_num_or(c, "routed_scaling_factor", 1e-6, 1e6, 1);
}

/* DeepSeek MoE 16B (Dai et al. 2024): Llama's attention, the softmax over all experts. */
void arch_deepseek(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){0});
    arch_need_word(c, "scoring_func", "softmax");
    if (!config_has(c, "n_routed_experts"))
        return;
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"n_routed_experts", 64, "num_experts_per_tok", 6, "moe_intermediate_size", 1407});
    if (e) {
        arch_shared_experts(e, c, "n_shared_experts", 0, e->n_ff);
        e->normalize = config_bool_or(c, "norm_topk_prob", false);
        e->sum_add = 1e-20f;
    }
    m->layout = arch_experts_layout;
    arch_experts_from(m, c, e, 0);
}

/* dots.llm1 (rednote 2025): Qwen 3's attention. */
void arch_dots1(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 32});
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"n_routed_experts", 0, "num_experts_per_tok", 0, "moe_intermediate_size", 1408});
    if (e) {
        sigmoid_router(e, c);
        e->normalize = config_bool_or(c, "norm_topk_prob", false);
        arch_shared_experts(e, c, "n_shared_experts", 0, e->n_ff);
        arch_expert_groups(e, c, "n_group", 1, 1);
    }
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].attn.qk_norm = m->norm;
    arch_windows(m, c, arch_window(c, 4096), (int)config_int_or(c, "max_window_layers", 0, 1 << 20, 62));
    arch_name_experts(m, "mlp.experts");
    m->layout = arch_unnamed_experts_layout;
    arch_experts_from(m, c, e, 0);
}

/* GLM 4.5's layers with experts of `n_ff` when absent, from layer `first` on when absent. */
static void glm(struct model_desc *m, struct config *c, struct arena *a, const struct dense_rule *d, int n_ff,
                int first)
{
    arch_dense(m, c, a, d);
    struct moe_desc *e = arch_experts(
        c, a,
        &(struct expert_fields){"n_routed_experts", 128, "num_experts_per_tok", 8, "moe_intermediate_size", n_ff});
    if (e) {
        sigmoid_router(e, c);
        arch_shared_experts(e, c, "n_shared_experts", 1, e->n_ff);
        arch_expert_groups(e, c, "n_group", 1, 1);
    }
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.o_bias = false;
        if (config_bool_or(c, "use_qk_norm", false))
            m->layer[i].attn.qk_norm = m->norm;
    }
    m->ignore_further_layers = true;
    m->layout = arch_experts_layout;
    arch_experts_from(m, c, e, first);
}

/* GLM 4.5 and 4.6 (Z.ai 2025): half of each head rotates; norms of queries and keys where use_qk_norm says so. */
void arch_glm4_moe(struct model_desc *m, struct config *c, struct arena *a)
{
    glm(m, c, a, &(struct dense_rule){.n_kv_head = 8, .n_context = 131072, .eps = 1e-5, .rope = {.partial = 0.5}}, 1408,
        1);
}

/* Solar Open (Upstage 2025): GLM 4.5 with whole heads that rotate and experts in every layer. */
void arch_solar_open(struct model_desc *m, struct config *c, struct arena *a)
{
    glm(m, c, a,
        &(struct dense_rule){.n_ff = 10240,
                             .head_dim = 128,
                             .n_kv_head = 8,
                             .n_context = 131072,
                             .eps = 1e-5,
                             .rope = {.theta = 1e6, .partial = 1}},
        1280, 0);
}

static const struct layout_rule exaone_moe_layout[] = {
    {.param = "*.mlp.gate.e_score_correction_bias", .from = "*.mlp.e_score_correction_bias"},
    EXPERTS_LAYOUT,
    {0},
};

/* K-EXAONE (LG 2025): EXAONE 4's windows and ropes with norms before the blocks. */
void arch_exaone_moe(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 32, .eps = 1e-5});
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_experts", 64, "num_experts_per_tok", 8, "moe_intermediate_size", 1024});
    if (e) {
        sigmoid_router(e, c);
        e->scale = (float)config_num_or(c, "routed_scaling_factor", 1e-6, 1e6, 2.5);
        arch_shared_experts(e, c, "num_shared_experts", 1, e->n_ff);
        arch_expert_groups(e, c, "n_group", 1, 1);
    }
    int window = arch_window(c, 4096);
    arch_windows_every(m, c, window, arch_pattern(c, 4));
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].attn.qk_norm = m->norm;
    if (window)
        arch_rope_in_windows(m);
    m->ignore_further_layers = true;
    m->layout = exaone_moe_layout;
    bool flags = !config_has(c, "mlp_layer_types") && arch_has_layer_list(m, c, "is_moe_layer"); /* as mlx-lm reads */
    if (!flags)
        arch_experts_by_kind(m, c, e, 1);
    for (int i = 0; i < m->n_layer && flags; i++)
        if (config_array_bool(c, "is_moe_layer", i))
            arch_use_experts(m, i, e);
}

/* AFMoE (Arcee Trinity): norms before and behind the blocks, gated attention, a rope in the layers with a window alone. */
void arch_afmoe(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.head_dim = 128, .n_context = 16384, .eps = 1e-5});
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_experts", 64, "num_experts_per_tok", 6, "moe_intermediate_size", 1408});
    if (e) {
        sigmoid_router(e, c);
        arch_need_word(c, "score_func", "sigmoid");
        e->normalize = config_bool_or(c, "route_norm", true);
        e->scale = (float)config_num_or(c, "route_scale", 1e-6, 1e6, 1);
        arch_shared_experts(e, c, "num_shared_experts", 2, e->n_ff);
        arch_expert_groups(e, c, "n_group", 1, 1);
    }
    arch_windows_every(m, c, arch_window(c, 1024),
                       (int)config_int_or(c, "global_attn_every_n_layers", 1, DESC_LAYERS_MAX, 4));
    arch_rope_in_windows(m);
    int64_t dense = config_int_or(c, "num_dense_layers", 0, 1 << 20, 1);
    for (int i = 0; i < m->n_layer; i++) {
        struct layer_desc *l = &m->layer[i];
        l->mix_post = l->ff_post = l->attn.qk_norm = m->norm;
        l->attn.gate = GATE_PROJ;
        if (i >= dense)
            arch_use_experts(m, i, e);
    }
    if (config_bool_or(c, "mup_enabled", false))
        m->embed_scale = (float)__builtin_sqrt((double)m->n_embd);
    m->name[NAME_FF_NORM] = "pre_mlp_layernorm";
    m->name[NAME_FF_POST] = "post_mlp_layernorm";
    m->name[NAME_ROUTER] = "mlp.router.gate";
    m->name[NAME_ROUTER_CORRECTION] = "mlp.expert_bias";
    arch_name_experts(m, "mlp.experts");
    m->layout = arch_unnamed_experts_layout;
}

/* ERNIE 4.5 with experts (Baidu 2025): the softmax over all experts, corrected for the choice. Files that mlx-lm has
 * converted lack the correction. */
void arch_ernie4_5_moe(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a,
               &(struct dense_rule){
                   .n_kv_head = 4, .n_context = 131072, .eps = 1e-5, .rope = {.theta = 5e5, .interleaved = true}});
    struct moe_desc *e =
        arch_experts(c, a, &(struct expert_fields){"moe_num_experts", 64, "moe_k", 6, "moe_intermediate_size", 1536});
    if (e) {
        arch_need_word(c, "moe_gate_act", "softmax");
        e->normalize = true;
        e->sum_min = (float)config_num_or(c, "moe_norm_min", 0, 1, 1e-12);
        e->correction = e->may_lack_correction = true;
        arch_shared_experts(e, c, "moe_num_shared_experts", 2, e->n_ff);
    }
    arch_need_bool(c, "use_bias", false);
    int64_t first = config_int_or(c, "moe_layer_start_index", 0, 1 << 20, 1);
    int64_t last = config_int_or(c, "moe_layer_end_index", -1, 1 << 20, -1);
    int64_t every = config_int_or(c, "moe_layer_interval", 1, 1 << 20, 1);
    for (int64_t i = first; i < m->n_layer && (last < 0 || i <= last); i++)
        if ((i + 1) % every == 0)
            arch_use_experts(m, (int)i, e);
    m->name[NAME_ROUTER_CORRECTION] = "mlp.moe_statics.e_score_correction_bias";
    m->layout = arch_experts_layout;
}

static const struct layout_rule bailing_layout[] = {
    {.param = "*.mlp.gate.gate_proj", .from = "*.mlp.gate"},
    EXPERTS_LAYOUT,
    {0},
};

/* Ling and Ring (Ant Group 2025). */
void arch_bailing_moe(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.head_dim = 0, .rope = {.partial = 1}});
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_experts", 64, "num_experts_per_tok", 6, "moe_intermediate_size", 1408});
    if (e) {
        sigmoid_router(e, c);
        e->score = arch_scores(c, "score_function", "softmax");
        e->correction = config_bool_or(c, "moe_router_enable_expert_bias", false);
        e->bias = e->shared_bias = config_bool_or(c, "use_bias", false);
        arch_expert_groups(e, c, "n_group", 1, 4);
        if (config_bool_or(c, "moe_router_enable_shared_expert", true))
            arch_shared_experts(e, c, "num_shared_experts", 0,
                                (int)config_int_or(c, "moe_shared_expert_intermediate_size", 1, 1 << 24, e->n_ff));
    }
    int              n_head = (int)config_int(c, "num_attention_heads", 1, m->n_embd);
    int              head_dim = m->n_embd / n_head; /* whatever head_dim says */
    struct rope_rule rope = {.partial = 1};
    arch_rope_of(&m->rope[0], m, c, a, head_dim, &rope);
    for (int i = 0; i < m->n_layer; i++) {
        struct attn_desc *t = &m->layer[i].attn;
        t->head_dim = head_dim;
        t->scale = (float)(1 / __builtin_sqrt((double)head_dim));
        t->qkv = QKV_ROWS;
        t->qkv_bias = config_bool_or(c, "use_qkv_bias", false);
        t->o_bias = m->layer[i].ffn.bias = config_bool_or(c, "use_bias", false);
        if (config_bool_or(c, "use_qk_norm", false))
            t->qk_norm = m->norm;
    }
    if (config_bool_or(c, "norm_head", false))
        config_fault(c, ERR_UNSUPPORTED, "norm_head", "is true; a head with normalized columns is not known here");
    if (config_has(c, "rotary_dim"))
        m->rope[0].dims = (int)config_int(c, "rotary_dim", 2, head_dim);
    m->name[NAME_EMBED] = "model.word_embeddings";
    m->name[NAME_QKV] = "attention.query_key_value";
    m->name[NAME_O] = "attention.dense";
    m->name[NAME_Q_NORM] = "attention.query_layernorm";
    m->name[NAME_K_NORM] = "attention.key_layernorm";
    m->name[NAME_ROUTER] = "mlp.gate.gate_proj";
    m->name[NAME_ROUTER_CORRECTION] = "mlp.gate.expert_bias";
    m->layout = bailing_layout;
    arch_experts_from(m, c, e, 0);
}
