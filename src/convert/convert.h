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

/* Makes the directory out_dir, which appears whole at the end (an existing one is refused without `force`). Refused by
 * name: other architectures than llama, qwen2 and qwen3, other tensor types, tensors that the architecture does not
 * have, tokenizers and rope scalings that are not known. Data goes through tensor by tensor; the file is never in
 * memory as a whole. */
int convert_gguf(const char *gguf_path, const char *out_dir, bool force, const struct log *log, struct error *e);

#endif
