/* Command R (Cohere): attention and feed-forward block side by side behind one LayerNorm, ropes of neighbouring pairs, and
 * logits times a factor. */
#include "arch/family.h"

static void describe(struct model_desc *m, struct config *c, struct arena *a, const struct dense_rule *d)
{
    arch_dense(m, c, a, d);
    m->norm.kind = NORM_LAYER;
    m->norm.bias = config_bool_or(c, "layer_norm_bias", false);
    m->logit_scale = (float)config_num_or(c, "logit_scale", 1e-9, 1e9, 0.0625);
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].wiring = WIRE_PARALLEL;
        m->layer[i].mix_norm = m->norm;
        m->layer[i].ff_norm.kind = NORM_NONE;
    }
}

/* Command R, R+ (2024): use_qk_norm gives every head of q and k a LayerNorm with its own weights. */
void arch_cohere(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(
        m, c, a,
        &(struct dense_rule){
            .n_context = 8192, .eps_key = "layer_norm_eps", .eps = 1e-5, .rope = {.theta = 5e5, .interleaved = true}});
    for (int i = 0; i < m->n_layer && config_bool_or(c, "use_qk_norm", false); i++) {
        m->layer[i].attn.qk_norm = (struct norm_desc){.kind = NORM_LAYER, .eps = m->norm.eps};
        m->layer[i].attn.qk_norm_span = QK_HEADS;
    }
}

/* Command R7B, A (2025): of every four layers three see a window, with rope, and one all keys, without. */
void arch_cohere2(struct model_desc *m, struct config *c, struct arena *a)
{
    describe(m, c, a,
             &(struct dense_rule){
                 .n_context = 8192, .eps_key = "layer_norm_eps", .eps = 1e-5, .rope = {.interleaved = true}});
    arch_windows_every(m, c, arch_window(c, 4096), arch_pattern(c, 4));
    arch_rope_in_windows(m);
}
