/* Internal: the work of one run of the pool over matrix products of the same inputs, and the pieces of it that a mixture of
 * experts, where each product has rows of its own, is put together from. */
#ifndef MLXCEL_CPU_LINEAR_JOB_H
#define MLXCEL_CPU_LINEAR_JOB_H

#include "cpu/linear.h"
#include "cpu/lora.h"

struct linear_job {
    const struct cpu           *cpu;
    int                         n; /* products */
    const struct weight *const *w;
    const struct tensor        *y;
    struct tensor               x;
    struct acts                 acts;
    bool                        shared;   /* the record of the only row is 0, the same for all members */
    bool                        quantize; /* some weight wants quantized rows */
    bool                        round;    /* some weight wants rows of bfloat16 */
    bool                        gated;    /* w[0], w[1]: gate, up of equal shape; y[0] = act(y[0]) * y[1] */
    struct act                  act;
    int64_t                     tiles; /* of all products (of one when gated) */
    int64_t                     chunk; /* rows of an item */
    int            side[LORA_WEIGHTS]; /* tiles of a product that are computed together if there are so many */
    bool           adapted;            /* lora says how */
    struct lora_op lora;
};

/* Records of `rows` rows of n_in inputs in memory, aligned to 64, of the size that linear_acts_size tells; false when it
 * overflows. Rows are multiples of LINEAR_GROUP. */
bool        linear_acts_size(const struct cpu *c, int64_t rows, int64_t n_in, size_t *size);
struct acts linear_acts(const struct cpu *c, void *memory, int64_t rows, int64_t n_in, int group);
/* The forms that a weight of product k asks for; returns the bytes that it reads of an input. */
int64_t linear_demand(struct linear_job *j, int k, const struct weight *w);
/* How many rows of so many bytes an item should take, a multiple of LINEAR_GROUP. */
int64_t linear_chunk(int64_t bytes);
/* x as record `at`, in the forms that the weights want. */
void linear_convert(const struct linear_job *j, const float *x, int64_t at);
/* Item `item` and at most `max` - 1 that follow it; returns how many were done. */
int linear_item(const struct linear_job *j, int64_t item, int64_t max, int member);

#endif
