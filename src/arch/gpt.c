/* The GPT line: LayerNorms with biases, feed-forward blocks without a gate, biases everywhere; q, k and v are one matrix.
 *
 * GPT-2 and BigCode have embeddings of positions, which are all positions that there are, and tied heads; GPT-NeoX has a rope
 * and attention and feed-forward block side by side. */
#include "arch/family.h"
#include "base/num.h"

/* Attention over the fused matrix, and the names of the layers. */
static void gpt_layers(struct model_desc *m, struct config *c, const struct attn_desc *attn, const struct ff_desc *ff)
{
    m->norm = (struct norm_desc){
        .kind = NORM_LAYER, .bias = true, .eps = (float)config_num_or(c, "layer_norm_epsilon", 0, 1, 1e-5)};
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i] = (struct layer_desc){
            .mix = MIX_ATTN, .ff = FF_PLAIN, .mix_norm = m->norm, .ff_norm = m->norm, .attn = *attn, .ffn = *ff};
        if (config_bool_or(c, "scale_attn_by_inverse_layer_idx", false))
            m->layer[i].attn.scale /= (float)(i + 1);
    }
}

static void gpt_names(struct model_desc *m, const char *embed, const char *position, const char *layer,
                      const char *norm)
{
    m->name[NAME_EMBED] = embed;
    m->name[NAME_POSITION] = position;
    m->name[NAME_LAYER] = layer;
    m->name[NAME_NORM] = norm;
    m->name[NAME_MIX_NORM] = "ln_1";
    m->name[NAME_FF_NORM] = "ln_2";
    m->name[NAME_QKV] = "attn.c_attn";
    m->name[NAME_O] = "attn.c_proj";
    m->name[NAME_UP] = "mlp.c_fc";
    m->name[NAME_DOWN] = "mlp.c_proj";
}

static void describe(struct model_desc *m, struct config *c, struct arena *a, const char *act, bool multi_query,
                     enum qkv_form form)
{
    m->n_embd = (int)config_int(c, "n_embd", 1, 1 << 20);
    m->n_vocab = (int)config_int(c, "vocab_size", 1, 1 << 24);
    m->n_position = config_int_or(c, "n_positions", 1, 1 << 24, 1024);
    m->n_context = m->n_position;
    m->tie = arch_tie(c);
    int n_head = (int)config_int(c, "n_head", 1, 1 << 14);
    if (m->n_embd % n_head)
        config_fault(c, ERR_MISFIT, "n_head", "is %d, a divisor of n_embd (%d) is needed", n_head, m->n_embd);
    arch_need_bool(c, "add_cross_attention", false);
    struct attn_desc attn = {.n_head = n_head,
                             .n_kv_head = multi_query ? 1 : n_head,
                             .head_dim = MAX(m->n_embd / n_head, 1),
                             .qkv = form,
                             .qkv_bias = true,
                             .o_bias = true,
                             .rope = -1,
                             .scale = 1};
    if (config_bool_or(c, "scale_attn_weights", true))
        attn.scale = (float)(1 / __builtin_sqrt(attn.head_dim));
    struct ff_desc ff = {.n_ff = (int)config_int_or(c, "n_inner", 1, 1 << 24, 4 * (int64_t)m->n_embd),
                         .bias = true,
                         .act = arch_act(c, "activation_function", act)};
    if (arch_make_layers(m, c, a, "n_layer"))
        gpt_layers(m, c, &attn, &ff);
}

/* GPT-2 (Radford et al. 2019). The original files hold matrices as [in, out], with or without "transformer." before the
 * names. */
void arch_gpt2(struct model_desc *m, struct config *c, struct arena *a)
{
    static const struct layout_rule layout[] = {
        {.param = "model.h.*c_attn", .from = "h.*c_attn", .transposed = true},
        {.param = "model.h.*c_attn", .from = "transformer.h.*c_attn", .transposed = true},
        {.param = "model.h.*c_proj", .from = "h.*c_proj", .transposed = true},
        {.param = "model.h.*c_proj", .from = "transformer.h.*c_proj", .transposed = true},
        {.param = "model.h.*c_fc", .from = "h.*c_fc", .transposed = true},
        {.param = "model.h.*c_fc", .from = "transformer.h.*c_fc", .transposed = true},
        {.param = "model.*", .from = "*"},
        {.param = "model.*", .from = "transformer.*"},
        {0},
    };
    describe(m, c, a, "gelu_new", false, QKV_ROWS);
    gpt_names(m, "model.wte", "model.wpe", "model.h.%d.", "model.ln_f");
    m->layout = layout;
    m->ignore = arch_ignored_masks;
}

/* SantaCoder, StarCoder (Li et al. 2023): GPT-2 whose queries share one key and value head. */
void arch_gpt_bigcode(struct model_desc *m, struct config *c, struct arena *a)
{
    bool multi_query = config_bool_or(c, "multi_query", true);
    describe(m, c, a, "gelu_pytorch_tanh", multi_query, multi_query ? QKV_ROWS : QKV_GROUPS);
    gpt_names(m, "transformer.wte", "transformer.wpe", "transformer.h.%d.", "transformer.ln_f");
    m->ignore = arch_ignored_masks;
}

/* GPT-NeoX, Pythia (Black et al. 2022): q, k and v stand head by head. */
void arch_gpt_neox(struct model_desc *m, struct config *c, struct arena *a)
{
    static const struct layout_prefix original[] = {
        {"model.h.", "gpt_neox.layers."}, {"model.embed_out", "embed_out"}, {"model.", "gpt_neox."}, {0}};
    arch_dense(
        m, c, a,
        &(struct dense_rule){.eps_key = "layer_norm_eps",
                             .eps = 1e-5,
                             .act = "gelu",
                             .rope = {.theta_key = "rotary_emb_base", .partial = 0.25, .partial_key = "rotary_pct"}});
    arch_layer_norms(m, true);
    bool bias = config_bool_or(c, "attention_bias", true), parallel = config_bool_or(c, "use_parallel_residual", true);
    for (int i = 0; i < m->n_layer; i++) {
        struct layer_desc *l = &m->layer[i];
        l->wiring = parallel ? WIRE_PARALLEL : WIRE_SEQUENTIAL;
        l->ff = FF_PLAIN;
        l->ffn.bias = true;
        l->attn.qkv = QKV_GROUPS;
        l->attn.n_kv_head = l->attn.n_head;
        l->attn.qkv_bias = l->attn.o_bias = bias;
    }
    m->layout_prefix = original;
    m->ignore = arch_ignored_masks;
    m->name[NAME_EMBED] = "model.embed_in";
    m->name[NAME_LAYER] = "model.h.%d.";
    m->name[NAME_NORM] = "model.final_layer_norm";
    m->name[NAME_HEAD] = "model.embed_out";
    m->name[NAME_QKV] = "attention.query_key_value";
    m->name[NAME_O] = "attention.dense";
    m->name[NAME_UP] = "mlp.dense_h_to_4h";
    m->name[NAME_DOWN] = "mlp.dense_4h_to_h";
}
