/* Hybrids of state space models and attention: Jamba, Bamba, Granite 4, Falcon-H1, Nemotron-H. */
#include <string.h>

#include "arch/family.h"

static const struct mamba2_keys hybrid_keys = {.expand = "mamba_expand",
                                               .heads = "mamba_n_heads",
                                               .head_dim = "mamba_d_head",
                                               .head_dim_default = 64,
                                               .groups = "mamba_n_groups",
                                               .n_group = 1,
                                               .state = "mamba_d_state",
                                               .n_state = 256,
                                               .width = "mamba_d_conv",
                                               .conv_bias = "mamba_conv_bias",
                                               .bias = "mamba_proj_bias",
                                               .limit = "time_step_limit",
                                               .act = "hidden_act"};

/* What an entry of a list of layers says; 0 for what nobody knows. */
static char kind_named(const char *name)
{
    static const struct {
        const char *name;
        char        kind;
    } kinds[] = {{"mamba", 'M'},     {"mamba2", 'M'},         {"linear_attention", 'M'},
                 {"attention", '*'}, {"full_attention", '*'}, {"mlp", '-'},
                 {"moe", 'E'}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name))
            return kinds[i].kind;
    return 0;
}

char arch_layer_kind(struct config *c, const char *key, int i, const char *allowed)
{
    const char *name = config_array_str(c, key, i);
    char        kind = kind_named(name);
    if (kind && strchr(allowed, kind))
        return kind;
    if (*name)
        config_fault(c, ERR_UNSUPPORTED, key,
                     "has \"%s\" at %d; supported: mamba (linear_attention), attention "
                     "(full_attention)%s",
                     name, i, strchr(allowed, 'E') ? ", mlp, moe" : "");
    return *allowed;
}

static void final_names(struct model_desc *m)
{
    m->name[NAME_NORM] = "model.final_layernorm";
    m->name[NAME_FF_NORM] = "pre_ff_layernorm";
    m->name[NAME_GATE] = "feed_forward.gate_proj";
    m->name[NAME_UP] = "feed_forward.up_proj";
    m->name[NAME_DOWN] = "feed_forward.down_proj";
    m->name[NAME_ROUTER] = "feed_forward.router";
    arch_name_experts(m, "feed_forward.switch_mlp");
}

/* Whether layer i is the one at `offset` of every `period`. */
static bool periodic(struct config *c, int i, const char *period_key, int64_t period, const char *offset_key,
                     int64_t offset)
{
    period = config_int_or(c, period_key, 1, DESC_LAYERS_MAX, period);
    offset = config_int_or(c, offset_key, 0, DESC_LAYERS_MAX, offset);
    if (offset >= period)
        config_fault(c, ERR_MISFIT, offset_key, "is %lld, less than %s (%lld) is needed", (long long)offset, period_key,
                     (long long)period);
    return i % period == offset;
}

/* Jamba (Lieber et al. 2024): Mamba with norms, attention without rope, and experts, each on layers that come round. */
void arch_jamba(struct model_desc *m, struct config *c, struct arena *a)
{
    static const struct mamba1_keys keys = {NULL,           "mamba_expand",    "mamba_d_state",  "mamba_dt_rank",
                                            "mamba_d_conv", "mamba_conv_bias", "mamba_proj_bias"};
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 8, .n_context = 262144});
    struct mamba1_desc *d = arch_mamba1(m, c, a, &keys);
    struct moe_desc    *e = NULL;
    bool                listed = arch_has_layer_list(m, c, "layers_block_type");
    if (config_int_or(c, "num_experts", 1, 4096, 16) > 1)
        e = arch_experts(
            c, a, &(struct expert_fields){"num_experts", 16, "num_experts_per_tok", 2, "intermediate_size", 14336});
    if (d)
        d->norm = m->norm;
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.rope = -1;
        if (listed ? arch_layer_kind(c, "layers_block_type", i, "M*") == 'M'
                   : !periodic(c, i, "attn_layer_period", 8, "attn_layer_offset", 4))
            arch_use_mamba1(&m->layer[i], d);
        if (periodic(c, i, "expert_layer_period", 2, "expert_layer_offset", 1))
            arch_use_experts(m, i, e);
    }
    m->n_rope = 0;
    m->layout = arch_experts_layout;
    final_names(m);
}

