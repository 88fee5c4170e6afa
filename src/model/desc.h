/* What a model is: data that a family function (src/arch) writes once from config.json, then read-only.
 *
 * It says which blocks each layer has and their numbers; it names no file and touches no tensor. From it the blocks declare
 * every parameter, forward.c walks the layers, and the cache is laid out. A field enters here only when two families use it
 * or when it is a number; odd wiring becomes a block file in src/model that the description names. All zero is the plain
 * case: a family says only what differs.
 */
#ifndef MLXCEL_MODEL_DESC_H
#define MLXCEL_MODEL_DESC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "tensor/kinds.h"

#define DESC_LAYERS_MAX 1024
#define DESC_ROPES_MAX 4

/* Blocks; blocks.c has the table of their functions. */
enum mix_kind {
    MIX_NONE,
    MIX_ATTN,
    MIX_MLA,
    MIX_DELTA,
    MIX_KDA,
    MIX_SHORTCONV,
    MIX_MAMBA1,
    MIX_MAMBA2,
    MIX_ATTN_MAMBA2,
    MIX_KINDS
};                                                              /* token mixers: mix_*.c */
enum ff_kind { FF_NONE, FF_GATED, FF_PLAIN, FF_MOE, FF_KINDS }; /* feed-forward blocks: ff_*.c */

/* How a layer puts its blocks together, r being its residual factor and a norm that is absent the identity:
 *   SEQUENTIAL   x += r mix_post(mix(mix_norm(x)));  x += r ff_post(ff(ff_norm(x)))
 *   PARALLEL     y = mix_norm(x);  x += r (mix(y) + ff(ff_norm(x)));  without an ff_norm ff reads y, too */
enum wiring { WIRE_SEQUENTIAL, WIRE_PARALLEL };

struct norm_desc {
    enum norm_kind kind;
    bool           no_weight; /* nothing is learned */
    bool           bias;      /* of a LAYER norm */
    float          eps;
    float          plus; /* added to the stored weight: 1 where a model multiplies by (1 + w) */
};

/* How q, k and v are stored: three matrices, or one, of which rows are q, then k, then v (ROWS), or the query heads of a
 * key/value head, then its k, then its v, key/value head by key/value head (GROUPS). */
enum qkv_form { QKV_APART, QKV_ROWS, QKV_GROUPS };

/* Over what the norm of queries and keys goes: every head with one weight [head_dim] for all, every head with its own
 * (weights [heads, head_dim], or where the name has a '#' one tensor a head, by number), or all heads as one row. */
enum qk_norm_span { QK_HEAD, QK_HEADS, QK_ALL };

/* What the heads' outputs are multiplied with before o_proj: sigmoid of gate_proj, an element each or one number a head; or
 * of what q_proj gives each head after its query. */
enum attn_gate { GATE_NONE, GATE_PROJ, GATE_HEAD, GATE_IN_Q };

struct attn_desc {
    int               n_head, n_kv_head, head_dim;
    enum qkv_form     qkv;
    bool              qkv_bias, o_bias;
    float             qkv_clip; /* q, k and v are held within +-qkv_clip; 0: not */
    struct norm_desc  qk_norm;
    enum qk_norm_span qk_norm_span;
    bool              qk_norm_last; /* after rope */
    enum attn_gate    gate;
    bool              sinks;  /* each head has a logit that enters the softmax's denominator alone */
    int               window; /* keys a query sees, itself included; 0: all earlier ones */
    int               chunk;  /* keys are of the query's chunk of so many positions; 0: no chunks */
    int               rope;   /* index into model_desc.rope; -1: none */
    float             scale;
    float             softcap; /* scores become softcap tanh(score / softcap); 0: not */
    float   position_scale;    /* beta of queries times 1 + beta ln(1 + floor(position / position_unit)); 0: not */
    int64_t position_unit;
};

