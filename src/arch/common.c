/* What families share: windows, activations; contracts in family.h. Rope: rope.c. */
#include <string.h>

#include "arch/family.h"

int arch_window(struct config *c, int fallback)
{
    return config_is_null(c, "sliding_window") ? 0 : (int)config_int_or(c, "sliding_window", 1, 1 << 30, fallback);
}

int arch_pattern(struct config *c, int fallback)
{
    const char *key = config_has(c, "sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
    return config_array_len(c, "layer_types") >= 0 ? fallback
                                                   : (int)config_int_or(c, key, 1, DESC_LAYERS_MAX, fallback);
}

bool arch_slides(const struct model_desc *m, struct config *c, int i, bool fallback)
{
    int n = config_array_len(c, "layer_types");
    if (n < 0)
        return fallback;
    if (n != m->n_layer) {
        if (i == 0)
            config_fault(c, ERR_MISFIT, "layer_types", "has %d entries, num_hidden_layers (%d) are needed", n,
                         m->n_layer);
        return false;
    }
    const char *type = config_array_str(c, "layer_types", i);
    bool        slides = !strcmp(type, "sliding_attention");
    if (!slides && strcmp(type, "full_attention"))
        config_fault(c, ERR_UNSUPPORTED, "layer_types",
                     "has \"%s\" at %d; supported: full_attention, sliding_attention", type, i);
    return slides;
}

void arch_windows(struct model_desc *m, struct config *c, int window, int from)
{
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].attn.window = arch_slides(m, c, i, i >= from) ? window : 0;
}

void arch_windows_every(struct model_desc *m, struct config *c, int window, int every)
{
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].attn.window = arch_slides(m, c, i, (i + 1) % every != 0) ? window : 0;
}

void arch_rope_of_windows(struct model_desc *m, struct config *c, struct arena *a, const struct rope_rule *rule)
{
    int rope = -1;
    for (int i = 0; i < m->n_layer; i++) {
        struct attn_desc *attn = &m->layer[i].attn;
        if (!attn->window)
            continue;
        if (rope < 0)
            rope = arch_add_rope(m, c, a, attn->head_dim, rule);
        attn->rope = rope;
    }
}

float arch_softcap(struct config *c, const char *key, float fallback)
{
    return config_is_null(c, key) ? 0 : (float)config_num_or(c, key, 1e-3, 1e6, fallback);
}

void arch_wrapped(struct model_desc *m)
{
    static const struct layout_prefix newer[] = {
        {"language_model.model.", "model.language_model."}, {"language_model.lm_head", "lm_head"}, {0}};
    static const char *const towers[] = {"*.rotary_emb.inv_freq", "*vision_tower.*", "*multi_modal_projector.*",
                                         "*lm_head.*", /* redundant beside tied embeddings */
                                         NULL};
    static const char *const towers_untied[] = {"*.rotary_emb.inv_freq", "*vision_tower.*", "*multi_modal_projector.*",
                                                NULL};
    m->prefix = "language_model.";
    m->layout_prefix = newer;
    m->ignore = m->tie == TIE_YES ? towers : towers_untied;
}

void arch_need_silu(struct config *c, const char *key)
{
    const char *act = config_str_or(c, key, "silu");
    if (strcmp(act, "silu") && strcmp(act, "swish"))
        config_fault(c, ERR_UNSUPPORTED, key, "is \"%s\"; supported: silu", act);
}
