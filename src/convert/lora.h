/* What the command line does with adapters' files: looking at one, writing it in another format, adding several. */
#ifndef MLXCEL_CONVERT_LORA_H
#define MLXCEL_CONVERT_LORA_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"
#include "convert/convert.h"

struct lora_output {
    const char *path;  /* a directory, which appears whole */
    const char *model; /* directory of a model that the result must fit; NULL: not checked, and embeddings are known
                              * by their names */
    bool        force;
    const struct log *log;
    bool (*progress)(void *ctx, size_t done, size_t total); /* bytes; false: stop with ERR_CANCELLED. Or NULL */
    void *ctx;
};

/* "mlx" or "peft". Scales, of which mlx-lm knows one, are multiplied into B where they differ. Refused by name: what
 * the other format cannot say (adapt/write.h), and what is in that format already. */
int lora_convert(const char *path, const char *format, const struct lora_output *o, struct error *e);

/* The sum of n adapters with their scales as one: their pairs side by side. format NULL: PEFT's if all are, else
 * mlx-lm's. Refused by name: DoRA, which does not add; modules whose shapes differ; what the format cannot say. */
int lora_merge(const struct convert_adapter *v, size_t n, const char *format, const struct lora_output *o,
               struct error *e);

/* {"path", "format", "kind", "base_model", "rank": [least, most], "scale": [least, most], "modules", "parameters",
 *  "bytes", "targets": {"self_attn.q_proj": modules}, "layers": [{"name", "rank", "scale", ...}], "replaced": [name],
 *  "warnings": [...], "faults": text or null}
 *
 * With a model also "fits", and of each of the layers "delta_norm", "weight_norm" and "relative", their ratio:
 * Frobenius norms of what the adapter adds at its own scale, and of the weight (of its decoded values). Faults of the
 * adapter or misfits are the error, and *out is there nevertheless when the files could be read. */
int lora_inspect(const char *path, const char *model, json_t **out, struct error *e);

#endif
