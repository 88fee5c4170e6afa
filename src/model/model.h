/* A loaded model: its description, its bound and prepared weights, and the forward pass. Read-only after model_load. */
#ifndef MLXCEL_MODEL_MODEL_H
#define MLXCEL_MODEL_MODEL_H

#include "base/log.h"
#include "model/params.h"

/* A layer: its norms and what its blocks keep (block.h). */
struct layer {
    struct norm mix_norm, mix_post, ff_norm, ff_post;
    void       *mix, *ff, *shortcut;
};

struct model {
    struct model_desc  desc;
    struct arena       arena;
    struct config     *config;     /* owned */
    struct checkpoint *checkpoint; /* owned */
    struct backend    *backend;    /* borrowed */
    struct params      params;
    int                lo, hi; /* layers [lo, hi) are loaded */
    struct weight      embed, position, head;
    struct norm        norm; /* before the head */
    bool               tied;
    void              *ngram; /* of a description with n-grams: ngram.h */
    struct layer      *layer; /* [n_layer]; only [lo, hi) bound */
    struct rope        rope[DESC_ROPES_MAX];
    int64_t            n_parameter;
    int                page_tokens, kv_elem_size;
    size_t             page_bytes;         /* of one cache page */
    int64_t            kv_values, kv_keys; /* numbers of a token in the cache, and pieces that share a scale */
    int                n_index_key;        /* keys that indexers choose; 0: there are none */
    struct run_limits  limits;             /* what the weights and blocks need; the rest is the caller's */
};

struct model_options {
    int               lo, hi; /* hi 0: all layers */
    int               page_tokens;
    bool              headers_only; /* weights are not mapped: there is no backend, and nobody reads their data */
    const struct log *log;
    const struct param_change *change; /* of the weights, made while they are prepared; NULL: none */
};

/* Fills a description from config.json, its arrays in *a: arch_describe. */
typedef int model_describe(struct model_desc *m, struct config *c, struct arena *a, struct error *e);

/* Loads the model of dir. All faults of its config.json, files and tensors are one error. Without a backend (NULL) the
 * weights are bound and checked but not prepared: for `describe` and `convert`. */
int  model_load(struct model **out, const char *dir, model_describe *describe, struct backend *backend,
                const struct model_options *o, struct error *e);
void model_free(struct model *m);

/* Bytes of the matrices that decoding one token reads in the loaded layers, as the files hold them. */
int64_t model_active_bytes(const struct model *m);

/* Bytes that one cached token takes in the loaded layers. */
int64_t model_kv_bytes_per_token(const struct model *m, int elem_size);

/* What a prompt's length changes about its ropes: a number that is equal for lengths that rotate alike, 0 where the length
 * does not matter. It is step.length of the sequence and a part of its prefixes' key. */
int64_t model_rope_length(const struct model *m, int64_t n_prompt);

/* Buffers of one forward pass of at most n_row rows. */
struct activations {
    struct tensor x, y, delta, delta2, rows, logits;
    struct tensor scratch; /* of the block that runs: act_take */
    int64_t       scratch_used;
    struct tensor keys; /* that an indexer chose, kept for the layers that share them */
    struct tensor cs[DESC_ROPES_MAX];
    int           n_row, n_logit;
    void         *memory;
};
int  activations_init(struct activations *a, const struct model *m, int n_row, int n_logit, struct error *e);
void activations_deinit(struct activations *a);

/* Runs the layers over the rows of r->step; afterwards a->x holds the residual stream. Tokens are embedded when lo = 0,
 * else a->x holds the rows that the stage before computed. */
void model_forward(const struct model *m, struct run *r, struct activations *a);
/* Logits of the step's logit rows [first, first + n), n <= a->n_logit, into the first n rows of a->logits. */
void model_logits(const struct model *m, struct run *r, struct activations *a, int first, int n);

#endif
