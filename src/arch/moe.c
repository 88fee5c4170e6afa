/* Families whose feed-forward blocks are mixtures of experts beside the attention of their dense kin. */
#include "arch/family.h"

static const struct layout_rule mixtral_layout[] = {
    {.param = "*.switch_mlp.gate_proj", .from = "*.experts.#.w1"},
    {.param = "*.switch_mlp.down_proj", .from = "*.experts.#.w2"},
    {.param = "*.switch_mlp.up_proj", .from = "*.experts.#.w3"},
    {0},
};

static void block_sparse_names(struct model_desc *m)
{
    m->name[NAME_ROUTER] = "block_sparse_moe.gate";
    m->name[NAME_ROUTER_CORRECTION] = "block_sparse_moe.e_score_correction_bias";
    m->name[NAME_EXPERT_GATE] = "block_sparse_moe.switch_mlp.gate_proj";
    m->name[NAME_EXPERT_UP] = "block_sparse_moe.switch_mlp.up_proj";
    m->name[NAME_EXPERT_DOWN] = "block_sparse_moe.switch_mlp.down_proj";
    m->layout = mixtral_layout;
}

/* Mixtral (Jiang et al. 2024): Mistral with experts in every layer, weighted by the softmax over those chosen. */
void arch_mixtral(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_mistral(m, c, a);
    struct moe_desc *e = arch_experts(
        c, a, &(struct expert_fields){"num_local_experts", 8, "num_experts_per_tok", 2, "intermediate_size", 14336});
    block_sparse_names(m);
    if (e)
        e->score = ROUTE_TOP_SOFTMAX;
    for (int i = 0; i < m->n_layer; i++)
        arch_use_experts(m, i, e);
}

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
