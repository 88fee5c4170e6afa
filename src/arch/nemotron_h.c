/* Nemotron-H and Nemotron 3 (NVIDIA 2025): layers of one block each: Mamba 2, attention without rope, a feed-forward block
 * without a gate, or experts of that kind. */
#include <string.h>

#include "arch/family.h"

/* The layers' kinds as hybrid_override_pattern has them, a character each; NULL: layers_block_type does. */
static const char *pattern_of(struct config *c)
{
    const char *pattern = config_has(c, "hybrid_override_pattern") ? config_str(c, "hybrid_override_pattern") : NULL;
    size_t      known = pattern ? strspn(pattern, "M*-E") : 0;
    if (pattern && pattern[known])
        config_fault(c, ERR_UNSUPPORTED, "hybrid_override_pattern",
                     "has '%c' at %zu; supported: M (Mamba 2), * (attention), - (feed-forward), E (experts)",
                     pattern[known], known);
    return pattern;
}

static int count_layers(struct config *c, const char *pattern)
{
    const char *key = pattern ? "hybrid_override_pattern" : "layers_block_type";
    int64_t     n = pattern ? (int64_t)strlen(pattern) : config_array_len(c, key);
    if (n < 0)
        config_fault(c, ERR_FORMAT, key, "is missing, the layers' kinds are needed");
    else if (n < 1 || n > DESC_LAYERS_MAX)
        config_fault(c, ERR_MISFIT, key, "names %lld layers, 1 to %d are needed", (long long)n, DESC_LAYERS_MAX);
    else if (config_int_or(c, "num_hidden_layers", 1, DESC_LAYERS_MAX, n) != n)
        config_fault(c, ERR_MISFIT, key, "names %lld layers, num_hidden_layers (%lld) are needed", (long long)n,
                     (long long)config_int(c, "num_hidden_layers", 1, DESC_LAYERS_MAX));
    else
        return (int)n;
    return 1;
}

static struct mamba2_desc *mamba2(struct model_desc *m, struct config *c, struct arena *a)
{
    const struct mamba2_keys keys = {.heads = "mamba_num_heads",
                                     .head_dim = "mamba_head_dim",
                                     .head_dim_default = 64,
                                     .groups = arch_either(c, "n_groups", "mamba_n_groups"),
                                     .n_group = 8,
                                     .state = "ssm_state_size",
                                     .n_state = 128,
                                     .width = arch_either(c, "conv_kernel", "mamba_d_conv"),
                                     .conv_bias = arch_either(c, "use_conv_bias", "mamba_conv_bias"),
                                     .bias = "use_bias",
                                     .limit = arch_either(c, "time_step_limit", "mamba_dt_limit"),
                                     .act = "mamba_hidden_act"};
    return arch_mamba2_of(m, c, a, &keys);
}

static struct attn_desc attention(struct config *c)
{
    struct attn_desc t = {.n_head = (int)config_int_or(c, "num_attention_heads", 1, 1 << 14, 32),
                          .n_kv_head = (int)config_int_or(c, "num_key_value_heads", 1, 1 << 14, 8),
                          .head_dim =
                              (int)config_int_or(c, arch_either(c, "head_dim", "attention_head_dim"), 1, 4096, 128),
                          .rope = -1};
    t.qkv_bias = t.o_bias = config_bool_or(c, "attention_bias", false);
    t.scale = (float)(1 / __builtin_sqrt((double)t.head_dim));
    if (!config_is_null(c, "sliding_window") && config_has(c, "sliding_window"))
        config_fault(c, ERR_UNSUPPORTED, "sliding_window", "is a number; supported: null");
    return t;
}

