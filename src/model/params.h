/* The parameter table: every logical parameter that a description implies, declared by the blocks, matched with the
 * checkpoint by one binder. Everything that concerns weights is a pass over this table. */
#ifndef MLXCEL_MODEL_PARAMS_H
#define MLXCEL_MODEL_PARAMS_H

#include "base/arena.h"
#include "formats/checkpoint.h"
#include "formats/config.h"
#include "model/desc.h"
#include "tensor/ops.h"

enum param_role { ROLE_EMBED, ROLE_HEAD, ROLE_LINEAR, ROLE_NORM, ROLE_BIAS };
/* How tensor-parallel ranks may divide it: not at all, by output rows, by input columns. */
enum param_shard { SHARD_NONE, SHARD_ROWS, SHARD_COLS };

struct param {
    const char      *name;  /* tensor name in the checkpoint without ".weight" / with ".bias" for a bias */
    int              layer; /* -1: before the layers, n_layer: after them */
    enum param_role  role;
    enum param_shard shard;
    int              n_dim;
    int64_t          shape[2]; /* [out, in], or [n] */
    const char      *why;      /* the config fields that give the shape, for messages */
    struct weight   *weight;   /* what binding fills: the weight itself, or for ROLE_BIAS the weight it is added to */
    struct quant     quant;    /* as bound; mode QUANT_NONE: dense */
    enum dtype       dtype;    /* of the stored plane */
    size_t           bytes;    /* of all its planes */
};

struct params {
    struct arena *arena; /* names and rows */
    struct param *v;
    size_t        n, cap;
    int           n_weight; /* weights so far: the next one's index */
    bool          failed;   /* out of memory; checked once after declaring */
};

/* Declares one parameter. name is formatted with the layer, like "model.layers.%d.mlp.down_proj"; -1 and n_layer names hold
 * no %d. For a linear, in is its second dimension; 0 for vectors. Returns the row, or NULL (p->failed set). */
struct param *params_add(struct params *p, enum param_role role, enum param_shard shard, int layer, const char *name,
                         int64_t out, int64_t in, const char *why, struct weight *weight);
const struct param *params_find(const struct params *p, const char *name);

/* Matches rows whose layer is in [lo, hi) (-1 belongs to lo = 0, n_layer to hi = n_layer) with the checkpoint: fills every
 * weight's planes, shapes and storage, from the headers alone. All misfits and the checkpoint's unclaimed tensors go to *f;
 * fails only for want of memory. */
int params_bind(struct params *p, const struct model_desc *m, struct checkpoint *c, int lo, int hi, struct faults *f,
                struct error *e);

/* Prepares (packs) every bound weight for the backend, widens biases to float32, and gives source pages back. */
int params_prepare(struct params *p, struct checkpoint *c, struct backend *b, struct error *e);

#endif
