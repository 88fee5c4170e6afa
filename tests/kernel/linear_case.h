/* Random matrix products with planted extremes, and backends that compute them. Whatever fails ends the program. */
#ifndef MLXCEL_TESTS_KERNEL_LINEAR_CASE_H
#define MLXCEL_TESTS_KERNEL_LINEAR_CASE_H

#include "cpu/linear.h"
#include "harness.h"

enum { ROWS = 33 };

/* One product: planes of W[n_out, n_in] and ROWS rows of x. */
struct product {
    struct weight w;
    float        *x, *bias, *dense; /* dense: W as float32, for the truths */
    void         *codes, *scales, *biases;
};

void product_init(struct kc *k, struct product *p, struct quant q, int64_t n_out, int64_t n_in);
void product_deinit(struct product *p);

/* A backend for products of at most these sizes. */
struct backend *backend_new(enum cpu_level level, int threads, enum precision precision, int64_t n_row, int64_t n_in);
void            prepare(struct backend *b, struct weight *w);

/* y[ROWS, n_out], `n` rows at a time; x and y of each call end at a guard page. */
void compute(struct kc *k, struct backend *b, const struct product *p, int64_t n, float *y);

void *need(size_t bytes); /* of zeros */

#endif
