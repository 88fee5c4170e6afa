/* A change of parameters on their way from the checkpoint into use: adapters that are fused. The model does not know
 * what it is; whoever loads or rewrites a model hands it in (adapt/fuse.h makes one).
 *
 * Rows are those of a parameter as it is stored: of a matrix its outputs; of a stack the outputs of its first matrix,
 * then of the next; a vector is one row, and so are a bias and the biases of a stack.
 */
#ifndef MLXCEL_MODEL_CHANGE_H
#define MLXCEL_MODEL_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/pool.h"
#include "formats/dtype.h"

struct model;
struct param;
struct params;

#define CHANGE_ROWS 64 /* what rows() takes at once at best */

struct param_change {
    void *ctx;
    int   threads; /* that call rows(); 0: all */
    /* m is bound and nothing of it changed or prepared: what does not fit it is refused here, all of it in one
     * report. */
    int (*begin)(void *ctx, const struct model *m, struct error *e);
    bool (*touches)(const void *ctx, const struct param *p);
    /* Before and after the rows of p, one parameter at a time; close also after an open that failed. */
    int (*open)(void *ctx, const struct param *p, struct error *e);
    void (*close)(void *ctx);
    /* values [n][row's length]: in, the base's rows [first, first + n) as float32 of type `dtype`; out, the changed
     * ones, rounded to that type. Several threads at once, which ask for rows in any portions with equal results. */
    int (*rows)(const void *ctx, const struct param *p, int64_t first, int64_t n, enum dtype dtype, float *values,
                struct error *e);
};

/* Matrix k of the dense, bound parameter p: makes its changed plane and lets the weight have it (planes.h: params_hold).
 * `change` is open for p. */
int params_change_weight(struct params *params, const struct param_change *change, const struct param *p, int k,
                         struct pool *pool, struct error *e);

#endif
