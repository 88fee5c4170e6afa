/* LFM2 (Liquid AI 2025): short convolutions between gates, and attention in some layers. */
#include "arch/family.h"
#include "base/num.h"

static const struct layout_rule moe_layout[] = {
    {.param = "*.feed_forward.gate_proj", .from = "*.feed_forward.w1"},
    {.param = "*.feed_forward.down_proj", .from = "*.feed_forward.w2"},
    {.param = "*.feed_forward.up_proj", .from = "*.feed_forward.w3"},
    W_EXPERTS_LAYOUT,
    {0},
};

static void names(struct model_desc *m)
{
    m->name[NAME_NORM] = "model.embedding_norm";
    m->name[NAME_MIX_NORM] = "operator_norm";
    m->name[NAME_FF_NORM] = "ffn_norm";
    m->name[NAME_Q_NORM] = "self_attn.q_layernorm";
    m->name[NAME_K_NORM] = "self_attn.k_layernorm";
    m->name[NAME_O] = "self_attn.out_proj";
}

/* Whether layer i attends: by layer_types, else by full_attn_idxs, else it does. */
static bool attends(const struct model_desc *m, struct config *c, int i)
{
    bool listed = !config_has(c, "full_attn_idxs") || arch_lists_layer(m, c, "full_attn_idxs", i, 0);
    return arch_attends(m, c, i, "conv", listed);
}

static void describe(struct model_desc *m, struct config *c, struct arena *a, const struct dense_rule *rule)
{
    struct shortconv_desc *t = arena_calloc(a, 1, sizeof *t);
    arch_dense(m, c, a, rule);
    names(m);
    if (!t) {
        config_fault(c, ERR_NOMEM, "conv_L_cache", "could not be read: out of memory");
        return;
    }
    *t = (struct shortconv_desc){.conv = (int)config_int_or(c, "conv_L_cache", 2, CONV_WIDTH_MAX, 3),
                                 .bias = config_bool_or(c, "conv_bias", false)};
    m->tie = config_bool_or(c, arch_either(c, "tie_word_embeddings", "tie_embedding"), true) ? TIE_YES : TIE_NO;
    for (int i = 0; i < m->n_layer; i++) {
        struct layer_desc *l = &m->layer[i];
        l->attn.qk_norm = m->norm;
        l->shortconv = t;
        if (!attends(m, c, i))
            l->mix = MIX_SHORTCONV;
    }
}

/* The width of the feed-forward block: two thirds of what config.json says, times a factor, rounded up. */
static int adjusted(struct config *c, int n_ff)
{
    int64_t of = config_int_or(c, "block_multiple_of", 1, 1 << 20, 256);
    double  factor = config_num_or(c, "block_ffn_dim_multiplier", 1e-3, 1e3, 1);
    int64_t n = (int64_t)(factor * (double)(int64_t)(2.0 * n_ff / 3));
    return (int)MAX(1, (n + of - 1) / of * of);
}

void arch_lfm2(struct model_desc *m, struct config *c, struct arena *a)
{
    const char *width = arch_either(c, "intermediate_size", "block_ff_dim");
    describe(m, c, a,
             &(struct dense_rule){.n_ff = 1,
                                  .n_kv_head = 8,
                                  .n_context = 128000,
                                  .eps_key = "norm_eps",
                                  .eps = 1e-5,
                                  .rope = {.theta = 1e6}});
    int n_ff = (int)config_int_or(c, width, 1, 1 << 20, 12288),
        n_block = (int)config_int_or(c, "block_dim", 1, 1 << 20, m->n_embd);
    if (n_block != m->n_embd)
        config_fault(c, ERR_UNSUPPORTED, "block_dim", "is %d; supported: hidden_size (%d)", n_block, m->n_embd);
    if (config_bool_or(c, "block_auto_adjust_ff_dim", true))
        n_ff = adjusted(c, n_ff);
    m->name[NAME_GATE] = "feed_forward.w1";
    m->name[NAME_UP] = "feed_forward.w3";
    m->name[NAME_DOWN] = "feed_forward.w2";
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].ffn.n_ff = n_ff;
}

/* LFM2 with experts in all layers but the first num_dense_layers. */
void arch_lfm2_moe(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a,
             &(struct dense_rule){.n_ff = 7168,
                                  .n_kv_head = 8,
                                  .n_context = 128000,
                                  .eps_key = "norm_eps",
                                  .eps = 1e-5,
                                  .rope = {.theta = 1e6}});
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_experts", 32, "num_experts_per_tok", 4, "moe_intermediate_size", 1792});
    m->layout = moe_layout;
    m->name[NAME_GATE] = "feed_forward.gate_proj";
    m->name[NAME_UP] = "feed_forward.up_proj";
    m->name[NAME_DOWN] = "feed_forward.down_proj";
    m->name[NAME_ROUTER] = "feed_forward.gate";
    m->name[NAME_ROUTER_CORRECTION] = "feed_forward.expert_bias";
    arch_name_experts(m, "feed_forward.switch_mlp");
    if (!e)
        return;
    e->score = ROUTE_SIGMOID;
    e->correction = config_bool_or(c, "use_expert_bias", true);
    e->normalize = config_bool_or(c, "norm_topk_prob", true);
    e->sum_add = 1e-6f;
    e->scale = (float)config_num_or(c, "routed_scaling_factor", 1e-6, 1e6, 1);
    for (int64_t i = config_int_or(c, "num_dense_layers", 0, 1 << 20, 2); i < m->n_layer; i++)
        arch_use_experts(m, (int)i, e);
}
