/* An adapter's files in one normal form, before any model is known: which module gets which low-rank pair at which
 * scale, whichever program wrote them.
 *
 * PATH is a directory with adapter_config.json and the tensors (adapters.safetensors of mlx-lm and mlx-vlm,
 * adapter_model.safetensors of PEFT), or the file of the tensors itself, whose config stands beside it. What the format
 * is, is told by content: PEFT's config has peft_type, mlx-vlm's older one has rank and alpha at its top level,
 * mlx-lm's has neither.
 *
 * Shapes as stored, by layout (K inputs, O outputs, r rank, E experts, V x D an embedding):
 *
 *     ADAPTER_MLX         a [K, r], b [r, O]; an embedding's a [V, r], b [r, D]
 *     ADAPTER_MLX_SWITCH  a [E, r, K], b [E, O, r]
 *     ADAPTER_PEFT        a [r, K], b [O, r]
 *     ADAPTER_PEFT_EMBED  a [r, V], b [D, r]
 *     ADAPTER_PEFT_STACK  a [E * r, K] expert by expert, b [O, E * r] with the expert innermost ([O, r, E]);
 *                         _TURNED: a [E * r, O], b [K, E * r]; which of the two it is, binding tells (bind_stack.c)
 *
 * Everything that can be wrong without a model is found here; what a layer takes and produces, by adapt/bind.h.
 * The formats are described in docs/adapters.md.
 */
#ifndef MLXCEL_ADAPT_FILE_H
#define MLXCEL_ADAPT_FILE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "formats/checkpoint.h"
#include "formats/config.h"

enum adapter_format { ADAPTER_FORMAT_MLX_LM, ADAPTER_FORMAT_MLX_VLM, ADAPTER_FORMAT_PEFT };
enum adapter_kind { ADAPTER_KIND_LORA, ADAPTER_KIND_DORA, ADAPTER_KIND_FULL };
enum adapter_layout {
    ADAPTER_MLX,
    ADAPTER_MLX_SWITCH,
    ADAPTER_PEFT,
    ADAPTER_PEFT_EMBED,
    ADAPTER_PEFT_STACK,
    ADAPTER_PEFT_STACK_TURNED
};

#define ADAPTER_WARNINGS_MAX 8
#define ADAPTER_PEFT_VERSION(major, minor, patch) (((int64_t)(major)*1000 + (minor)) * 1000 + (patch))

/* The pair of one module. Both of a and b are there, of a float type, with as many dimensions as the layout has. */
struct adapter_module {
    const char               *name;    /* ours: "model.layers.0.self_attn.q_proj" */
    const char               *spelled; /* as the file spells it: "base_model.model.model.layers.0.self_attn.q_proj" */
    enum adapter_layout       layout;
    const struct tensor_view *a, *b;
    const struct tensor_view *magnitude; /* DoRA: [O] (embeddings: see docs/adapters.md); NULL without */
    const struct tensor_view *extra;     /* PEFT's lora_B.bias [O]; NULL without */
    int64_t                   rank;      /* of each expert */
    int64_t                   n_expert;  /* of a switch or stack; else 0 */
    double                    scale;     /* the product's factor, all rules of the format applied */
};

/* A parameter that the adapter replaces, or (base_layer) a copy of the base's own that PEFT leaves in its files. */
struct adapter_param {
    const char               *name;   /* ours, whole: "lm_head.weight", "model.layers.0.self_attn.q_proj.bias" */
    const struct tensor_view *tensor; /* tensor->name is how the file spells it */
};

struct adapter_file {
    char                  *path; /* as given */
    enum adapter_format    format;
    enum adapter_kind      kind;
    const char            *base;           /* name of the base model that the config tells, or NULL */
    int64_t                rank;           /* that the config tells for all modules; 0: none */
    int64_t                peft_version;   /* ADAPTER_PEFT_VERSION of the writer; 0: not told */
    bool                   ties;           /* PEFT: ensure_weight_tying, a tied head changes with its embedding */
    bool                   fan_in_fan_out; /* PEFT: replaced matrices are stored [in, out] */
    struct adapter_module *module;         /* sorted by name */
    size_t                 n_module;
    struct adapter_param  *replace; /* sorted by name */
    size_t                 n_replace;
    struct adapter_param  *copy; /* sorted by name */
    size_t                 n_copy;
    const char            *warning[ADAPTER_WARNINGS_MAX]; /* finished sentences */
    size_t                 n_warning;
    uint64_t               hash[2]; /* of the config's bytes and of every tensor's name, type, shape and bytes */
    struct checkpoint     *tensors; /* owned */
    struct config         *config;  /* owned */
    struct arena           arena;   /* names, arrays, texts */
};

/* Reads PATH. Its faults go to *faults, all of them, with 0 returned; then *out is still set when the files could be
 * opened at all, to look at and not to use. Fails itself only for want of memory. */
int adapter_file_open(struct adapter_file **out, const char *path, struct faults *faults, struct error *e);
/* The same from a copy of the tensors in memory: whoever trains goes on writing its files, beside a server that loads
 * them. */
int  adapter_file_read(struct adapter_file **out, const char *path, struct faults *faults, struct error *e);
void adapter_file_free(struct adapter_file *f); /* NULL is fine */

/* Tells a file's warnings, each once. */
void adapter_file_warn(const struct adapter_file *f, const struct log *log);

/* The order in which adapters count, whatever order they are named in: by the hash of their contents, then by scale.
 * Less than, equal to or greater than 0, as qsort wants it. */
int adapter_order(const uint64_t hash_a[2], float scale_a, const uint64_t hash_b[2], float scale_b);

const char *adapter_format_name(enum adapter_format format); /* "mlx-lm", "mlx-vlm", "peft" */
const char *adapter_kind_name(enum adapter_kind kind);       /* "lora", "dora", "full" */

#endif
