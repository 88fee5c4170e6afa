/* Internal to src/arch: the family functions and what they share. */
#ifndef MLXCEL_ARCH_FAMILY_H
#define MLXCEL_ARCH_FAMILY_H

#include "arch/arch.h"

void arch_afmoe(struct model_desc *m, struct config *c, struct arena *a);
void arch_apertus(struct model_desc *m, struct config *c, struct arena *a);
void arch_bailing_moe(struct model_desc *m, struct config *c, struct arena *a);
void arch_bamba(struct model_desc *m, struct config *c, struct arena *a);
void arch_cohere(struct model_desc *m, struct config *c, struct arena *a);
void arch_cohere2(struct model_desc *m, struct config *c, struct arena *a);
void arch_deepseek(struct model_desc *m, struct config *c, struct arena *a);
void arch_deepseek_v2(struct model_desc *m, struct config *c, struct arena *a);
void arch_deepseek_v3(struct model_desc *m, struct config *c, struct arena *a);
void arch_deepseek_v32(struct model_desc *m, struct config *c, struct arena *a);
void arch_dots1(struct model_desc *m, struct config *c, struct arena *a);
void arch_ernie4_5(struct model_desc *m, struct config *c, struct arena *a);
void arch_ernie4_5_moe(struct model_desc *m, struct config *c, struct arena *a);
void arch_exaone4(struct model_desc *m, struct config *c, struct arena *a);
void arch_exaone_moe(struct model_desc *m, struct config *c, struct arena *a);
void arch_falcon_h1(struct model_desc *m, struct config *c, struct arena *a);
void arch_falcon_mamba(struct model_desc *m, struct config *c, struct arena *a);
void arch_gemma(struct model_desc *m, struct config *c, struct arena *a);
void arch_gemma2(struct model_desc *m, struct config *c, struct arena *a);
void arch_gemma3(struct model_desc *m, struct config *c, struct arena *a);
void arch_gemma3_text(struct model_desc *m, struct config *c, struct arena *a);
void arch_glm(struct model_desc *m, struct config *c, struct arena *a);
void arch_glm4(struct model_desc *m, struct config *c, struct arena *a);
void arch_glm4_moe(struct model_desc *m, struct config *c, struct arena *a);
void arch_glm4_moe_lite(struct model_desc *m, struct config *c, struct arena *a);
void arch_glm_moe_dsa(struct model_desc *m, struct config *c, struct arena *a);
void arch_gpt2(struct model_desc *m, struct config *c, struct arena *a);
void arch_gpt_bigcode(struct model_desc *m, struct config *c, struct arena *a);
void arch_gpt_neox(struct model_desc *m, struct config *c, struct arena *a);
void arch_gpt_oss(struct model_desc *m, struct config *c, struct arena *a);
void arch_granite(struct model_desc *m, struct config *c, struct arena *a);
void arch_granitemoe(struct model_desc *m, struct config *c, struct arena *a);
void arch_granitemoehybrid(struct model_desc *m, struct config *c, struct arena *a);
void arch_helium(struct model_desc *m, struct config *c, struct arena *a);
void arch_hunyuan_v1_dense(struct model_desc *m, struct config *c, struct arena *a);
void arch_internlm2(struct model_desc *m, struct config *c, struct arena *a);
void arch_internlm3(struct model_desc *m, struct config *c, struct arena *a);
void arch_jamba(struct model_desc *m, struct config *c, struct arena *a);
void arch_kimi_k25(struct model_desc *m, struct config *c, struct arena *a);
void arch_lfm2(struct model_desc *m, struct config *c, struct arena *a);
void arch_lfm2_moe(struct model_desc *m, struct config *c, struct arena *a);
void arch_kimi_linear(struct model_desc *m, struct config *c, struct arena *a);
void arch_llama(struct model_desc *m, struct config *c, struct arena *a);
void arch_longcat_flash(struct model_desc *m, struct config *c, struct arena *a);
void arch_longcat_flash_ngram(struct model_desc *m, struct config *c, struct arena *a);
void arch_mamba(struct model_desc *m, struct config *c, struct arena *a);
void arch_mamba2(struct model_desc *m, struct config *c, struct arena *a);
void arch_mimo(struct model_desc *m, struct config *c, struct arena *a);
void arch_minicpm(struct model_desc *m, struct config *c, struct arena *a);
void arch_minicpm3(struct model_desc *m, struct config *c, struct arena *a);
void arch_minimax_m2(struct model_desc *m, struct config *c, struct arena *a);
void arch_ministral3(struct model_desc *m, struct config *c, struct arena *a);
void arch_mistral(struct model_desc *m, struct config *c, struct arena *a);
void arch_mistral3(struct model_desc *m, struct config *c, struct arena *a);
void arch_mixtral(struct model_desc *m, struct config *c, struct arena *a);
void arch_nemotron(struct model_desc *m, struct config *c, struct arena *a);
void arch_nemotron_h(struct model_desc *m, struct config *c, struct arena *a);
void arch_olmo(struct model_desc *m, struct config *c, struct arena *a);
void arch_olmo2(struct model_desc *m, struct config *c, struct arena *a);
void arch_olmo3(struct model_desc *m, struct config *c, struct arena *a);
void arch_olmoe(struct model_desc *m, struct config *c, struct arena *a);
void arch_phi(struct model_desc *m, struct config *c, struct arena *a);
void arch_phi3(struct model_desc *m, struct config *c, struct arena *a);
void arch_phimoe(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen2(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen2_moe(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen3(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen3_5(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen3_5_moe(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen3_moe(struct model_desc *m, struct config *c, struct arena *a);
void arch_qwen3_next(struct model_desc *m, struct config *c, struct arena *a);
void arch_seed_oss(struct model_desc *m, struct config *c, struct arena *a);
void arch_smollm3(struct model_desc *m, struct config *c, struct arena *a);
void arch_solar_open(struct model_desc *m, struct config *c, struct arena *a);
void arch_stablelm(struct model_desc *m, struct config *c, struct arena *a);
void arch_starcoder2(struct model_desc *m, struct config *c, struct arena *a);
void arch_youtu(struct model_desc *m, struct config *c, struct arena *a);
void arch_youtu_vl(struct model_desc *m, struct config *c, struct arena *a);

/* How a family's rope differs from Llama's; all zero: not at all. */
struct rope_rule {
    double      theta;       /* when absent; 0: 10000 */
    const char *theta_key;   /* where older files have it instead of rope_theta */
    double      partial;     /* share of the head that rotates, when absent; 0: always the whole head */
    const char *partial_key; /* where older files have it instead of partial_rotary_factor */
    bool        interleaved; /* pairs are neighbours */
    const char *dim_key;     /* field that says how wide a head is; NULL: head_dim */
    const char *layer_type;  /* whose object counts where rope_parameters has one per layer type; NULL: it has not */
    /* Where one object counts for all, it is for other layers: these are unscaled, with the base of theta_key (or, without
     * one, the others'). */
    bool local;
    /* original_max_position_embeddings when absent beside the object, whatever stands in it; 0: what stands in it. */
    int64_t original_context;
};
/* Adds the rope of the usual fields (rope_theta with rope_scaling, or rope_parameters) over heads of head_dim features;
 * returns its index. Unknown scalings are refused by name. m->n_context must be known. */
int  arch_add_rope(struct model_desc *m, struct config *c, struct arena *a, int head_dim, const struct rope_rule *rule);
void arch_rope_of(struct rope_desc *r, struct model_desc *m, struct config *c, struct arena *a, int head_dim,
                  const struct rope_rule *rule);
/* Whether the file says nothing of a rope but perhaps its base: a few config classes then scale it. */
bool arch_lacks_rope(struct config *c);
/* Makes a rope one of yarn with the usual betas; `scaled`: queries and keys are multiplied, too. */
void arch_default_yarn(struct rope_desc *r, double factor, int64_t original, bool scaled);
/* Takes the rope from the layers without a window. */
void arch_rope_in_windows(struct model_desc *m);
/* Where layers with a window have another rope than the rest: gives it to them. */
void arch_rope_of_windows(struct model_desc *m, struct config *c, struct arena *a, const struct rope_rule *rule);

/* What a family of the usual shape has in place of Llama's; all zero: nothing. */
struct dense_rule {
    int              n_embd, n_ff, n_vocab, n_head; /* when absent; 0: must be there */
    int              head_dim;                      /* when absent; 0: hidden_size / heads */
    int              n_kv_head; /* when absent (where it is null as many as heads); 0: as many as heads */
    int              n_context; /* max_position_embeddings when absent; 0: 2048 */
    const char      *eps_key;   /* of the norms; NULL: rms_norm_eps */
    double           eps;       /* when absent; 0: 1e-6 */
    const char      *act;       /* hidden_act when absent; NULL: silu */
    bool             own_act;   /* the family reads the activation */
    struct rope_rule rope;
};
/* What concerns the whole model: widths, context, the last norm, the tie. */
void arch_frame(struct model_desc *m, struct config *c, const struct dense_rule *d);
/* Pre-norm layers of grouped-head attention and a gated feed-forward block, by the usual fields. */
void arch_dense(struct model_desc *m, struct config *c, struct arena *a, const struct dense_rule *d);

/* sliding_window; null: 0, none. */
int arch_window(struct config *c, int fallback);
/* sliding_window_pattern, where there is no layer_types. */
int arch_pattern(struct config *c, int fallback);
/* Whether the file has `key` as a list of one entry for each layer; of another length it is a fault. */
bool arch_has_layer_list(const struct model_desc *m, struct config *c, const char *key);
/* Whether the list of layers' numbers `key`, which counts from `first`, has layer i; false without the list. */
bool arch_lists_layer(const struct model_desc *m, struct config *c, const char *key, int i, int first);
/* Whether layer i is "sliding_attention" of layer_types; `fallback` without that field. */
bool arch_slides(const struct model_desc *m, struct config *c, int i, bool fallback);
/* Sets window on the layers that slide by layer_types; without it on all layers >= from, or on all but every `every`-th. */
void arch_windows(struct model_desc *m, struct config *c, int window, int from);
void arch_windows_every(struct model_desc *m, struct config *c, int window, int every);
/* A soft cap; null: 0, none. */
float arch_softcap(struct config *c, const char *key, float fallback);
/* The model is the language part of a checkpoint with towers: names begin with "language_model.", towers are ignored. After
 * the rest of the description. */
void arch_wrapped(struct model_desc *m);
/* Which of two names of a field counts: `newer` where the file has it, else `key`. */
const char *arch_either(struct config *c, const char *key, const char *newer);
/* A whole number from 1 to hi that is `fallback` when absent; 0: it must be there. */
int arch_number(struct config *c, const char *key, int64_t hi, int fallback);
/* A field that is `only` when absent, and supported as nothing else. */
void arch_need_bool(struct config *c, const char *key, bool only);
/* A field whose one word that is supported, which is also what it means when absent, is `only`. */
void arch_need_word(struct config *c, const char *key, const char *only);
/* The activation that a field names as transformers does. */
enum act_kind arch_act(struct config *c, const char *key, const char *fallback);
/* All norms are LayerNorms; otherwise like m->norm. */
void arch_layer_norms(struct model_desc *m, bool bias);
/* tie_word_embeddings. */
enum tie arch_tie(struct config *c);
/* The layers, all zero: m->n_layer of them; or as many as the field says (times m->n_part). False when out of memory, a
 * fault of the field. */
bool arch_room_for_layers(struct model_desc *m, struct config *c, struct arena *a, const char *key);
bool arch_make_layers(struct model_desc *m, struct config *c, struct arena *a, const char *key);
/* Buffers of the GPT line. */
extern const char *const arch_ignored_masks[];
/* Whether layer i attends, by layer_types: "full_attention", or else `other`; `fallback` without that field. */
bool arch_attends(const struct model_desc *m, struct config *c, int i, const char *other, bool fallback);

/* ---- mixtures of experts ---- */

/* Where the numbers of experts, of those of a token and their width stand, and what they are when absent (0: they must be
 * there). */
struct expert_fields {
    const char *n;
    int         n_default;
    const char *k;
    int         k_default;
    const char *ff;
    int         ff_default;
};
/* Reads them, and hidden_act, into a description that is otherwise zero, but for scale = 1; NULL when out of memory, a fault. */
struct moe_desc *arch_experts(struct config *c, struct arena *a, const struct expert_fields *f);
/* `key` shared experts (`fallback` when absent) of a width each, which are one block of them all. */
void arch_shared_experts(struct moe_desc *e, struct config *c, const char *key, int fallback, int width);
/* One shared expert behind a gate, of the width `fallback` when absent, as Qwen has it. */
void arch_gated_shared_expert(struct model_desc *m, struct moe_desc *e, struct config *c, int fallback);
/* The stacks of experts stand at `at`, a literal. */
#define arch_name_experts(m, at)                                                                                       \
    ((m)->name[NAME_EXPERT_GATE] = at ".gate_proj", (m)->name[NAME_EXPERT_UP] = at ".up_proj",                         \
     (m)->name[NAME_EXPERT_DOWN] = at ".down_proj")
/* The number of groups, in field `key`, and topk_group; what they are when absent. */
void arch_expert_groups(struct moe_desc *e, struct config *c, const char *key, int n_group, int topk_group);
/* Layer i has experts (nothing when e is NULL). */
void arch_use_experts(struct model_desc *m, int i, const struct moe_desc *e);
void arch_all_experts(struct model_desc *m, const struct moe_desc *e);
/* "softmax" or "sigmoid". */
enum route_score arch_scores(struct config *c, const char *key, const char *fallback);
/* Which layers have: by mlp_layer_types, or without it by first_k_dense_replace; by decoder_sparse_step and mlp_only_layers; by first_k_dense_replace and moe_layer_freq. */
void arch_experts_by_kind(struct model_desc *m, struct config *c, const struct moe_desc *e, int first_default);
void arch_experts_by_step(struct model_desc *m, struct config *c, const struct moe_desc *e);
void arch_experts_from(struct model_desc *m, struct config *c, const struct moe_desc *e, int first_default);
/* Original layouts: mlp.experts, one by one or fused; rules within a table. transformers 5 has them fused in every family,
 * which PEFT's files show. */
#define FUSED_EXPERTS_LAYOUT                                                                                           \
    {.param = "*.switch_mlp.gate_proj", .from = "*.experts.gate_up_proj", .part = 0, .parts = 2},                      \
        {.param = "*.switch_mlp.up_proj", .from = "*.experts.gate_up_proj", .part = 1, .parts = 2},                    \
    {                                                                                                                  \
        .param = "*.switch_mlp.down_proj", .from = "*.experts.down_proj"                                               \
    }
#define EXPERTS_LAYOUT                                                                                                 \
    {.param = "*.switch_mlp.gate_proj", .from = "*.experts.#.gate_proj"},                                              \
        {.param = "*.switch_mlp.up_proj", .from = "*.experts.#.up_proj"},                                              \
        {.param = "*.switch_mlp.down_proj", .from = "*.experts.#.down_proj"}, FUSED_EXPERTS_LAYOUT
/* The same with Mixtral's names. */
#define W_EXPERTS_LAYOUT                                                                                               \
    {.param = "*.switch_mlp.gate_proj", .from = "*.experts.#.w1"},                                                     \
        {.param = "*.switch_mlp.down_proj", .from = "*.experts.#.w2"},                                                 \
        {.param = "*.switch_mlp.up_proj", .from = "*.experts.#.w3"}, FUSED_EXPERTS_LAYOUT
/* The same with Granite's. */
#define GRANITE_EXPERTS_LAYOUT                                                                                         \
    {.param = "*.switch_mlp.gate_proj", .from = "*.input_linear", .part = 0, .parts = 2},                              \
        {.param = "*.switch_mlp.up_proj", .from = "*.input_linear", .part = 1, .parts = 2},                            \
        {.param = "*.switch_mlp.down_proj", .from = "*.output_linear"}, FUSED_EXPERTS_LAYOUT
/* kv_b_proj of the original model, whose rows are head by head those of embed_q, transposed, and those of unembed_out. */
#define KV_B_RULES(is_home)                                                                                            \
    {.param = "*.embed_q",                                                                                             \
     .from = "*.kv_b_proj",                                                                                            \
     .below = "*.unembed_out",                                                                                         \
     .transposed = true,                                                                                               \
     .leftover = true,                                                                                                 \
     .home = is_home,                                                                                                  \
     .why = KV_B_WHY},                                                                                                 \
    {                                                                                                                  \
        .param = "*.unembed_out", .from = "*.kv_b_proj", .above = "*.embed_q", .leftover = true, .home = is_home,      \
        .why = KV_B_WHY                                                                                                \
    }
#define KV_B_LAYOUT KV_B_RULES(false)
extern const struct layout_rule arch_experts_layout[], arch_unnamed_experts_layout[];

/* ---- state space models ---- */

/* A description without layers of the usual shape: sizes, names "backbone.layers.N.norm" and ".mixer", n_layer layers of
 * nothing. */
void arch_backbone(struct model_desc *m, struct config *c, struct arena *a, int n_layer);

/* The fields of a Mamba mixer; what is absent has Mamba's default. */
struct mamba1_keys {
    const char *inner; /* the width, where the file has it; NULL, or without it: expand * hidden_size */
    const char *expand, *state, *rank, *width, *conv_bias, *bias;
};
/* NULL when out of memory, a fault; arch_use_mamba1 then does nothing. */
struct mamba1_desc *arch_mamba1(const struct model_desc *m, struct config *c, struct arena *a,
                                const struct mamba1_keys *k);
void                arch_use_mamba1(struct layer_desc *l, const struct mamba1_desc *d);

/* The field names the activation of mixers with state, too, which is SiLU. */
void arch_need_silu(struct config *c, const char *key);

/* Those of Mamba 2. The width is `inner` where the file has it, else expand * hidden_size; both NULL: whatever the heads give. */
struct mamba2_keys {
    const char *expand, *inner, *heads, *head_dim, *groups, *state, *width, *conv_bias, *bias, *limit, *act;
    int         head_dim_default, n_group, n_state;
};
/* With m->norm as the norm behind the gate. NULL when out of memory, a fault; arch_use_mamba2 then does nothing. */
struct mamba2_desc *arch_mamba2_of(const struct model_desc *m, struct config *c, struct arena *a,
                                   const struct mamba2_keys *k);
void                arch_use_mamba2(struct layer_desc *l, const struct mamba2_desc *d);
/* The kind of layer i by the list `key`: 'M' Mamba, '*' attention, '-' feed-forward, 'E' experts, of which `allowed` are. */
char arch_layer_kind(struct config *c, const char *key, int i, const char *allowed);

/* storage.c: quantize and keep_dtype, by model_type. */
void arch_storage(struct model_desc *m);

#endif
