/* The parameter table: every logical parameter that a description implies, declared by the blocks, matched with the
 * checkpoint by one binder. Everything that concerns weights is a pass over this table. */
#ifndef MLXCEL_MODEL_PARAMS_H
#define MLXCEL_MODEL_PARAMS_H

#include "base/arena.h"
#include "formats/checkpoint.h"
#include "formats/config.h"
#include "model/change.h"
#include "model/desc.h"
#include "model/layout.h"
#include "tensor/ops.h"

/* VECTOR: all that is used as float32 and is neither a norm nor what is added to a product: sinks, A_log, convolutions. */
enum param_role { ROLE_EMBED, ROLE_HEAD, ROLE_LINEAR, ROLE_NORM, ROLE_VECTOR, ROLE_BIAS };
/* How tensor-parallel ranks may divide it: not at all, by output rows, by input columns. */
enum param_shard { SHARD_NONE, SHARD_ROWS, SHARD_COLS };

/* The scales of Hugging Face's FP8 weights (quant.h: QUANT_FP8) stand beside X.weight under this name. */
#define PLANE_FP8_SCALES ".weight_scale_inv"

#define PARAM_DIMS 4

struct param {
    const char      *name;   /* of the module; of a bias, and where suffix is "", of the tensor */
    const char      *suffix; /* what the tensor's name has behind it: ".weight" or "" */
    int              layer;  /* -1: before the layers, n_layer: after them */
    enum param_role  role;
    enum param_shard shard;
    unsigned         uses; /* enum weight_use */
    int              n_dim;
    int64_t          shape[PARAM_DIMS]; /* [n]; [out, in]; a stack (experts, heads): [n, out, in], its bias [n, out] */
    const char      *why;               /* the config fields that give the shape, for messages */
    struct weight *weight; /* what binding fills: the weight, the n of a stack, or for ROLE_BIAS what it is added to */
    bool           optional;    /* may be in no file; then it is not bound */
    int            active;      /* of a stack: how many of its matrices one row of a step uses; 0: all */
    struct quant   quant;       /* as bound; mode QUANT_NONE: dense */
    enum dtype     dtype;       /* of the plane in use */
    size_t         bytes;       /* of all its planes in the files; 0: not bound */
    struct param_source source; /* where those are */
    bool                fused;  /* in use with other values than the checkpoint's */
};

struct params {
    struct arena *arena; /* names and rows */
    struct param *v;
    size_t        n, cap;
    int           n_weight; /* weights so far: the next one's index */
    bool          failed;   /* out of memory; params_finish tells */
    /* What params_finish makes: */
    const struct param **by_name;      /* [n] */
    struct target_names *target_names; /* target.h */

    struct held_planes    *held; /* planes.h: in use instead of the checkpoint's */
    struct layout_leftover leftover;
};

/* Declares one parameter. name is formatted with the layer, like "model.layers.%d.mlp.down_proj"; -1 and n_layer names hold
 * no %d. For a linear, in is its second dimension; 0 for vectors. */
void params_add(struct params *p, enum param_role role, enum param_shard shard, int layer, const char *name,
                int64_t out, int64_t in, const char *why, struct weight *weight);
/* A stack of n matrices in one tensor [n, out, in]: `weights` are n, each an ordinary one that operations take. The bias of
 * a stack is a row of its own, by params_add: ROLE_BIAS, out = n, in = the outputs. */
void params_add_stack(struct params *p, enum param_shard shard, int layer, const char *name, int n, int64_t out,
                      int64_t in, const char *why, struct weight *weights);
/* Says of the stack just declared that a row of a step uses so many of its matrices. */
void params_active(struct params *p, const struct weight *weights, int n);
/* Says of what was just declared that the files may be without it. */
void params_optional(struct params *p, const struct weight *weight);
/* A ROLE_VECTOR of any shape: weight is one row of all its values. suffix: ".weight", or "" where the tensor is called by the
 * name alone. Files may also hold it with other dimensions of 1 ([C, 1, K] for [C, K, 1], [E] for [1, E]). */
void params_add_vector(struct params *p, int layer, const char *name, const char *suffix, int n_dim,
                       const int64_t *shape, const char *why, struct weight *weight);
/* After the last declaration: makes the indices. ERR_NOMEM when a declaration had failed. */
int params_finish(struct params *p, struct error *e);

/* The row of a name, NULL if there is none. */
const struct param *params_find(const struct params *p, const char *name);

/* Whether the tensor's dimensions are those of the row but for dimensions of 1, which do not matter in a vector. */
bool param_vector_fits(const struct param *p, const struct tensor_view *t);

/* Matrices, which can be quantized and take an adapter's pairs; how many it has; all its elements. */
static inline bool param_is_matrix(const struct param *p)
{
    return p->role <= ROLE_LINEAR;
}
static inline int param_stack(const struct param *p)
{
    return param_is_matrix(p) && p->n_dim == 3 ? (int)p->shape[0] : 1;
}
static inline int64_t param_elements(const struct param *p)
{
    int64_t n = 1;
    for (int i = 0; i < p->n_dim; i++)
        n *= p->shape[i];
    return n;
}

/* Matches rows whose layer is in [lo, hi) (-1 belongs to lo = 0, n_layer to hi = n_layer) with the checkpoint: fills every
 * weight's planes, shapes and storage, from the headers alone. All misfits and the checkpoint's unclaimed tensors go to *f. */
void params_bind(struct params *p, const struct model_desc *m, struct checkpoint *c, int lo, int hi, struct faults *f);

/* Prepares (packs) every bound weight for the backend, widens biases to float32, and gives source pages back. With a change
 * (begun; else NULL), the values that it makes; its planes stay in memory only where the packed form does not do. */
int  params_prepare(struct params *p, struct backend *b, const struct param_change *change, struct error *e);
void params_release(struct params *p, struct backend *b); /* the packed forms */

#endif