/* Bamba (IBM 2024): Mamba 2, and attention with half a rope on the layers that are named. */
void arch_bamba(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a,
               &(struct dense_rule){.n_kv_head = 8, .n_context = 262144, .eps = 1e-5, .rope = {.partial = 0.5}});
    const struct mamba2_desc *d = arch_mamba2_of(m, c, a, &hybrid_keys);
    bool                      listed = arch_has_layer_list(m, c, "layers_block_type");
    for (int i = 0; i < m->n_layer; i++)
        if (listed ? arch_layer_kind(c, "layers_block_type", i, "M*") == 'M'
                   : !arch_lists_layer(m, c, "attn_layer_indices", i, 0))
            arch_use_mamba2(&m->layer[i], d);
    final_names(m);
}

static const struct layout_rule granite_layout[] = {
    GRANITE_EXPERTS_LAYOUT,
    {.param = "*.mlp.gate_proj", .from = "*.shared_mlp.input_linear", .part = 0, .parts = 2},
    {.param = "*.mlp.up_proj", .from = "*.shared_mlp.input_linear", .part = 1, .parts = 2},
    {.param = "*.mlp.down_proj", .from = "*.shared_mlp.output_linear"},
    {0},
};

static void granite_experts(struct model_desc *m, struct config *c, struct arena *a, int n_shared)
{
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_local_experts", 8, "num_experts_per_tok", 2, "intermediate_size", 11008});
    m->name[NAME_ROUTER] = "block_sparse_moe.router.layer";
    arch_name_experts(m, "block_sparse_moe.switch_mlp");
    m->name[NAME_SHARED_GATE] = "shared_mlp.input_linear";
    m->name[NAME_SHARED_DOWN] = "shared_mlp.output_linear";
    if (!e)
        return;
    e->score = ROUTE_TOP_SOFTMAX;
    e->n_shared_ff = n_shared;
    e->shared_fused = true;
    arch_all_experts(m, e);
}

/* Granite 4 (IBM 2025): Mamba 2 and attention by layer_types, with or without rope, Granite's factors, and a feed-forward block
 * that experts may stand beside. */
void arch_granitemoehybrid(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_ff = 11008});
    const struct mamba2_desc *d = arch_mamba2_of(m, c, a, &hybrid_keys);
    const char               *position = config_str_or(c, "position_embedding_type", "nope");
    bool                      listed = arch_has_layer_list(m, c, "layer_types"), has_rope = !strcmp(position, "rope");
    int                       n_shared = (int)config_int_or(c, "shared_intermediate_size", 1, 1 << 24, 1024);
    if (!has_rope && strcmp(position, "nope"))
        config_fault(c, ERR_UNSUPPORTED, "position_embedding_type", "is \"%s\"; supported: rope, nope", position);
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].ffn.n_ff = n_shared;
        m->layer[i].attn.scale = (float)config_num_or(c, "attention_multiplier", 1e-6, 1e6, 1);
        if (!has_rope)
            m->layer[i].attn.rope = -1;
        if (!listed || arch_layer_kind(c, "layer_types", i, "M*") == 'M')
            arch_use_mamba2(&m->layer[i], d);
    }
    if (!has_rope)
        m->n_rope = 0;
    m->embed_scale = (float)config_num_or(c, "embedding_multiplier", 1e-6, 1e6, 1);
    m->residual_scale = (float)config_num_or(c, "residual_multiplier", 1e-6, 1e6, 1);
    m->logit_scale = (float)(1 / config_num_or(c, "logits_scaling", 1e-6, 1e6, 1));
    m->layout = granite_layout;
    if (config_int_or(c, "num_local_experts", 0, 4096, 8))
        granite_experts(m, c, a, n_shared);
}

static float multiplier(struct config *c, const char *key)
{
    return (float)config_num_or(c, key, 1e-6, 1e6, 1);
}