static struct moe_desc *experts(struct config *c, struct arena *a, const struct ff_desc *ff)
{
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"n_routed_experts", 8, "num_experts_per_tok", 2, "moe_intermediate_size", 7688});
    if (!e)
        return NULL;
    e->plain = e->correction = true;
    e->act = ff->act;
    e->shared_bias = ff->bias;
    e->score = ROUTE_SIGMOID;
    e->group = ROUTE_GROUP_BEST2;
    e->normalize = config_bool_or(c, "norm_topk_prob", true);
    e->sum_add = 1e-20f;
    e->scale = (float)config_num_or(c, "routed_scaling_factor", 1e-6, 1e6, 1);
    arch_expert_groups(e, c, "n_group", 1, 1);
    if (config_int_or(c, "n_shared_experts", 0, 64, 1))
        e->n_shared_ff = (int)config_int_or(c, "moe_shared_expert_intermediate_size", 1, 1 << 24, 7688);
    if (config_has(c, "moe_latent_size"))
        e->n_latent = (int)config_int(c, "moe_latent_size", 1, 1 << 20);
    return e;
}

static void names(struct model_desc *m)
{
    static const struct layout_rule layout[] = {
        {.param = "*.switch_mlp.fc1", .from = "*.experts.#.up_proj"},
        {.param = "*.switch_mlp.fc2", .from = "*.experts.#.down_proj"},
        {.param = "*.switch_mlp.fc1", .from = "*.experts.up_proj"}, /* as transformers 5 names them */
        {.param = "*.switch_mlp.fc2", .from = "*.experts.down_proj"},
        {0},
    };
    static const struct layout_prefix original[] = {{"backbone.", "model."}, {0}};
    static const char *const          ignored[] = {"mtp.*", NULL};
    m->name[NAME_Q] = "mixer.q_proj";
    m->name[NAME_K] = "mixer.k_proj";
    m->name[NAME_V] = "mixer.v_proj";
    m->name[NAME_O] = "mixer.o_proj";
    m->name[NAME_UP] = "mixer.up_proj";
    m->name[NAME_DOWN] = "mixer.down_proj";
    m->name[NAME_ROUTER] = "mixer.gate";
    m->name[NAME_ROUTER_CORRECTION] = "mixer.gate.e_score_correction_bias";
    m->name[NAME_EXPERT_UP] = "mixer.switch_mlp.fc1";
    m->name[NAME_EXPERT_DOWN] = "mixer.switch_mlp.fc2";
    m->name[NAME_SHARED_UP] = "mixer.shared_experts.up_proj";
    m->name[NAME_SHARED_DOWN] = "mixer.shared_experts.down_proj";
    m->name[NAME_LATENT_IN] = "mixer.fc1_latent_proj";
    m->name[NAME_LATENT_OUT] = "mixer.fc2_latent_proj";
    m->layout = layout;
    m->layout_prefix = original;
    m->ignore = ignored;
    if (m->tie == TIE_YES)
        m->tie = TIE_BY_FILE; /* neither reference ties a head that is there */
}

/* One block; the layer's one norm stands before it. */
static void use(struct model_desc *m, int i, char kind, const struct mamba2_desc *d, const struct moe_desc *e)
{
    struct layer_desc *l = &m->layer[i];
    if (kind == 'M')
        arch_use_mamba2(l, d);
    else if (kind == '*')
        l->mix = MIX_ATTN;
    else if (kind == '-')
        l->ff = FF_PLAIN;
    else
        arch_use_experts(m, i, e);
    *(l->mix == MIX_NONE ? &l->ff_norm : &l->mix_norm) = m->norm;
}

void arch_nemotron_h(struct model_desc *m, struct config *c, struct arena *a)
{
    const char *pattern = pattern_of(c);
    arch_backbone(m, c, a, count_layers(c, pattern));
    const struct mamba2_desc *d = mamba2(m, c, a);
    const struct attn_desc    attn = attention(c);
    const struct ff_desc      ff = {.n_ff = (int)config_int_or(c, "intermediate_size", 1, 1 << 24, 21504),
                                    .bias = config_bool_or(c, "mlp_bias", false),
                                    .act = arch_act(c, "mlp_hidden_act", "relu2")};
    struct moe_desc          *e = NULL;
    names(m);
    for (int i = 0; i < m->n_layer; i++) {
        char kind = pattern ? pattern[i] : arch_layer_kind(c, "layers_block_type", i, "M*-E");
        if (kind == 'E' && !e)
            e = experts(c, a, &ff);
        m->layer[i].attn = attn;
        m->layer[i].ffn = ff;
        use(m, i, kind, d, e);
    }
}
