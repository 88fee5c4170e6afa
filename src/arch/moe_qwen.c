/* Qwen with experts. */
#include "arch/family.h"

static int window(struct config *c)
{
    return config_bool_or(c, "use_sliding_window", false) ? arch_window(c, 4096) : 0;
}

/* Qwen 1.5 and 2 with experts: the softmax over all experts, and a shared block behind a gate. With a window, every other
 * layer before max_window_layers has it. */
void arch_qwen2_moe(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 16, .n_context = 32768});
    int64_t until = config_int_or(c, "max_window_layers", 0, 1 << 20, 28);
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.o_bias = false;
        m->layer[i].attn.qkv_bias = config_bool_or(c, "qkv_bias", true);
        m->layer[i].attn.window = arch_slides(m, c, i, i % 2 == 0 && i < until) ? window(c) : 0;
    }
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_experts", 60, "num_experts_per_tok", 4, "moe_intermediate_size", 1408});
    if (e) {
        e->normalize = config_bool_or(c, "norm_topk_prob", false);
        arch_gated_shared_expert(m, e, c, 5632);
    }
    m->layout = arch_experts_layout;
    arch_experts_by_step(m, c, e);
}

/* Qwen 3 with experts: Qwen 3's attention, with a window in all layers or none; the softmax over all experts. */
void arch_qwen3_moe(struct model_desc *m, struct config *c, struct arena *a)
{
    const char *n = arch_either(c, "num_local_experts", "num_experts");
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 4, .n_context = 32768});
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.qk_norm = m->norm;
        m->layer[i].attn.window = window(c);
    }
    struct moe_desc *e =
        arch_experts(c, a, &(struct expert_fields){n, 128, "num_experts_per_tok", 8, "moe_intermediate_size", 768});
    if (e)
        e->normalize = config_bool_or(c, "norm_topk_prob", false);
    m->layout = arch_experts_layout;
    arch_experts_by_step(m, c, e);
}