/* The i-th of the n numbers of a list; 1 without one. */
static float multiplier_of(struct config *c, const char *key, int i, int n)
{
    int found = config_array_len(c, key);
    if (found >= 0 && found != n)
        config_fault(c, ERR_FORMAT, key, "has %d entries, %d are needed", found, n);
    return found == n ? (float)config_array_num(c, key, i, 1e-6, 1e6) : 1;
}

/* A rule for the original layout alone, whose parameter's outputs are multiplied. */
static struct layout_rule scaled(const char *param, const struct layout_scale *s)
{
    return (struct layout_rule){.param = param, .marker = "*.mamba.conv1d.weight", .scale = s};
}

/* Falcon-H1's factors: the MLX layout has most of them in its weights already, but for keys' and for the input of values. */
static void falcon_factors(struct model_desc *m, struct config *c, struct arena *a, const struct mamba2_desc *d)
{
    static const char *const param[] = {"*.embed_tokens", "lm_head",     "*.q_proj",    "*.k_proj",
                                        "*.o_proj",       "*.gate_proj", "*.down_proj", "*.out_proj"};
    const float              in = multiplier(c, "attention_in_multiplier"), ssm_in = multiplier(c, "ssm_in_multiplier");
    const float              factor[] = {multiplier(c, "embedding_multiplier"),
                                         multiplier(c, "lm_head_multiplier"),
                                         in,
                                         in,
                                         multiplier(c, "attention_out_multiplier"),
                                         multiplier_of(c, "mlp_multipliers", 0, 2),
                                         multiplier_of(c, "mlp_multipliers", 1, 2),
                                         multiplier(c, "ssm_out_multiplier")};
    const int                n = sizeof factor / sizeof *factor;
    const int64_t            inner = (int64_t)d->n_head * d->head_dim, group = (int64_t)d->n_group * d->n_state;
    const int64_t            part[] = {inner, inner, group, group, d->n_head};
    struct layout_scale     *s = arena_calloc(a, 2 * (size_t)n + 6, sizeof *s);
    struct layout_rule      *r = arena_calloc(a, (size_t)n + 2, sizeof *r);
    if (!s || !r) {
        config_fault(c, ERR_NOMEM, "mlp_multipliers", "out of memory");
        return;
    }
    for (int i = 0; i < n; i++) {
        s[2 * i] = (struct layout_scale){INT64_MAX, factor[i]};
        r[i] = scaled(param[i], &s[2 * i]);
    }
    for (int i = 0; i < 5; i++)
        s[2 * n + i] = (struct layout_scale){part[i], ssm_in * multiplier_of(c, "ssm_multipliers", i, 5)};
    r[n] = scaled("*.in_proj", &s[2 * n]);
    m->layout = r;
    if (m->tie != TIE_NO)
        m->logit_scale = factor[1] / factor[0];
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.scale *= multiplier(c, "key_multiplier");
        m->layer[i].attn_scale = in;
    }
}

/* Falcon-H1 (TII 2025): attention and Mamba 2 side by side in every layer, and factors everywhere. */
void arch_falcon_h1(struct model_desc *m, struct config *c, struct arena *a)
{
    struct mamba2_keys keys = hybrid_keys;
    keys.inner = "mamba_d_ssm";
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 8, .n_context = 8192, .eps = 1e-5});
    struct mamba2_desc *d = arch_mamba2_of(m, c, a, &keys);
    if (!d)
        return;
    if (m->tie == TIE_BY_FILE)
        m->tie = TIE_NO; /* the head's factor depends on it */
    if (!config_bool_or(c, "mamba_rms_norm", false))
        d->norm.kind = NORM_NONE;
    d->norm_first = config_bool_or(c, "mamba_norm_before_gate", true);
    arch_need_bool(c, "attention_bias", false); /* factors of biases */
    arch_need_bool(c, "mlp_bias", false);
    arch_need_bool(c, "mamba_proj_bias", false);
    arch_need_bool(c, "projectors_bias", false);
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].mix = MIX_ATTN_MAMBA2;
        m->layer[i].mamba2 = d;
    }
    falcon_factors(m, c, a, d);
    final_names(m);
}