/* Multi-head latent attention (mix_mla.c). */
struct mla_desc {
    int  n_head;
    int  q_rank;                      /* of the queries' bottleneck; 0: none */
    int  kv_rank;                     /* of the latent */
    int  nope, rope_dim, v_dim;       /* features of a head's query and key without position, with it, of a value */
    bool bias;                        /* of q_a, kv_a and o */
    bool whole;                       /* the MLX layout keeps kv_b_proj as one */
    struct norm_desc q_norm, kv_norm; /* over q_rank, over kv_rank */
    int              rope;            /* index into model_desc.rope; -1: none */
    float            scale, kv_scale; /* of scores; of the normed latent (1: none) */
    /* The lightning indexer, which picks the index_top keys that a query sees; 0: none. index_shared: the layer takes the
     * keys that the layer before it was given, and has no indexer of its own. */
    int              index_top, index_head, index_dim, index_rope;
    bool             index_shared;
    struct norm_desc index_norm;
};

struct ff_desc {
    int           n_ff;
    bool          bias;
    bool          fused; /* gate and up are one matrix, the gate's rows first */
    enum act_kind act;
};

/* A mixture of experts; zero is the plain case. tensor/ops.h (struct route, struct moe) says what the numbers do. */
struct moe_desc {
    int              n_expert, top_k, n_ff; /* n_ff: of an expert */
    int              n_zero;                /* experts after these that return their input */
    bool             plain;                 /* down(act(up x)), without a gate */
    bool             bias;                  /* of the experts' projections */
    bool             shared_bias;           /* of the shared block's, and of those to and from the latent size */
    enum act_kind    act;
    float            act_limit, act_alpha; /* of SWIGLU_CLAMPED */
    enum route_score score;
    enum route_group group;
    int              n_group, topk_group; /* n_group 0 or 1: no groups */
    bool             router_bias;
    bool             correction, may_lack_correction; /* the files may be without it */
    bool             normalize;
    float            sum_add, sum_min;
    float            jitter;       /* of SPARSE_MIXER */
    float            scale;        /* of the experts' sum; 1: none */
    int              n_shared_ff;  /* width of the block that every row takes beside the experts; 0: none */
    bool             shared_fused; /* its gate and up are one matrix, the gate's rows first */
    bool             shared_gate;  /* times sigmoid(w x) */
    int              n_latent;     /* width that the experts work at, between two projections; 0: n_embd */
};

/* A delta net: key and value heads, the width of its short convolution, the norm of every head of its output. */
struct delta_desc {
    int  n_k_head, n_head, k_dim, v_dim;
    int  conv;
    bool fused; /* q, k, v and the gate in one matrix, the two gates of the rule in another: head by head of keys */
    struct norm_desc norm;
};

struct shortconv_desc {
    int  conv; /* width */
    bool bias; /* of all three parameters */
};

/* Mamba's mixers; tensor/ops.h (struct conv, mamba1, mamba2) says what the numbers do. */
struct mamba1_desc {
    int              n, n_state, dt_rank; /* n: inner width */
    int              width;               /* of the convolution */
    bool             conv_bias, bias;     /* bias: of the projections from and to the residual stream */
    struct norm_desc norm;                /* of the time step's factors, B and C, each */
};

struct mamba2_desc {
    int              n_head, head_dim, n_state, n_group, width;
    bool             conv_bias, bias;
    float            dt_min, dt_max;
    struct norm_desc norm;       /* of the heads of each group */
    bool             norm_first; /* before the gate, not behind it */
};

/* Embeddings of n-grams (ngram.h): n_split tables for n = 2, as many for 3, ...; the first has `first` rows. */
struct ngram_desc {
    int     n_table, n_split; /* n_table 0: none */
    int64_t first;
};

