/* What families share: rope fields, windows, activations; contracts in family.h. */
#include <string.h>

#include "arch/family.h"

static void scaling(struct rope_desc *r, struct config *c, const struct config_rope *f)
{
    struct config *s = f->fields;
    if (!strcmp(f->type, "default"))
        return;
    if (!strcmp(f->type, "linear")) {
        r->scaling = ROPE_LINEAR;
        r->factor = config_num(s, "factor", 1e-3, 1e6);
    } else if (!strcmp(f->type, "llama3")) {
        r->scaling = ROPE_LLAMA3;
        r->factor = config_num(s, "factor", 1e-3, 1e6);
        r->low_freq_factor = config_num(s, "low_freq_factor", 1e-3, 1e6);
        r->high_freq_factor = config_num(s, "high_freq_factor", 1e-3, 1e6);
        r->original_context = config_int_or(s, "original_max_position_embeddings", 1, (int64_t)1 << 31,
                                            config_int_or(c, "max_position_embeddings", 1, (int64_t)1 << 31, 8192));
        if (r->high_freq_factor <= r->low_freq_factor)
            config_fault(s, ERR_MISFIT, "high_freq_factor", "is %g, more than low_freq_factor (%g) is needed",
                         r->high_freq_factor, r->low_freq_factor);
    } else
        config_fault(s, ERR_UNSUPPORTED, "rope_type", "is \"%s\"; supported: default, linear, llama3", f->type);
}

void arch_rope(struct rope_desc *r, struct config *c, int dims, double default_theta)
{
    struct config_rope f = config_rope(c, default_theta, 1);
    *r = (struct rope_desc){
        .dims = dims, .theta = f.theta, .factor = 1, .interleaved = config_bool_or(c, "rope_traditional", false)};
    if (f.partial != 1)
        config_fault(c, ERR_UNSUPPORTED, "partial_rotary_factor", "is %g; this family rotates the whole head",
                     f.partial);
    if (f.fields)
        scaling(r, c, &f);
    if (dims % 2)
        config_fault(c, ERR_MISFIT, "head_dim", "is %d, an even number is needed (rotary pairs)", dims);
}

void arch_windows(struct model_desc *m, struct config *c, int window, int from)
{
    int n = config_array_len(c, "layer_types");
    if (n >= 0 && n != m->n_layer) {
        config_fault(c, ERR_MISFIT, "layer_types", "has %d entries, num_hidden_layers (%d) are needed", n, m->n_layer);
        return;
    }
    for (int i = 0; i < m->n_layer; i++) {
        const char *type = n < 0 ? NULL : config_array_str(c, "layer_types", i);
        bool        slides = type ? !strcmp(type, "sliding_attention") : i >= from;
        if (type && !slides && strcmp(type, "full_attention"))
            config_fault(c, ERR_UNSUPPORTED, "layer_types",
                         "has \"%s\" at %d; supported: full_attention, sliding_attention", type, i);
        m->layer[i].attn.window = slides ? window : 0;
    }
}

void arch_need_silu(struct config *c, const char *key)
{
    const char *act = config_str_or(c, key, "silu");
    if (strcmp(act, "silu") && strcmp(act, "swish"))
        config_fault(c, ERR_UNSUPPORTED, key, "is \"%s\"; supported: silu", act);
}
