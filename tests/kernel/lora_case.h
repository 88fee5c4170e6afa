/* Random adapters for check_lora.c, and what they compute, in double. */
#ifndef MLXCEL_TESTS_KERNEL_LORA_CASE_H
#define MLXCEL_TESTS_KERNEL_LORA_CASE_H

#include "linear_case.h"
#include "tensor/lora.h"

enum { WEIGHTS_MAX = 4, PAIRS_MAX = 2, BUFFERS_MAX = 128 };

/* What an adapter has besides its pairs. */
enum { LORA_DORA = 1, LORA_REPLACE = 2, LORA_BIAS = 4, LORA_EXTRA = 8, LORA_PARTS = 16 };

/* An adapter of the first weights of a model. */
struct adapter {
    struct lora              lora;
    const struct lora_delta *table[WEIGHTS_MAX];
    struct lora_delta        delta[WEIGHTS_MAX];
    struct lora_pair         pair[WEIGHTS_MAX][PAIRS_MAX];
    struct lora_dora         dora[WEIGHTS_MAX];
    struct product           replace[WEIGHTS_MAX];
    void                    *buffer[BUFFERS_MAX]; /* each ends at a guard page */
    int                      n_buffer;
};

/* n values of a type, from kc_fill with few extremes; the buffer belongs to a. Lanes of `out` stay zero where the caller
 * lays out padded rows itself. */
void *adapter_buffer(struct adapter *a, size_t bytes);
/* Pairs of rank `rank` (less for a second part) for n weights; `what` is a set of LORA_ flags. `uses` as in lora_pair. With
 * LORA_REPLACE weights are prepared on `b` and must be dense. */
void adapter_init(struct kc *k, struct adapter *a, int n, const struct product *w, int64_t rank, unsigned what,
                  unsigned uses, struct backend *b);
void adapter_deinit(struct kc *k, struct adapter *a, struct backend *b);

/* A pair with a of a_type and b of b_type, for outputs [row, row + n_out). */
void  pair_init(struct kc *k, struct adapter *a, struct lora_pair *p, int64_t n_in, int64_t row, int64_t n_out,
                int64_t rank);
float pair_a(const struct lora_pair *p, int64_t j, int64_t i);
float pair_b(const struct lora_pair *p, int64_t o, int64_t j); /* o counts the weight's outputs */

/* What becomes of y[n_out], the product of a row x with w (or with its replacement), without bias; mag: the sum of all
 * magnitudes that were added, for bounds. */
void adapted_row(const struct lora_set *set, const struct weight *w, const float *x, double *y, double *mag);
/* The same for row `token` of an embedding. */
void adapted_lookup(const struct lora_set *set, const struct weight *w, int64_t token, double *y, double *mag);

#endif
