/* What the files of this folder share while one GGUF file is imported. Private to src/convert. */
#ifndef MLXCEL_CONVERT_IMPORT_H
#define MLXCEL_CONVERT_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dir.h"
#include "base/log.h"
#include "convert/convert.h"
#include "formats/gguf.h"
#include "formats/tensor_view.h"

/* The import of an opened file: convert_gguf without the open. source: the file's path, which the output must not replace,
 * or NULL. */
int import_gguf(const struct gguf *g, const char *source, const char *out_dir, const struct convert_options *o,
                struct error *e);

#define IMPORT_GROUP 32 /* weights of a block of Q4_0, Q4_1, Q8_0, which becomes one affine group */

/* ---- what the model is: gguf_model.c ---- */

struct import_rope {
    const char *type; /* "linear", "llama3", or NULL */
    double      factor, low, high, original;
};

struct import {
    const struct gguf            *g;
    const struct convert_options *o;
    const struct log             *log;
    struct arena                  arena;    /* names */
    char                          arch[16]; /* "llama", "qwen2", "qwen3": GGUF and config.json use the same words */
    int64_t                       n_layer, hidden, n_ff, n_head, n_kv_head, head_dim, n_vocab, n_context;
    double                        norm_eps, rope_theta;
    bool                          tied, attention_bias, mlp_bias;
    struct import_rope            rope;
    struct plane                 *planes;
    size_t                        n_planes, planes_cap, bytes; /* bytes: of all planes */
};

/* Tells how many bytes of the planes are made: ERR_CANCELLED when it is to stop. */
int import_progress(const struct import *m, size_t done, struct error *e);

/* Reads the hyperparameters; unknown ones of the architecture are a warning each. */
int import_model(struct import *m, struct error *e);
/* The value of "<arch>.<name>"; dflt when it is missing, or an error when dflt < 0. */
int import_int(const struct import *m, const char *name, int64_t lo, int64_t hi, int64_t dflt, int64_t *out,
               struct error *e);
int import_num(const struct import *m, const char *name, double dflt, double *out, struct error *e);
/* The rope scaling that metadata and the tensor rope_freqs.weight describe. */
int import_rope(struct import *m, struct error *e);

/* ---- the tensors: gguf_map.c decides the planes, gguf_planes.c writes them ---- */

enum plane_kind { PLANE_DENSE, PLANE_CODES, PLANE_SCALES, PLANE_BIASES };

/* One tensor of the output: a part of one tensor of the file. */
struct plane {
    const struct gguf_tensor *source;
    enum plane_kind           kind;
    int64_t                   heads; /* whose rows are put back in order; 0: rows stay */
    struct tensor_view        view;  /* without data */
};

/* Fills m->planes from the file's tensors: 4-byte types before 2-byte ones, each in order of name. All misfits at once.
 */
int import_map(struct import *m, struct error *e);
/* Whether scales or biases of a quantized tensor leave float16, or a fault is added for one that is not finite. */
bool import_needs_wide(const struct gguf_tensor *t, struct faults *f);
/* Bits of the codes that a storage type becomes: 4 or 8, or 0 for a dense type. False for a type that is not imported.
 */
bool import_type_bits(uint32_t type, int *bits, enum dtype *dense);
int  import_write_planes(const struct import *m, const char *path, struct error *e);

/* ---- the JSON files ---- */

int import_write_config(const struct import *m, const struct dir_out *out, struct error *e);    /* gguf_config.c */
int import_write_tokenizer(const struct import *m, const struct dir_out *out, struct error *e); /* gguf_tokenizer.c */
#define IMPORT_MERGES_MAX 2000000 /* far above any real tokenizer */
/* gguf_spm.c: appends the merges that tokenizer.ggml.scores imply for a SentencePiece vocabulary, pairs of texts. `types`
 * are tokenizer.ggml.token_type's numbers; normal tokens take part. */
struct json_t;
int import_spm_merges(const struct gguf *g, const struct str *tokens, const uint8_t *types, int64_t n,
                      struct json_t *merges, struct error *e);
/* Writes value, which it consumes and which may be NULL for "out of memory while it was made". */
int import_write_json(const struct dir_out *out, const char *name, struct json_t *value, bool indent, struct error *e);
/* The shortest decimal that is the same float32: 1e-05 for 9.99999975e-06. */
double import_short(double float32);

#endif
