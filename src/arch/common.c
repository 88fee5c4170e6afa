/* What families share: windows, activations; contracts in family.h. Rope: rope.c. */
#include <stdio.h>
#include <string.h>

#include "arch/family.h"
#include "base/num.h"

int arch_window(struct config *c, int fallback)
{
    return config_is_null(c, "sliding_window") ? 0 : (int)config_int_or(c, "sliding_window", 1, 1 << 30, fallback);
}

int arch_pattern(struct config *c, int fallback)
{
    const char *key = arch_either(c, "_sliding_window_pattern", "sliding_window_pattern");
    return config_array_len(c, "layer_types") >= 0 ? fallback
                                                   : (int)config_int_or(c, key, 1, DESC_LAYERS_MAX, fallback);
}

bool arch_lists_layer(const struct model_desc *m, struct config *c, const char *key, int i, int first)
{
    int  n = config_array_len(c, key);
    bool listed = false;
    if (n > m->n_layer) {
        if (i == 0)
            config_fault(c, ERR_MISFIT, key, "has %d entries, at most num_hidden_layers (%d) are needed", n,
                         m->n_layer);
        return false;
    }
    for (int k = 0; k < n; k++)
        listed |= config_array_int(c, key, k, first, m->n_layer - 1 + first) == i + first;
    return listed;
}

bool arch_has_layer_list(const struct model_desc *m, struct config *c, const char *key)
{
    int n = config_array_len(c, key);
    if (n >= 0 && n != m->n_layer)
        config_fault(c, ERR_MISFIT, key, "has %d entries, num_hidden_layers (%d) are needed", n, m->n_layer);
    return n == m->n_layer;
}

bool arch_attends(const struct model_desc *m, struct config *c, int i, const char *other, bool fallback)
{
    if (!arch_has_layer_list(m, c, "layer_types"))
        return fallback;
    const char *type = config_array_str(c, "layer_types", i);
    bool        full = !strcmp(type, "full_attention");
    if (!full && strcmp(type, other))
        config_fault(c, ERR_UNSUPPORTED, "layer_types", "has \"%s\" at %d; supported: full_attention, %s", type, i,
                     other);
    return full;
}

bool arch_slides(const struct model_desc *m, struct config *c, int i, bool fallback)
{
    return !arch_attends(m, c, i, "sliding_attention", !fallback);
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

void arch_rope_in_windows(struct model_desc *m)
{
    for (int i = 0; i < m->n_layer; i++)
        if (!m->layer[i].attn.window)
            m->layer[i].attn.rope = -1;
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
    static const char *const towers[] = {"*.rotary_emb.inv_freq", "*vision_tower.*", "*multi_modal_projector.*", NULL};
    m->prefix = "language_model.";
    m->layout_prefix = newer;
    m->ignore = towers;
}

const char *arch_either(struct config *c, const char *key, const char *newer)
{
    return config_has(c, newer) ? newer : key;
}

int arch_number(struct config *c, const char *key, int64_t hi, int fallback)
{
    return (int)(fallback ? config_int_or(c, key, 1, hi, fallback) : config_int(c, key, 1, hi));
}

void arch_need_bool(struct config *c, const char *key, bool only)
{
    static const char *const word[] = {"false", "true"};
    if (config_bool_or(c, key, only) != only)
        config_fault(c, ERR_UNSUPPORTED, key, "is %s; supported: %s", word[!only], word[only]);
}

void arch_need_word(struct config *c, const char *key, const char *only)
{
    const char *word = config_str_or(c, key, only);
    if (strcmp(word, only))
        config_fault(c, ERR_UNSUPPORTED, key, "is \"%s\"; supported: %s", word, only);
}

enum act_kind arch_act(struct config *c, const char *key, const char *fallback)
{
    static const struct {
        const char   *name;
        enum act_kind kind;
    } acts[] = {
        {"silu", ACT_SILU},
        {"swish", ACT_SILU},
        {"gelu", ACT_GELU},
        {"gelu_python", ACT_GELU},
        {"gelu_new", ACT_GELU_TANH},
        {"gelu_fast", ACT_GELU_TANH},
        {"gelu_accurate", ACT_GELU_TANH},
        {"gelu_pytorch_tanh", ACT_GELU_TANH},
        {"gelu_python_tanh", ACT_GELU_TANH},
        {"quick_gelu", ACT_GELU_QUICK},
        {"relu", ACT_RELU},
        {"relu2", ACT_RELU2},
        {"sigmoid", ACT_SIGMOID},
        {"tanh", ACT_TANH},
        {"xielu", ACT_XIELU},
    };
    const char *act = config_str_or(c, key, fallback);
    char        all[256] = "";
    size_t      n = 0;
    for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
        if (!strcmp(act, acts[i].name))
            return acts[i].kind;
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", n ? ", " : "", acts[i].name);
    }
    config_fault(c, ERR_UNSUPPORTED, key, "is \"%s\"; supported: %s", act, all);
    return ACT_SILU;
}

void arch_layer_norms(struct model_desc *m, bool bias)
{
    m->norm.kind = NORM_LAYER;
    m->norm.bias = bias;
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].mix_norm = m->layer[i].ff_norm = m->norm;
}

const char *const arch_ignored_masks[] = {
    "*.attn.bias", "*.attn.masked_bias", "*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq", NULL};
