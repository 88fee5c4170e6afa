/* Internal to src/arch: the family functions and what they share. */
#ifndef MLXCEL_ARCH_FAMILY_H
#define MLXCEL_ARCH_FAMILY_H

#include "arch/arch.h"

void arch_llama(struct model_desc *m, struct config *c, struct arena *a);
void arch_mistral(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen2(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen3(struct model_desc *m, struct config *c, struct arena *a);

/* Rope of the usual fields (rope_theta with rope_scaling, or rope_parameters) over `dims` features. Scalings that are not
 * built are refused by name. */
void arch_rope(struct rope_desc *r, struct config *c, int dims, double default_theta);
/* Sets window on the layers whose layer_types entry is "sliding_attention"; without layer_types on all layers >= from. */
void arch_windows(struct model_desc *m, struct config *c, int window, int from);
/* A fault unless the field is absent or one of SiLU's names. */
void arch_need_silu(struct config *c, const char *key);

#endif
