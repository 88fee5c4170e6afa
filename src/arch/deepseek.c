/* Models with multi-head latent attention: DeepSeek-V2 and V3, and those that took over their design.
 *
 * Sizes that give parameters their shape must be there; what else is absent has the default of transformers' config class.
 * The norms of the bottlenecks have eps 1e-6 in all of them, whatever rms_norm_eps says. */
#include <math.h>
#include <string.h>

#include "arch/family.h"
#include "base/num.h"

#define WIDTH_MAX (1 << 20)

static const char *const ignored[] = {"*.rotary_emb.inv_freq", "model.mtp.*", NULL};

#define LATENT_LAYOUT KV_B_LAYOUT, EXPERTS_LAYOUT

static const struct layout_rule layout[] = {LATENT_LAYOUT, {0}};
static const struct layout_rule whole_layout[] = {KV_B_RULES(true), EXPERTS_LAYOUT, {0}}; /* MLX keeps kv_b_proj */

static int width(struct config *c, const char *key)
{
    return (int)config_int(c, key, 1, WIDTH_MAX);
}

/* What concerns the whole model, and room for its layers, n_part times as many as the field `layers` says. */
static bool read_frame(struct model_desc *m, struct config *c, struct arena *a, const char *layers, int n_part,
                       int n_context)
{
    arch_frame(m, c, &(struct dense_rule){.n_context = n_context});
    m->ignore = ignored;
    m->n_part = n_part;
    return arch_make_layers(m, c, a, layers);
}

/* What yarn does to all features of queries and keys, it does to scores twice. */
static double score_scale(struct config *c, int dim)
{
    struct config_rope f = config_rope(c, NULL, 10000, 1);
    double             scale = 1 / sqrt((double)dim), all, factor;
    if (!f.fields || !strcmp(f.type, "default"))
        return scale;
    all = config_num_or(f.fields, "mscale_all_dim", 0, 1e3, 0);
    factor = config_num_or(f.fields, "factor", 1e-3, 1e6, 1);
    double mscale = factor > 1 && all > 0 ? 0.1 * all * log(factor) + 1 : 1;
    return scale * mscale * mscale;
}

/* What a family's attention is where the config says nothing. */
struct mla_rule {
    int    n_context;
    double theta;       /* 0: 10000 */
    bool   halves;      /* its rope pairs features half a head apart, not neighbours */
    bool   whole_value; /* v_head_dim: hidden_size / num_attention_heads; else it must be there */
};

/* The attention that all layers have, in *a; NULL when out of memory. */
static struct mla_desc *read_attention(struct model_desc *m, struct config *c, struct arena *a,
                                       const struct mla_rule *rule)
{
    struct mla_desc *d = arena_calloc(a, 1, sizeof *d);
    if (!d) {
        config_fault(c, ERR_NOMEM, "kv_lora_rank", "could not be read: out of memory");
        return NULL;
    }
    *d = (struct mla_desc){.n_head = (int)config_int(c, "num_attention_heads", 1, 1 << 14),
                           .q_rank = config_has(c, "q_lora_rank") ? width(c, "q_lora_rank") : 0,
                           .kv_rank = width(c, "kv_lora_rank"),
                           .nope = width(c, "qk_nope_head_dim"),
                           .rope_dim = width(c, "qk_rope_head_dim"),
                           .bias = config_bool_or(c, "attention_bias", false),
                           .q_norm = {.kind = NORM_RMS, .eps = 1e-6f},
                           .kv_norm = {.kind = NORM_RMS, .eps = 1e-6f},
                           .kv_scale = 1};
    d->v_dim =
        rule->whole_value && !config_has(c, "v_head_dim") ? MAX(1, m->n_embd / d->n_head) : width(c, "v_head_dim");
    int n_kv = (int)config_int_or(c, "num_key_value_heads", 1, 1 << 14, d->n_head);
    if (n_kv != d->n_head)
        config_fault(c, ERR_MISFIT, "num_key_value_heads",
                     "is %d, num_attention_heads (%d) is needed: all heads share one "
                     "latent",
                     n_kv, d->n_head);
    d->scale = (float)score_scale(c, d->nope + d->rope_dim);
    d->rope =
        arch_add_rope(m, c, a, d->rope_dim,
                      &(struct rope_rule){.theta = rule->theta > 0 ? rule->theta : 10000,
                                          .interleaved = !rule->halves && config_bool_or(c, "rope_interleave", true),
                                          .dim_key = "qk_rope_head_dim"});
    return d;
}

