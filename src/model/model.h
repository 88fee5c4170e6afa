/* A loaded model: its description, its bound and prepared weights, and the forward pass. Read-only after model_load. */
#ifndef MLXCEL_MODEL_MODEL_H
#define MLXCEL_MODEL_MODEL_H

#include "base/log.h"
#include "model/params.h"

struct attn_block {
    struct weight q, k, v, o, q_norm, k_norm;
    struct attn   op;   /* static arguments of the attention operations */
    int           rope; /* index into model.rope */
    bool          qk_norm;
};

struct ff_block {
    struct weight gate, up, down;
};

struct layer {
    struct weight     mix_norm, ff_norm;
    struct attn_block attn;
    struct ff_block   ff;
};

struct model {
    struct model_desc  desc;
    struct arena       arena;
    struct config     *config;     /* owned */
    struct checkpoint *checkpoint; /* owned */
    struct backend    *backend;    /* borrowed */
    struct params      params;
    int                lo, hi; /* layers [lo, hi) are loaded */
    struct weight      embed, norm, head;
    bool               tied;
    struct layer      *layer; /* [n_layer]; only [lo, hi) bound */
    struct rope        rope[DESC_ROPES_MAX];
    int64_t            n_parameter;
    size_t             page_bytes; /* of one cache page */
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

/* Buffers of one forward pass of at most n_row rows. */
struct activations {
    struct tensor x, y, q, k, v, a, gate, up, delta, rows, logits;
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

/* Block functions, one file per block: declare the parameters of layer i; run it from a->y into a->delta. */
void mix_attn_declare(struct params *p, const struct model_desc *d, int i, struct layer *l);
void mix_attn_forward(const struct model *m, struct run *r, const struct layer *l, struct activations *a);
void ff_gated_declare(struct params *p, const struct model_desc *d, int i, struct layer *l);
void ff_gated_forward(const struct model *m, struct run *r, const struct layer *l, struct activations *a);

#endif
