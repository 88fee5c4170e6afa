/* What the files of this folder share while one model directory is rewritten. Private to src/convert. */
#ifndef MLXCEL_CONVERT_REWRITE_H
#define MLXCEL_CONVERT_REWRITE_H

#include <jansson.h>

#include "base/dir.h"
#include "base/pool.h"
#include "convert/convert.h"
#include "model/model.h"
#include "model/planes.h"

enum rewrite_plane { REWRITE_WEIGHT, REWRITE_SCALES, REWRITE_BIASES, REWRITE_PLANES };
#define REWRITE_ELSEWHERE SIZE_MAX /* a plane's place: not in the file that is being written */

/* One parameter of the table: where it comes from and what it becomes. */
struct rewrite_param {
    const struct param *p;
    int64_t             n_out, n_in; /* of the matrices of a stack together; of a vector or bias: one row */
    struct quant        form;        /* of the output; mode QUANT_NONE: dense */
    enum dtype          dtype; /* dense: of the output; quantized: what values are rounded to before they are encoded */
    bool                as_is; /* the planes are copied */
    bool                changed; /* by the rewriting's change, while it is of type `dtype` */
    bool                own;     /* config.json names it with its own form (or, dense, with false) */
    int                 shard;
    size_t              at[REWRITE_PLANES]; /* of its planes in what is being written */
};

struct rewrite_counts {
    size_t changed, kept, indivisible; /* matrices; kept: quantized before */
    size_t decoded;                    /* while adapters are fused */
    char   first[200];                 /* indivisible */
};

struct rewrite {
    const struct convert_options *o;
    const struct param_change    *change; /* of values on their way; NULL: none. Then dense values keep their type */
    bool                          other_layout; /* some of the source's parameters are not as MLX has them */
    bool         in_place; /* the plan: shards are copied, and changed parameters written anew in them */
    struct arena arena;
    const char  *dir;
    const struct convert_adapter *adapters; /* that are read, n_adapters of them */
    size_t                        n_adapters;
    struct model                 *model; /* bound, not prepared */
    struct rewrite_param         *v;
    size_t                        n;
    int                           n_shards;
    size_t                        bytes; /* of all planes of the output */
    struct rewrite_counts         counts;
};

/* From open to rename. r has its options and change. */
int rewrite_run(struct rewrite *r, const char *dir, const char *out_dir, struct error *e);
/* Calls the option's progress: ERR_CANCELLED when it says so. */
int rewrite_progress(const struct rewrite *r, size_t done, size_t total, struct error *e);

/* rewrite_plan.c: fills r->v from the table. Misfits of what was asked are one error. */
int rewrite_plan(struct rewrite *r, struct error *e);

/* rewrite_param.c: the planes of one parameter. */
struct rewrite_sink { /* takes bytes at a place of the output, from several threads at once */
    int (*put)(void *ctx, size_t at, const void *p, size_t n, struct error *e);
    void *ctx;
};
int         rewrite_plane_count(const struct rewrite_param *v);
size_t      rewrite_plane_row_bytes(const struct rewrite_param *v, int plane);
const char *rewrite_plane_name(const struct rewrite_param *v, int plane, char out[512]);
/* Makes all rows and puts them at v->at of the sink. */
int rewrite_write_param(const struct rewrite *r, const struct rewrite_param *v, const struct rewrite_sink *sink,
                        struct pool *pool, struct error *e);

/* rewrite_patch.c: the source's shards and their index, with what is changed. */
int rewrite_patch(struct rewrite *r, const struct dir_out *out, struct error *e);

/* rewrite_weights.c: model.safetensors, or shards with their index. */
int rewrite_weights(struct rewrite *r, const struct dir_out *out, struct error *e);

/* rewrite_files.c: config.json with what the weights are now, and the files that are no weights. */
int rewrite_config(const struct rewrite *r, const struct dir_out *out, struct error *e);
int rewrite_copy(const struct rewrite *r, const struct dir_out *out, const char *name, struct error *e);
int rewrite_copies(const struct rewrite *r, const struct dir_out *out, struct error *e);

#endif