struct layer_desc {
    enum mix_kind          mix;
    enum ff_kind           ff;
    enum ff_kind           shortcut; /* of ff's input, beside it; its output is added after the next layer's ff */
    enum wiring            wiring;
    struct norm_desc       mix_norm, mix_post, ff_norm, ff_post;
    struct attn_desc       attn;
    const struct mla_desc *mla; /* of MIX_MLA; in the description's arena */
    struct ff_desc         ffn;

    const struct delta_desc     *delta; /* of MIX_DELTA and MIX_KDA; in the description's arena, as are the next */
    const struct shortconv_desc *shortconv;
    const struct mamba1_desc    *mamba1;
    const struct mamba2_desc    *mamba2;     /* of MIX_MAMBA2 and MIX_ATTN_MAMBA2 */
    float                        attn_scale; /* of MIX_ATTN_MAMBA2: multiplies the attention's output */

    const struct moe_desc *moe; /* of FF_MOE; in the description's arena */
};

enum rope_scaling {
    ROPE_DEFAULT,
    ROPE_LINEAR,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_DYNAMIC,     /* the base grows with prompts that are longer than original_context */
    ROPE_LONGROPE,    /* other factors for such prompts */
    ROPE_PROPORTIONAL /* of the pairs of the whole head only the first rotate */
};

struct rope_desc {
    int               dims;
    bool              interleaved;
    double            theta;
    enum rope_scaling scaling;
    double            factor;                            /* of all scalings but LONGROPE */
    double            low_freq_factor, high_freq_factor; /* LLAMA3 */
    double            beta_fast, beta_slow;              /* YARN */
    bool              fractional;                        /* YARN: the ramp's ends are not rounded to whole pairs */
    int               n_pair;                            /* PROPORTIONAL: pairs that rotate */
    const float      *short_factor, *long_factor;        /* LONGROPE: [dims / 2] */
    double            mscale, mscale_long;               /* cosine and sine times this; mscale_long: LONGROPE beyond */
    int64_t           original_context;                  /* LLAMA3, YARN, DYNAMIC, LONGROPE */
};

enum tie { TIE_NO, TIE_YES, TIE_BY_FILE /* config.json does not say: tied unless the head's weight exists */ };

/* The parameters' names in the MLX layout, which are data of the description: names.def has the usual ones. Names with a
 * layer are after that of NAME_LAYER. */
enum name {
#define NAME(id, text) NAME_##id,
#include "model/names.def"
#undef NAME
    NAMES
};

/* How the files of the original model may hold parameters otherwise than the MLX layout, on every load path (layout.h).
 *
 * A parameter is taken from its own name; if that is in no file, from the first rule whose `param` matches and whose `from`
 * is there. Names are without ".weight": the planes of `from` are called .weight, .scales, .biases, .weight_scale_inv, or for
 * a tensor without a module of its own nothing, _scales, _scale_inv, _blocks (with _scales: mxfp4, never transposed); a bias of the parameter
 * goes by the same rule, from .bias or _bias. '*' of `from` is what '*' of `param` matched; '#' is the number of a matrix of
 * a stack, each a tensor of its own. A rule without `from` is about the parameter's own tensor. All of a rule's conditions
 * hold together, and what it says is applied in the order of its fields. */
struct layout_scale {
    int64_t n; /* outputs; the last entry has 0 */
    float   scale;
};

struct layout_rule {
    const char *param, *from;
    /* Holds only where the tensors whose whole names match this pattern are convolutions of the original layout, [C, 1, K]
     * instead of [C, K, 1]: the mark of files whose names are the same in both. NULL: always. */
    const char *marker;
    /* One matrix [n * rows, in] has the stack's matrices one below the other, each followed by that of the stack `below`,
     * or each preceded by that of `above` ('*' as in `from`): the heads of kv_b_proj. Rows are the inputs if transposed. */
    const char *below, *above;
    bool        transposed;  /* stored [.., in, out] */
    int         part, parts; /* the part-th of `parts` equal pieces of its outputs; parts 0: all */
    bool        interleaved; /* the pieces take turns output by output: output o of the piece is o * parts + part */
    /* Factors of the outputs, first to last (of a vector or an embedding with one entry: of all). NULL: none. */
    const struct layout_scale *scale;
    float                      plus; /* added to the values */
    bool leftover; /* `from` may also stand beside the parameter's own tensors, which win: one warning */
    bool home;     /* the MLX layout's own place, so that what is in no file is missing there */
    const char
        *why; /* the fields of config.json behind the shape of `from`, for messages; NULL: those of the parameter */
};

