/* Qwen with experts. */
#include "arch/family.h"

/* Qwen 1.5 and 2 with experts: the softmax over all experts, and a shared block behind a gate. */
void arch_qwen2_moe(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_qwen2(m, c, a);
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_experts", 60, "num_experts_per_tok", 4, "moe_intermediate_size", 1408});
    if (e) {
        e->normalize = config_bool_or(c, "norm_topk_prob", false);
        e->n_shared_ff = (int)config_int_or(c, "shared_expert_intermediate_size", 1, 1 << 24, 5632);
        e->shared_gate = true;
    }
    m->name[NAME_SHARED_GATE] = "mlp.shared_expert.gate_proj";
    m->name[NAME_SHARED_UP] = "mlp.shared_expert.up_proj";
    m->name[NAME_SHARED_DOWN] = "mlp.shared_expert.down_proj";
    m->layout = arch_experts_layout;
    arch_experts_by_step(m, c, e);
}

/* Qwen 3 with experts: Qwen 3's attention, the softmax over all experts. */
void arch_qwen3_moe(struct model_desc *m, struct config *c, struct arena *a)
{
    const char *n = config_has(c, "num_experts") ? "num_experts" : "num_local_experts";
    arch_qwen3(m, c, a);
    struct moe_desc *e =
        arch_experts(c, a, &(struct expert_fields){n, 128, "num_experts_per_tok", 8, "moe_intermediate_size", 768});
    if (e)
        e->normalize = config_bool_or(c, "norm_topk_prob", false);
    m->layout = arch_experts_layout;
    arch_experts_by_step(m, c, e);
}
