/* What the files of this folder share while one model directory is rewritten. Private to src/convert. */
#ifndef MLXCEL_CONVERT_REWRITE_H
#define MLXCEL_CONVERT_REWRITE_H

#include <jansson.h>

#include "base/dir.h"
#include "convert/convert.h"
#include "model/model.h"

enum rewrite_plane { REWRITE_WEIGHT, REWRITE_SCALES, REWRITE_BIASES, REWRITE_PLANES };

/* One parameter of the table: where it comes from and what it becomes. */
struct rewrite_param {
    const struct param *p;
    struct weight       source; /* its planes; of a bias: a vector of one row */
    struct quant        form;   /* of the output; mode QUANT_NONE: dense */
    enum dtype          dtype; /* dense: of the output; quantized: what values are rounded to before they are encoded */
    bool                as_is; /* the planes are copied */
    bool                own;   /* config.json names it with its own form (or, dense, with false) */
    int                 shard;
    size_t              at[REWRITE_PLANES]; /* of its planes in the data of its shard */
};

struct rewrite_counts {
    size_t changed, kept, indivisible; /* matrices; kept: quantized before */
    char   first[200];                 /* indivisible */
};

struct rewrite {
    const struct convert_options *o;
    struct arena                  arena;
    const char                   *dir;
    struct model                 *model; /* bound, not prepared */
    struct rewrite_param         *v;
    size_t                        n;
    int                           n_shards;
    size_t                        bytes; /* of all planes of the output */
    struct rewrite_counts         counts;
};

/* rewrite_plan.c: fills r->v from the table. Misfits of what was asked are one error. */
int rewrite_plan(struct rewrite *r, struct error *e);

/* rewrite_weights.c: model.safetensors, or shards with their index. */
int rewrite_weights(struct rewrite *r, const struct dir_out *out, struct error *e);

/* rewrite_files.c: config.json with what the weights are now, and the files that are no weights. */
int rewrite_config(const struct rewrite *r, const struct dir_out *out, struct error *e);
int rewrite_copies(const struct rewrite *r, const struct dir_out *out, struct error *e);

#endif