static void keep_kv_b(struct model_desc *m, struct mla_desc *d)
{
    m->layout = whole_layout;
    if (d)
        d->whole = true;
}

/* Layers of latent attention and gated feed-forward blocks. */
static struct mla_desc *describe(struct model_desc *m, struct config *c, struct arena *a, const struct mla_rule *rule)
{
    struct mla_desc *d =
        read_frame(m, c, a, "num_hidden_layers", 1, rule->n_context) ? read_attention(m, c, a, rule) : NULL;
    struct ff_desc ff = {.n_ff = (int)config_int(c, "intermediate_size", 1, 1 << 24),
                         .act = arch_act(c, "hidden_act", "silu")};
    m->layout = layout;
    for (int i = 0; i < m->n_layer && d; i++)
        m->layer[i] = (struct layer_desc){
            .mix = MIX_MLA, .ff = FF_GATED, .mix_norm = m->norm, .ff_norm = m->norm, .mla = d, .ffn = ff};
    return d;
}

/* mlp_bias, where the family has it. */
static void read_mlp_bias(struct model_desc *m, struct config *c)
{
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].ffn.bias = config_bool_or(c, "mlp_bias", false);
}

/* What of a router is fixed by the family, and what numbers are when they are absent. */
struct routing {
    bool  sigmoid; /* with a correction that counts for the choice alone, in groups by their two best; or softmax */
    int   n_expert, top_k, n_ff, n_group, topk_group, n_shared;
    float scale;
    bool  normalize;
    int   first; /* layer with experts */
};

/* Experts of the layers that have them; no n_routed_experts (null): none. */
static void read_experts(struct model_desc *m, struct config *c, struct arena *a, const struct routing *r)
{
    if (config_is_null(c, "n_routed_experts"))
        return;
    struct moe_desc *e = arch_experts(c, a,
                                      &(struct expert_fields){"n_routed_experts", r->n_expert, "num_experts_per_tok",
                                                              r->top_k, "moe_intermediate_size", r->n_ff});
    if (!e)
        return;
    const char *method = config_str_or(c, "topk_method", r->sigmoid ? "noaux_tc" : "greedy");
    arch_need_word(c, "scoring_func", r->sigmoid ? "sigmoid" : "softmax");
    e->score = r->sigmoid ? ROUTE_SIGMOID : ROUTE_SOFTMAX;
    e->correction = r->sigmoid;
    e->group = r->sigmoid ? ROUTE_GROUP_BEST2 : ROUTE_GROUP_BEST;
    if (r->sigmoid)
        arch_need_word(c, "topk_method", "noaux_tc");
    else if (strcmp(method, "greedy") && strcmp(method, "group_limited_greedy"))
        config_fault(c, ERR_UNSUPPORTED, "topk_method", "is \"%s\"; supported: greedy, group_limited_greedy", method);
    if (r->sigmoid || strcmp(method, "greedy"))
        arch_expert_groups(e, c, "n_group", r->n_group, r->topk_group);
    e->normalize = r->sigmoid && config_bool_or(c, "norm_topk_prob", r->normalize);
    e->sum_add = 1e-20f;
    e->scale = (float)config_num_or(c, "routed_scaling_factor", 1e-6, 1e6, r->scale);
    e->shared_bias = m->n_layer && m->layer[0].ffn.bias;
    arch_shared_experts(e, c, "n_shared_experts", r->n_shared, e->n_ff);
    arch_experts_by_kind(m, c, e, r->first);
}

/* DeepSeek-V2 (2024): its router's weights are never normalised. The MLX layout keeps kv_b_proj. */
void arch_deepseek_v2(struct model_desc *m, struct config *c, struct arena *a)
{
    struct mla_desc *d = describe(m, c, a, &(struct mla_rule){.n_context = 2048});
    keep_kv_b(m, d);
    read_mlp_bias(m, c);
    read_experts(
        m, c, a,
        &(struct routing){
            .n_expert = 64, .top_k = 6, .n_ff = 1407, .n_group = 1, .topk_group = 1, .n_shared = 2, .scale = 1});
    m->ignore_further_layers = true;
}

static const struct routing v3_routing = {.sigmoid = true,
                                          .n_expert = 256,
                                          .top_k = 8,
                                          .n_ff = 2048,
                                          .n_group = 8,
                                          .topk_group = 4,
                                          .n_shared = 1,
                                          .scale = 2.5f,
                                          .normalize = true,
                                          .first = 3};

