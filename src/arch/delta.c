/* Families of gated delta nets: Qwen3-Next and Qwen 3.5. Three of four layers have a delta net in attention's place; the
 * others attend with a gate and rope over a quarter of the head.
 *
 * The original files hold norms as w where the model multiplies by 1 + w; the MLX layout holds 1 + w under the same names. A
 * convolution that is not transposed yet tells which of the two a file is. */
#include <string.h>

#include "arch/family.h"

#define CONV_MARK "*.linear_attn.conv1d.weight"

#define NORMS_LAYOUT                                                                                                   \
    {.param = "*.input_layernorm", .marker = CONV_MARK, .plus = 1},                                                    \
        {.param = "*.post_attention_layernorm", .marker = CONV_MARK, .plus = 1},                                       \
        {.param = "*model.norm", .marker = CONV_MARK, .plus = 1},                                                      \
        {.param = "*.q_norm", .marker = CONV_MARK, .plus = 1},                                                         \
    {                                                                                                                  \
        .param = "*.k_norm", .marker = CONV_MARK, .plus = 1                                                            \
    }

static const struct layout_rule layout[] = {NORMS_LAYOUT, EXPERTS_LAYOUT, {0}};

/* The language model of Qwen 3.5 in the files of the whole model, or alone. */
static const struct layout_prefix wrapped[] = {
    {"language_model.model.", "model.language_model."}, {"language_model.", ""}, {0}};

static const char *const ignored[] = {"*mtp.*", "*visual.*", "vision_tower.*", "*.rotary_emb.inv_freq", NULL};

/* What the families differ in. */
struct delta_rule {
    int  n_kv_head, n_ff; /* when absent */
    bool fused;
};

/* The delta net that all layers of the kind have; NULL when out of memory. */
static struct delta_desc *read_delta(struct model_desc *m, struct config *c, struct arena *a, bool fused)
{
    struct delta_desc *t = arena_calloc(a, 1, sizeof *t);
    if (!t) {
        config_fault(c, ERR_NOMEM, "linear_num_value_heads", "could not be read: out of memory");
        return NULL;
    }
    arch_need_silu(c, "hidden_act");
    *t = (struct delta_desc){.n_k_head = (int)config_int_or(c, "linear_num_key_heads", 1, 1 << 14, 16),
                             .n_head = (int)config_int_or(c, "linear_num_value_heads", 1, 1 << 14, 32),
                             .k_dim = (int)config_int_or(c, "linear_key_head_dim", 1, DELTA_K_DIM_MAX, 128),
                             .v_dim = (int)config_int_or(c, "linear_value_head_dim", 1, 1 << 16, 128),
                             .conv = (int)config_int_or(c, "linear_conv_kernel_dim", 2, CONV_WIDTH_MAX, 4),
                             .fused = fused,
                             .norm = m->norm};
    if (t->n_head % t->n_k_head)
        config_fault(c, ERR_MISFIT, "linear_num_value_heads",
                     "is %d, a multiple of linear_num_key_heads (%d) is needed", t->n_head, t->n_k_head);
    return t;
}

static void describe(struct model_desc *m, struct config *c, struct arena *a, const struct delta_rule *rule)
{
    arch_dense(m, c, a,
               &(struct dense_rule){.n_ff = rule->n_ff,
                                    .head_dim = 256,
                                    .n_kv_head = rule->n_kv_head,
                                    .n_context = 32768,
                                    .rope = {.partial = 0.25}});
    struct delta_desc *t = read_delta(m, c, a, rule->fused);
    int                every = (int)config_int_or(c, "full_attention_interval", 1, 1 << 20, 4);
    m->layout = layout;
    m->ignore = ignored;
    for (int i = 0; i < m->n_layer; i++) {
        struct layer_desc *l = &m->layer[i];
        l->attn.gate = GATE_IN_Q;
        l->attn.qk_norm = m->norm;
        l->delta = t;
        if (!arch_attends(m, c, i, "linear_attention", (i + 1) % every == 0))
            l->mix = MIX_DELTA;
    }
}

/* The softmax over all experts, and a shared one behind a gate. */
static void experts(struct model_desc *m, struct config *c, struct arena *a, int n, int k)
{
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_experts", n, "num_experts_per_tok", k, "moe_intermediate_size", 512});
    if (e) {
        e->normalize = config_bool_or(c, "norm_topk_prob", true);
        arch_gated_shared_expert(m, e, c, 512);
    }
    arch_experts_by_step(m, c, e);
}

/* Qwen3-Next (2025). */
void arch_qwen3_next(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a, &(struct delta_rule){.n_kv_head = 2, .n_ff = 5632, .fused = true});
    experts(m, c, a, 512, 10);
}

static void wrap(struct model_desc *m)
{
    m->prefix = "language_model.";
    m->layout_prefix = wrapped;
}

/* Qwen 3.5 (2026): the projections of the delta net apart, a dense feed-forward block. */
void arch_qwen3_5(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a, &(struct delta_rule){.n_kv_head = 4});
    wrap(m);
}

/* The same with experts in all layers. */
void arch_qwen3_5_moe(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a, &(struct delta_rule){.n_kv_head = 2, .n_ff = 1});
    experts(m, c, a, 256, 8);
    wrap(m);
}
