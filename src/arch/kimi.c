/* Kimi Linear (Kimi Team 2025): Kimi delta attention in three of four layers, latent attention without rope in the others,
 * experts from the second layer on. */
#include <math.h>
#include <string.h>

#include "arch/family.h"

static const struct layout_rule layout[] = {
    {.param = "*.q_conv.conv", .from = "*.q_conv1d"},
    {.param = "*.k_conv.conv", .from = "*.k_conv1d"},
    {.param = "*.v_conv.conv", .from = "*.v_conv1d"},
    KV_B_LAYOUT,
    {.param = "*.mlp.gate", .from = "*.block_sparse_moe.gate"},
    {.param = "*.mlp.e_score_correction_bias", .from = "*.block_sparse_moe.gate.e_score_correction_bias"},
    {.param = "*.mlp.switch_mlp.gate_proj", .from = "*.block_sparse_moe.experts.#.w1"},
    {.param = "*.mlp.switch_mlp.down_proj", .from = "*.block_sparse_moe.experts.#.w2"},
    {.param = "*.mlp.switch_mlp.up_proj", .from = "*.block_sparse_moe.experts.#.w3"},
    FUSED_EXPERTS_LAYOUT,
    {.param = "*.mlp.shared_experts.gate_proj", .from = "*.block_sparse_moe.shared_experts.gate_proj"},
    {.param = "*.mlp.shared_experts.up_proj", .from = "*.block_sparse_moe.shared_experts.up_proj"},
    {.param = "*.mlp.shared_experts.down_proj", .from = "*.block_sparse_moe.shared_experts.down_proj"},
    {0},
};

static const char *const ignored[] = {"model.mtp*", "*.rotary_emb.inv_freq", NULL};

/* s: linear_attn_config, or NULL. */
static struct delta_desc *read_kda(struct model_desc *m, struct config *c, struct config *s, struct arena *a)
{
    struct delta_desc *t = arena_calloc(a, 1, sizeof *t);
    struct config     *from = s ? s : c;
    if (!t) {
        config_fault(c, ERR_NOMEM, "linear_attn_config", "could not be read: out of memory");
        return NULL;
    }
    t->n_head = t->n_k_head = (int)config_int_or(from, s ? "num_heads" : "linear_num_heads", 1, 1 << 14, 32);
    t->k_dim = t->v_dim = (int)config_int_or(from, s ? "head_dim" : "linear_head_dim", 1, DELTA_K_DIM_MAX, 128);
    t->conv = (int)config_int_or(from, s ? "short_conv_kernel_size" : "linear_conv_kernel_dim", 2, CONV_WIDTH_MAX, 4);
    t->norm = m->norm;
    return t;
}

/* Latent attention; rope_dim features are scored like the others, and not turned. */
static struct mla_desc *read_mla(struct model_desc *m, struct config *c, struct arena *a)
{
    struct mla_desc *d = arena_calloc(a, 1, sizeof *d);
    if (!d) {
        config_fault(c, ERR_NOMEM, "kv_lora_rank", "could not be read: out of memory");
        return NULL;
    }
    *d = (struct mla_desc){.n_head = (int)config_int(c, "num_attention_heads", 1, 1 << 14),
                           .kv_rank = (int)config_int(c, "kv_lora_rank", 1, 1 << 20),
                           .nope = (int)config_int_or(c, "qk_nope_head_dim", 1, 1 << 20, 128),
                           .rope_dim = (int)config_int_or(c, "qk_rope_head_dim", 1, 1 << 20, 64),
                           .v_dim = (int)config_int_or(c, "v_head_dim", 1, 1 << 20, 128),
                           .bias = config_bool_or(c, "attention_bias", false),
                           .kv_norm = m->norm,
                           .rope = -1,
                           .kv_scale = 1};
    d->scale = (float)(1 / sqrt((double)d->nope + d->rope_dim));
    arch_need_silu(c, "hidden_act"); /* of the convolutions, too */
    if (config_has(c, "q_lora_rank"))
        config_fault(c, ERR_UNSUPPORTED, "q_lora_rank", "is set; supported: null");
    arch_need_bool(c, "mla_use_nope", true);
    return d;
}

/* Whether layer i has latent attention: by layer_types, by the two lists, or every fourth. */
static bool is_full(const struct model_desc *m, struct config *c, struct config *s, int i)
{
    bool full = i > 0 && i % 4 == 0;
    if (s && config_has(s, "kda_layers") && !config_has(c, "layer_types")) {
        bool kda = arch_lists_layer(m, s, "kda_layers", i, 1);
        full = arch_lists_layer(m, s, "full_attn_layers", i, 1);
        if (kda == full)
            config_fault(s, ERR_MISFIT, "kda_layers", "and full_attn_layers name layer %d %s, needed in one of them",
                         i + 1, kda ? "both" : "neither");
    }
    return arch_attends(m, c, i, "linear_attention", full);
}

static void experts(struct model_desc *m, struct config *c, struct arena *a)
{
    struct moe_desc *e =
        arch_experts(c, a,
                     &(struct expert_fields){arch_either(c, "num_experts", "num_local_experts"), 256,
                                             arch_either(c, "num_experts_per_token", "num_experts_per_tok"), 8,
                                             "moe_intermediate_size", 1024});
    if (!e)
        return;
    e->score = arch_scores(c, "moe_router_activation_func", "sigmoid");
    e->correction = true;
    e->normalize = config_bool_or(c, arch_either(c, "moe_renormalize", "norm_topk_prob"), true);
    e->sum_add = 1e-20f;
    e->scale = (float)config_num_or(c, "routed_scaling_factor", 1e-6, 1e6, 2.446);
    e->group = ROUTE_GROUP_BEST2;
    arch_expert_groups(e, c, arch_either(c, "num_expert_group", "n_group"), 1, 1);
    arch_shared_experts(e, c, arch_either(c, "num_shared_experts", "n_shared_experts"), 1, e->n_ff);
    m->name[NAME_ROUTER_CORRECTION] = "mlp.e_score_correction_bias";
    arch_experts_by_kind(m, c, e, 1);
}

/* What concerns the whole model, and room for its layers. */
static bool frame(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_frame(m, c, &(struct dense_rule){.n_context = 1048576, .eps = 1e-5});
    if (!config_has(c, "max_position_embeddings"))
        m->n_context = config_int_or(c, "model_max_length", 1, (int64_t)1 << 31, m->n_context);
    m->tie = m->tie == TIE_NO ? TIE_NO : TIE_BY_FILE; /* a head in the file counts whatever the config says */
    m->ignore = ignored;
    m->layout = layout;
    return arch_make_layers(m, c, a, "num_hidden_layers");
}

void arch_kimi_linear(struct model_desc *m, struct config *c, struct arena *a)
{
    if (!frame(m, c, a))
        return;
    struct config     *s = config_object(c, "linear_attn_config");
    struct delta_desc *t = read_kda(m, c, s, a);
    struct mla_desc   *mla = read_mla(m, c, a);
    struct ff_desc     ff = {.n_ff = (int)config_int(c, "intermediate_size", 1, 1 << 24),
                             .act = arch_act(c, "hidden_act", "silu")};
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i] = (struct layer_desc){.mix = is_full(m, c, s, i) ? MIX_MLA : MIX_KDA,
                                          .ff = FF_GATED,
                                          .mix_norm = m->norm,
                                          .ff_norm = m->norm,
                                          .ffn = ff,
                                          .delta = t,
                                          .mla = mla};
    experts(m, c, a);
}