/* DeepSeek-V3 (2024), Kimi K2 (2025). */
void arch_deepseek_v3(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a, &(struct mla_rule){.n_context = 4096});
    read_experts(m, c, a, &v3_routing);
    m->ignore_further_layers = true;
}

/* The language model of Kimi K2.5: DeepSeek-V3's. */
void arch_kimi_k25(struct model_desc *m, struct config *c, struct arena *a)
{
    static const char *const towers[] = {"*.rotary_emb.inv_freq",    "*vision_tower.*", "*vision_model.*",
                                         "*multi_modal_projector.*", "*mm_projector.*", NULL};
    arch_deepseek_v3(m, c, a);
    m->prefix = "language_model.";
    m->ignore = towers;
}

/* The lightning indexer; interleaved: of its rope. */
static void read_indexer(struct model_desc *m, struct config *c, struct mla_desc *d, bool interleaved)
{
    d->index_top = width(c, "index_topk");
    d->index_head = (int)config_int(c, "index_n_heads", 1, 1 << 14);
    d->index_dim = width(c, "index_head_dim");
    d->index_norm = (struct norm_desc){.kind = NORM_LAYER, .bias = true, .eps = 1e-6f};
    d->index_rope = m->n_rope;
    m->rope[m->n_rope] = m->rope[0];
    m->rope[m->n_rope++].interleaved = config_bool_or(c, "indexer_rope_interleave", interleaved);
    if (d->index_dim < d->rope_dim)
        config_fault(c, ERR_MISFIT, "index_head_dim", "is %d, at least qk_rope_head_dim (%d) is needed", d->index_dim,
                     d->rope_dim);
    if (!d->q_rank)
        config_fault(c, ERR_MISFIT, "q_lora_rank",
                     "is absent, but the indexer's queries are made from that bottleneck");
}

/* DeepSeek-V3.2 (2025): a lightning indexer picks the keys that a query sees. */
void arch_deepseek_v32(struct model_desc *m, struct config *c, struct arena *a)
{
    struct mla_desc *d = describe(m, c, a, &(struct mla_rule){.n_context = 163840});
    if (d)
        read_indexer(m, c, d, false);
    read_experts(m, c, a, &v3_routing);
    m->ignore_further_layers = true;
}

/* Whether layer i has an indexer of its own by indexer_types. */
static bool indexes(struct config *c, int i)
{
    const char *type = config_array_str(c, "indexer_types", i);
    bool        full = !strcmp(type, "full");
    if (!full && strcmp(type, "shared"))
        config_fault(c, ERR_UNSUPPORTED, "indexer_types", "has \"%s\" at %d; supported: full, shared", type, i);
    return full;
}

/* Layers that take over the choice of the layer before, by indexer_types, index_topk_pattern or index_topk_freq. */
static void share_indexers(struct model_desc *m, struct config *c, struct arena *a, const struct mla_desc *d)
{
    struct mla_desc *shared = arena_calloc(a, 1, sizeof *shared);
    int              n = config_array_len(c, "indexer_types");
    int              freq = (int)config_int_or(c, "index_topk_freq", 1, DESC_LAYERS_MAX, 1);
    int              offset = (int)config_int_or(c, "index_skip_topk_offset", 0, DESC_LAYERS_MAX, 2);
    if (config_has(c, "index_topk_pattern") && n < 0)
        config_fault(c, ERR_UNSUPPORTED, "index_topk_pattern", "is set; supported: indexer_types, index_topk_freq");
    if (n >= 0 && n != m->n_layer)
        config_fault(c, ERR_MISFIT, "indexer_types", "has %d entries, one for each of %d layers is needed", n,
                     m->n_layer);
    if (!shared)
        config_fault(c, ERR_NOMEM, "indexer_types", "could not be read: out of memory");
    if (!shared || (n >= 0 && n != m->n_layer))
        return;
    *shared = *d;
    shared->index_shared = true;
    for (int i = 0; i < m->n_layer; i++) {
        int  skipped = i - offset + 1 > 0 ? i - offset + 1 : 0;
        bool full = n >= 0 ? indexes(c, i) : skipped % freq == 0;
        if (i == 0 && !full)
            config_fault(c, ERR_MISFIT, "indexer_types", "has \"shared\" at 0, where no layer is before");
        if (!full)
            m->layer[i].mla = shared;
    }
}

