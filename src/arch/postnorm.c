/* Families whose norms stand behind the blocks alone: OLMo 2 and 3, EXAONE 4. */
#include <string.h>

#include "arch/family.h"

static void norms_behind(struct model_desc *m, enum qk_norm_span span)
{
    for (int i = 0; i < m->n_layer; i++) {
        struct layer_desc *l = &m->layer[i];
        l->mix_post = l->ff_post = m->norm;
        l->mix_norm.kind = l->ff_norm.kind = NORM_NONE;
        l->attn.qk_norm = m->norm;
        l->attn.qk_norm_span = span;
    }
}

/* OLMo 2 (Ai2 2024): norms of q and k over all heads. */
void arch_olmo2(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.eps = 1e-5});
    norms_behind(m, QK_ALL);
}

/* OLMo 3 (Ai2 2025): OLMo 2 with windows on three of four layers, whose rope is never scaled. */
void arch_olmo3(struct model_desc *m, struct config *c, struct arena *a)
{
    const struct rope_rule local = {.theta = 5e5, .layer_type = "sliding_attention", .local = true};
    arch_dense(m, c, a, &(struct dense_rule){.eps = 1e-5, .rope = {.theta = 5e5, .layer_type = "full_attention"}});
    norms_behind(m, QK_ALL);
    arch_windows_every(m, c, arch_window(c, 4096), 4);
    arch_rope_of_windows(m, c, a, &local);
}

/* "LLLG": which layers are local and which global, the last one always global; or a number n: every n-th is global. */
static void exaone4_windows(struct model_desc *m, struct config *c, int window)
{
    const char *key = "sliding_window_pattern", *p;
    if (config_kind(c, key) != CONFIG_STR || config_has(c, "layer_types")) {
        arch_windows_every(m, c, window, arch_pattern(c, 4));
        return;
    }
    p = config_str_or(c, key, "");
    if (!*p || strspn(p, "LG") != strlen(p))
        config_fault(c, ERR_UNSUPPORTED, key, "is \"%s\", a word of L (local) and G (global) is needed", p);
    else
        for (int i = 0; i < m->n_layer - 1; i++)
            m->layer[i].attn.window = p[(size_t)i % strlen(p)] == 'L' ? window : 0;
}

/* EXAONE 4 (LG 2025): norms on q and k heads; where there are windows, the layers without one have no rope. */
void arch_exaone4(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 32, .eps = 1e-5});
    norms_behind(m, QK_HEAD);
    int window = arch_window(c, 4096);
    if (!window)
        return;
    exaone4_windows(m, c, window);
    arch_rope_in_windows(m);
}
