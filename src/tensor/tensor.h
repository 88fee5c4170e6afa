/* Activations: row-major matrices [n_row, n_col] in the backend's memory. CPU activations are float32.
 * A tensor is a view; arenas of the run own the memory. `stride` counts elements between two rows. */
#ifndef MLXCEL_TENSOR_TENSOR_H
#define MLXCEL_TENSOR_TENSOR_H

#include <stdint.h>

struct tensor {
    void   *data;
    int64_t n_row, n_col, stride;
};

static inline float *tensor_row(struct tensor t, int64_t i)
{
    return (float *)t.data + i * t.stride;
}

/* The view of columns [lo, lo + n). */
static inline struct tensor tensor_cols(struct tensor t, int64_t lo, int64_t n)
{
    return (struct tensor){(float *)t.data + lo, t.n_row, n, t.stride};
}

/* The view of the first n rows. */
static inline struct tensor tensor_rows(struct tensor t, int64_t n)
{
    t.n_row = n;
    return t;
}

#endif