/* GLM-5 (2026): V3.2 with interleaved rope in the indexer, whose choice several layers may share. */
void arch_glm_moe_dsa(struct model_desc *m, struct config *c, struct arena *a)
{
    struct routing   r = v3_routing;
    struct mla_desc *d = describe(m, c, a, &(struct mla_rule){.n_context = 202752});
    r.n_group = r.topk_group = 1;
    if (d) {
        read_indexer(m, c, d, true);
        share_indexers(m, c, a, d);
    }
    read_experts(m, c, a, &r);
    m->ignore_further_layers = true;
}

/* GLM-4.7-Flash (2026). */
void arch_glm4_moe_lite(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a, &(struct mla_rule){.n_context = 202752});
    read_experts(m, c, a,
                 &(struct routing){.sigmoid = true,
                                   .n_expert = 64,
                                   .top_k = 4,
                                   .n_ff = 1536,
                                   .n_group = 1,
                                   .topk_group = 1,
                                   .n_shared = 1,
                                   .scale = 1.8f,
                                   .normalize = true,
                                   .first = 1});
    m->ignore_further_layers = true;
}

/* Youtu-LLM (2025): dense. The MLX layout keeps kv_b_proj. */
void arch_youtu(struct model_desc *m, struct config *c, struct arena *a)
{
    struct mla_desc *d = describe(m, c, a, &(struct mla_rule){.n_context = 131072});
    if (!config_has(c, "tie_word_embeddings"))
        m->tie = TIE_YES;
    keep_kv_b(m, d);
}

/* The language model of Youtu-VL, whose files call it by its bare names or as a part of the whole. */
void arch_youtu_vl(struct model_desc *m, struct config *c, struct arena *a)
{
    static const struct layout_prefix whole[] = {{"language_model.model.", "model.language_model."},
                                                 {"language_model.model.", "model."},
                                                 {"language_model.lm_head", "lm_head"},
                                                 {0}};
    static const char *const towers[] = {"*.rotary_emb.inv_freq", "*siglip2.*", "*vision_tower.*", "*merger.*", NULL};
    arch_youtu(m, c, a);
    m->prefix = "language_model.";
    m->layout_prefix = whole;
    m->ignore = towers;
}

/* MiniCPM3 (2024): scaled embeddings, residuals and logits. The MLX layout keeps kv_b_proj. */
void arch_minicpm3(struct model_desc *m, struct config *c, struct arena *a)
{
    struct mla_desc *d = describe(m, c, a, &(struct mla_rule){.n_context = 32768, .halves = true, .whole_value = true});
    double           depth = config_num_or(c, "scale_depth", 1e-6, 1e6, 1.4), base = m->n_embd;
    if (config_has(c, "dim_model_base"))
        base = config_num(c, "dim_model_base", 1, WIDTH_MAX);
    else if (!config_is_null(c, "dim_model_base"))
        base = 256;
    if (!config_has(c, "tie_word_embeddings"))
        m->tie = TIE_YES;
    read_mlp_bias(m, c);
    m->embed_scale = (float)config_num_or(c, "scale_emb", 1e-6, 1e6, 12);
    m->residual_scale = (float)(config_is_null(c, "scale_depth") ? 1 : depth / sqrt((double)m->n_layer));
    m->logit_scale = (float)(base / m->n_embd);
    keep_kv_b(m, d);
}