/* Of kv_b_proj. */
#define KV_B_WHY "num_attention_heads * (qk_nope_head_dim + v_head_dim), kv_lora_rank"

/* Names of tensors in the files that begin with `files` are those of the description that begin with `name`, if no tensor
 * has that name itself: {"language_model.model.", "model.language_model."}, {"model.", "transformer."}, {"model.", ""}. This
 * comes before rules, for every name that they speak of. */
struct layout_prefix {
    const char *name, *files;
};

/* How `quantize` stores a matrix that nobody asked for by name, as mlx-lm's predicates have it: affine of so many bits in
 * groups of 64; 0: not at all. */
struct quantize_rule {
    const char *param; /* '*' matches any run of characters */
    int         bits;
};

struct model_desc {
    char             model_type[64];
    int              n_layer, n_embd, n_vocab;
    int64_t          n_context;  /* max_position_embeddings */
    int64_t          n_position; /* rows of the learned embedding of positions, which are all that there are; 0: none */
    enum tie         tie;
    bool             head_bias;
    struct norm_desc norm;                       /* the last one, before the head */
    float            embed_scale;                /* multiplies embeddings; 1: none */
    float            residual_scale;             /* multiplies what a block adds; 1: none */
    float            logit_scale, logit_softcap; /* logits * scale (1: none), then cap tanh(logits / cap) (0: none) */
    int              n_rope;
    struct rope_desc rope[DESC_ROPES_MAX];
    struct ngram_desc  ngram;
    int                n_part;      /* layers that the names count as one, '@' of a name saying which; 0: 1 */
    struct layer_desc *layer;       /* [n_layer], in the arena that arch_describe was given */
    const char        *name[NAMES]; /* arch_describe fills it from names.def before the family changes what differs */
    const char        *prefix;      /* before every name: "language_model." of a wrapper; "" */
    /* How files may hold parameters otherwise than in the MLX layout; ends with a NULL param. NULL: no other way. */
    const struct layout_rule   *layout;
    const struct layout_prefix *layout_prefix; /* ends with a NULL name; NULL: none */
    const struct quantize_rule *quantize;      /* ends with a NULL param; NULL: no exceptions */
    /* Tensors that the files may hold and the model ignores, beside a head where `tie` says that the embedding is it:
     * NULL-terminated patterns, '*' matches any run of characters. */
    const char *const *ignore;
    bool               ignore_further_layers; /* also those of layers from n_layer on: multi-token prediction */
    /* Parameters that keep their type when others are converted to config.json's (mlx-lm: cast_predicate); like ignore. */
    const char *const *keep_dtype;
};

/* The usual names. */
void desc_names(const char *name[NAMES]);

/* Checks what combines with what: the last word before parameters are declared. */
int desc_validate(const struct model_desc *m, struct error *e);

/* Rope's inverse frequencies [dims / 2] of a description; beyond: for prompts longer than original_context (LONGROPE;
 * DYNAMIC has no table for them, tensor/ops.h has its formula). Formulas: RoFormer (Su et al. 2021); linear: position
 * interpolation (Chen et al. 2023); yarn: Peng et al. 2023; longrope: Ding et al. 2024; llama3, dynamic, proportional: as in
 * transformers' modeling_rope_utils. */
void rope_inv_freq(const struct rope_desc *r, bool beyond, float *out);

#endif
