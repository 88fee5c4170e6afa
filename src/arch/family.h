/* Internal to src/arch: the family functions and what they share. */
#ifndef MLXCEL_ARCH_FAMILY_H
#define MLXCEL_ARCH_FAMILY_H

#include "arch/arch.h"

void arch_llama(struct model_desc *m, struct config *c, struct arena *a);
void arch_mistral(struct model_desc *m, struct config *c, struct arena *a);
void arch_mixtral(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen2(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen2_moe(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen3(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen3_moe(struct model_desc *m, struct config *c, struct arena *a);

/* Rope of the usual fields (rope_theta with rope_scaling, or rope_parameters) over `dims` features. Scalings that are not
 * built are refused by name. */
void arch_rope(struct rope_desc *r, struct config *c, int dims, double default_theta);
/* Sets window on the layers whose layer_types entry is "sliding_attention"; without layer_types on all layers >= from. */
void arch_windows(struct model_desc *m, struct config *c, int window, int from);
/* A fault unless the field is absent or one of SiLU's names. */
void arch_need_silu(struct config *c, const char *key);

/* ---- mixtures of experts ---- */

/* Where the numbers of experts, of those of a token and their width stand, and what they are when absent. */
struct expert_fields {
    const char *n;
    int         n_default;
    const char *k;
    int         k_default;
    const char *ff;
    int         ff_default;
};
/* Reads them into a description that is otherwise zero, but for scale = 1; NULL when out of memory, a fault. */
struct moe_desc *arch_experts(struct config *c, struct arena *a, const struct expert_fields *f);
/* n_group and topk_group. */
void arch_expert_groups(struct moe_desc *e, struct config *c, int n_group, int topk_group);
/* Layer i has experts (nothing when e is NULL). */
void arch_use_experts(struct model_desc *m, int i, const struct moe_desc *e);
/* Which layers have: by decoder_sparse_step and mlp_only_layers; by first_k_dense_replace and moe_layer_freq. */
void arch_experts_by_step(struct model_desc *m, struct config *c, const struct moe_desc *e);
void arch_experts_from(struct model_desc *m, struct config *c, const struct moe_desc *e, int first_default);
/* Original layouts: mlp.experts, one by one or fused. */
extern const struct layout_rule arch_experts_layout[];

#endif
