/* What a model is: data that a family function (src/arch) writes once from config.json, then read-only.
 *
 * It says which blocks each layer has and their numbers; it names no file and touches no tensor. From it params.c declares
 * every parameter, forward.c walks the layers, and the cache is laid out. A field enters here only when two families use it
 * or when it is a number; odd wiring becomes a block file in src/model that the description names.
 */
#ifndef MLXCEL_MODEL_DESC_H
#define MLXCEL_MODEL_DESC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

#define DESC_LAYERS_MAX 1024
#define DESC_ROPES_MAX 4

enum mix_kind { MIX_ATTN }; /* token mixers; mix_attn.c */
enum ff_kind { FF_GATED };  /* feed-forward blocks: down(silu(gate(x)) * up(x)); ff_gated.c */

struct attn_desc {
    int   n_head, n_kv_head, head_dim;
    bool  qkv_bias, o_bias;
    bool  qk_norm; /* an RMS norm over head_dim on every q and k head before rope */
    int   window;  /* keys a query sees, itself included; 0: all earlier ones */
    int   rope;    /* index into model_desc.rope */
    float scale;
};

struct ff_desc {
    int  n_ff;
    bool bias;
};

struct layer_desc {
    enum mix_kind    mix;
    enum ff_kind     ff;
    struct attn_desc attn;
    struct ff_desc   ffn;
};

enum rope_scaling { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3 };

struct rope_desc {
    int               dims;
    bool              interleaved;
    double            theta;
    enum rope_scaling scaling;
    double            factor, low_freq_factor, high_freq_factor; /* LINEAR: factor; LLAMA3: all */
    int64_t           original_context;
};

enum tie { TIE_NO, TIE_YES, TIE_BY_FILE /* config.json does not say: tied unless lm_head.weight exists */ };

struct model_desc {
    char               model_type[64];
    int                n_layer, n_embd, n_vocab;
    int64_t            n_context; /* max_position_embeddings */
    float              norm_eps;
    enum tie           tie;
    int                n_rope;
    struct rope_desc   rope[DESC_ROPES_MAX];
    struct layer_desc *layer; /* [n_layer], in the arena that arch_describe was given */
    /* Tensors that the files may hold and the model ignores: NULL-terminated patterns, '*' matches any run of characters. */
    const char *const *ignore;
};

/* Checks what combines with what: the last word before parameters are declared. */
int desc_validate(const struct model_desc *m, struct error *e);

/* Rope's inverse frequencies [dims / 2] of a description. Formulas: RoFormer (Su et al. 2021); linear: position
 * interpolation (Chen et al. 2023); llama3: as in transformers' modeling_rope_utils. */
void rope_inv_freq(const struct rope_desc *r, float *out);

/* Bytes that one cached token takes in all layers. */
int64_t desc_kv_bytes_per_token(const struct model_desc *m, int elem_size);

#endif
