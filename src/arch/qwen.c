/* Qwen 2 and 3, and MiMo. */
#include "arch/family.h"

/* Where use_sliding_window is set, layer_types or else max_window_layers says which layers see a window. */
static void windows(struct model_desc *m, struct config *c)
{
    if (config_bool_or(c, "use_sliding_window", false))
        arch_windows(m, c, arch_window(c, 4096), (int)config_int_or(c, "max_window_layers", 0, 1 << 20, 28));
}

static void qkv_biases(struct model_desc *m, bool has)
{
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].attn.qkv_bias = has;
        m->layer[i].attn.o_bias = false;
    }
}

/* Qwen 2 and 2.5: Llama with biases on q, k and v; use_sliding_window makes the layers from max_window_layers on see a window. */
void arch_qwen2(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 32, .n_context = 32768});
    qkv_biases(m, true);
    windows(m, c);
}

/* Qwen 3: Llama with an RMS norm on every q and k head before rope; head_dim is explicit. */
void arch_qwen3(struct model_desc *m, struct config *c, struct arena *a)
{
    arch_dense(m, c, a, &(struct dense_rule){.head_dim = 128, .n_kv_head = 32, .n_context = 32768});
    for (int i = 0; i < m->n_layer; i++)
        m->layer[i].attn.qk_norm = m->norm;
    windows(m, c);
}

/* MiMo (Xiaomi 2025): Qwen 2 with layers that predict further tokens, which are not run. */
void arch_mimo(struct model_desc *m, struct config *c, struct arena *a)
{
    static const char *const ignored[] = {"*.rotary_emb.inv_freq", "model.mtp_layers.*", NULL};
    arch_dense(m, c, a, &(struct dense_rule){.n_kv_head = 32, .n_context = 32768});
    qkv_biases(m, config_bool_or(c, "attention_bias", true));
    windows(m, c);
    m->ignore = ignored;
}
