/* From other layouts to MLX directories.
 *
 * GGUF files of llama-type models are imported without loss:
 *     Q4_1   w = d q + m          affine, 4 bits, group 32: codes q, scales d, biases m
 *     Q4_0   w = d (q - 8)        affine, 4 bits: codes q, scales d, biases -8 d
 *     Q8_0   w = d q              affine, 8 bits: codes q + 128, scales d, biases -128 d
 *     F16, BF16, F32              dense, as they are
 * A product with a power of two is exact in float16 unless it overflows; a tensor where it would gets F32 scales and
 * biases. The rows of q and k, which llama-type GGUF files interleave for their rope, go back to the order of the
 * original model; config.json and the tokenizer's files are rebuilt from the metadata.
 */
#ifndef MLXCEL_CONVERT_CONVERT_H
#define MLXCEL_CONVERT_CONVERT_H

#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"
#include "quant/quant.h"

/* What a matrix becomes whose name matches. A pattern matches a parameter's whole name ("model.layers.0.mlp.down_proj")
 * or its end after a dot ("mlp.down_proj", "lm_head"); '*' is any run of characters. */
struct convert_rule {
    const char  *pattern;
    struct quant form; /* mode QUANT_NONE: dense */
};

struct convert_options {
    bool                       quantize, dequantize; /* not both */
    struct quant               form;                 /* of quantized matrices; bits and group 0: the mode's own */
    const char                *recipe;               /* "mixed_2_6", ...: more bits for some layers, affine; or NULL */
    const struct convert_rule *rules;                /* stronger than all else; of several that match the last holds */
    size_t                     n_rules;
    enum dtype                 dtype;   /* F32, F16, BF16 of all that stays or becomes dense; NONE: see below */
    int                        threads; /* 0: all */
    bool                       force;
    const struct log          *log;
    bool (*progress)(void *ctx, size_t done, size_t total); /* bytes; false: stop with ERR_CANCELLED. Or NULL */
    /* convert_fuse: what encoding a changed matrix again lost, |wanted - stored| / |wanted|. Or NULL */
    void (*loss)(void *ctx, const char *name, double loss);
    void *ctx;
};

/* Makes the directory out_dir, which appears whole at the end (an existing one is refused without `force`). Of the options
 * only force, log and progress count: the file is imported as it is. Refused by name: other architectures than llama, qwen2
 * and qwen3, other tensor types, tensors that the architecture does not have, tokenizers and rope scalings that are not
 * known. Data goes through tensor by tensor; the file is never in memory as a whole. */
int convert_gguf(const char *gguf_path, const char *out_dir, const struct convert_options *o, struct error *e);

/* From one directory of safetensors (MLX's or Hugging Face's layout) to another, MLX's: what mlx-lm's `convert` does.
 *
 * Dense tensors are stored as config.json's torch_dtype says, else as they are. `quantize` encodes the embedding, the
 * head and every linear layer whose width the group divides, scales in the dense type; matrices that are quantized
 * already stay as they are, with a warning. `dequantize` makes all dense. Tensors that the model ignores are dropped.
 * Data goes through row by row: memory does not grow with the model. The directory appears whole at the end. Refused by
 * name: values that are not finite in matrices to be quantized, values that the type cannot hold, a recipe for a model
 * without down projections, rules that match nothing or only what MLX never quantizes, groups that do not divide where a
 * rule asks for them. */
int convert_model(const char *dir, const char *out_dir, const struct convert_options *o, struct error *e);

/* One directory of safetensors with n adapters fused into its weights (adapt/fuse.h) as another one.
 *
 * Names, shapes, types, the layout of the shards and every byte of what no adapter changes stay: shards are copied, and
 * changed tensors written anew in the copies. Quantized matrices that an adapter changes are refused by name, unless
 * `quantize` (they are decoded, changed, and encoded in their own form again; `loss` is told) or `dequantize` (all become
 * dense, as by convert_model, but with dense tensors in their own type) is set. Of the other options threads, force, log,
 * progress count. Memory holds the adapters' pages and some rows for each thread. */
struct convert_adapter {
    const char *path;
    double      scale; /* the user's factor */
};
int convert_fuse(const char *dir, const struct convert_adapter *adapters, size_t n, const char *out_dir,
                 const struct convert_options *o, struct error *e);

#endif
