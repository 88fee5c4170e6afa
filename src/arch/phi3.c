/* Phi 3 and 4 (Microsoft 2024): Llama with q, k and v, and gate and up, as one matrix each; part of a head may rotate, by
 * other factors for prompts beyond the original context. */
#include "arch/family.h"

void arch_phi3(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a,
               &(struct dense_rule){.n_context = 4096, .eps = 1e-5, .rope = {.partial = 1, .original_context = 4096}});
    arch_windows(m, c, arch_window(c, 0), 0);
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.qkv = QKV_ROWS;
        m->layer[i].ffn.fused = true;
    }
}
