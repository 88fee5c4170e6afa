/* Adapters: LoRA, DoRA and replaced parameters over a loaded model, from the files of mlx-lm, mlx-vlm and PEFT.
 *
 * adapter_load reads an adapter, checks every tensor of it against the model's parameter table and makes the form that
 * operations use (tensor/lora.h). Nothing of the model changes: sequences choose adapters by a set. A loaded adapter is
 * immutable and counted by references, so that it can be unloaded while sequences still run with it.
 *
 * Scale rules. mlx-lm: `scale` as it is, its older `alpha` form alpha / rank; mlx-vlm: alpha / rank; PEFT: alpha / r or
 * alpha / sqrt(r), per module. The user's scale multiplies that.
 */
#ifndef MLXCEL_ADAPT_ADAPT_H
#define MLXCEL_ADAPT_ADAPT_H

#include "base/log.h"
#include "model/model.h"
#include "tensor/lora.h"

struct adapter;

/* path: a directory, or the .safetensors file of one. All faults of the adapter are one report; then nothing is left
 * behind. `prepare` packs replaced parameters for the backend that runs the model: a backend of the same kind, level
 * and precision that nobody else uses meanwhile. May run while another thread computes with the model. */
int  adapter_load(struct adapter **out, const char *path, const struct model *m, struct backend *prepare,
                  const struct log *log, struct error *e);
void adapter_ref(struct adapter *a);
void adapter_unref(struct adapter *a); /* NULL is fine; any thread. The last one frees it */

struct adapter_info {
    const char *path;
    const char *format;                       /* "mlx-lm", "mlx-vlm", "peft" */
    const char *kind;                         /* "lora", "dora", "full" */
    int         rank_min, rank_max, n_module; /* of pairs */
    int64_t     n_parameter;                  /* as stored */
    size_t      bytes;                        /* in memory */
    uint64_t    hash[2];                      /* of the files' contents */
};
/* Strings live as long as a. */
void               adapter_get_info(const struct adapter *a, struct adapter_info *info);
const struct lora *adapter_lora(const struct adapter *a);

/* ---- sets: what a sequence runs with ---- */

struct adapter_use {
    struct adapter *adapter;
    float           scale;
};

/* Immutable; holds references to its adapters. */
struct adapter_set {
    /* Of contents and scales: equal keys compute equal bytes; cached prefixes are shared by it. Not 0, 0. */
    uint64_t               key[2];
    const struct lora_set *lora; /* owned */
};

/* Scale 0 leaves an adapter out; when nothing is left *out is NULL, the base alone. Adapters stand in order of their
 * contents' hash, then scale, whatever order they are given in. Refused: scales that are not finite, also
 * times the adapter's own; two adapters in one set that both have DoRA on one row, or replace one parameter, or do
 * the one and the other to one module. */
int  adapter_set_new(struct adapter_set **out, const struct adapter_use *use, int n, struct error *e);
void adapter_set_ref(struct adapter_set *s);   /* NULL is fine */
void adapter_set_unref(struct adapter_set *s); /* NULL is fine; any thread */

#endif