/* Names of LongCat, whose layers have attention and feed-forward blocks twice. */
static void longcat_names(struct model_desc *m)
{
    static const struct {
        enum name   name;
        const char *text;
    } names[] = {
        {NAME_MIX_NORM, "input_layernorm.@"},
        {NAME_FF_NORM, "post_attention_layernorm.@"},
        {NAME_Q, "self_attn.@.q_proj"},
        {NAME_Q_A, "self_attn.@.q_a_proj"},
        {NAME_Q_A_NORM, "self_attn.@.q_a_layernorm"},
        {NAME_Q_B, "self_attn.@.q_b_proj"},
        {NAME_KV_A, "self_attn.@.kv_a_proj_with_mqa"},
        {NAME_KV_A_NORM, "self_attn.@.kv_a_layernorm"},
        {NAME_KV_B, "self_attn.@.kv_b_proj"},
        {NAME_EMBED_Q, "self_attn.@.embed_q"},
        {NAME_UNEMBED_OUT, "self_attn.@.unembed_out"},
        {NAME_O, "self_attn.@.o_proj"},
        {NAME_GATE, "mlps.@.gate_proj"},
        {NAME_UP, "mlps.@.up_proj"},
        {NAME_DOWN, "mlps.@.down_proj"},
        {NAME_ROUTER, "mlp.router.classifier"},
        {NAME_ROUTER_CORRECTION, "mlp.router.e_score_correction_bias"},
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        m->name[names[i].name] = names[i].text;
}

/* The experts of LongCat's shortcuts, some of which return their input. */
static const struct moe_desc *longcat_experts(struct config *c, struct arena *a)
{
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"n_routed_experts", 512, "moe_topk", 12, "expert_ffn_hidden_size", 2048});
    arch_need_word(c, "zero_expert_type", "identity");
    if (!e)
        return NULL;
    e->n_zero = (int)config_int_or(c, "zero_expert_num", 0, ROUTE_EXPERTS_MAX - e->n_expert, 256);
    e->correction = true;
    e->router_bias = config_bool_or(c, "router_bias", false);
    e->normalize = config_bool_or(c, "norm_topk_prob", false);
    e->sum_add = 1e-20f;
    e->scale = (float)config_num_or(c, "routed_scaling_factor", 1e-6, 1e6, 6);
    return e;
}

/* LongCat-Flash (2025): a layer is two of attention and feed-forward block, and experts that read what the first block reads
 * and are added after the second. Queries and latents are scaled to the width of the model. */
void arch_longcat_flash(struct model_desc *m, struct config *c, struct arena *a)
{
    const struct mla_rule rule = {.n_context = 131072, .theta = 1e7};
    struct mla_desc *d = read_frame(m, c, a, "num_layers", 2, rule.n_context) ? read_attention(m, c, a, &rule) : NULL;
    struct ff_desc   ff = {.n_ff = (int)config_int(c, "ffn_hidden_size", 1, 1 << 24),
                           .act = arch_act(c, "hidden_act", "silu")};
    const struct moe_desc *e = longcat_experts(c, a);
    m->layout = layout;
    longcat_names(m);
    if (!d || !e)
        return;
    ff.act = e->act;
    if (d->q_rank && config_bool_or(c, "mla_scale_q_lora", true))
        d->scale *= sqrtf((float)m->n_embd / (float)d->q_rank);
    if (config_bool_or(c, "mla_scale_kv_lora", true))
        d->kv_scale = sqrtf((float)m->n_embd / (float)d->kv_rank);
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i] = (struct layer_desc){.mix = MIX_MLA,
                                          .ff = FF_GATED,
                                          .shortcut = i % 2 ? FF_NONE : FF_MOE,
                                          .mix_norm = m->norm,
                                          .ff_norm = m->norm,
                                          .mla = d,
                                          .ffn = ff,
                                          .moe = e};
}

/* LongCat-Flash with embeddings of n-grams beside those of tokens. */
void arch_longcat_flash_ngram(struct model_desc *m, struct config *c, struct arena *a)
{
    static const struct layout_rule words[] = {
        {.param = "model.ngram_embeddings.word_embeddings", .from = "model.embed_tokens"}, LATENT_LAYOUT, {0}};
    arch_longcat_flash(m, c, a);
    int split = (int)config_int_or(c, "emb_split_num", 1, 64, 4),
        n = (int)config_int_or(c, "emb_neighbor_num", 2, 16, 4);
    int64_t ratio = config_int_or(c, "ngram_vocab_size_ratio", 1, 1 << 10, 78);
    m->ngram = (struct ngram_desc){split * (n - 1), split, ratio * m->n_vocab + 1};
    m->name[NAME_EMBED] = "model.ngram_embeddings.word_embeddings";
    m->layout = words;
    if (m->ngram.n_table > m->n_embd)
        config_fault(c, ERR_MISFIT, "emb_split_num",
                     "is %d with emb_neighbor_num %d: %d tables are more than hidden_size (%d)", split, n,
                     m->ngram.n_table, m->n_embd);
    if (m->ngram.first + 2 * (int64_t)m->ngram.n_table > INT32_MAX)
        config_fault(c, ERR_MISFIT, "ngram_vocab_size_ratio", "is %lld: tables of %lld rows are more than %d",
                     (long long)ratio, (long long)m->ngram.first, INT32_MAX);
}
