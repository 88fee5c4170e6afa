/* One stored tensor: name, type, shape and where its bytes lie. */
#ifndef MLXCEL_FORMATS_TENSOR_VIEW_H
#define MLXCEL_FORMATS_TENSOR_VIEW_H

#include "formats/dtype.h"

#define TENSOR_DIMS_MAX 8
#define TENSOR_SHAPE_TEXT 192 /* room for 8 dimensions of 20 digits */

struct tensor_view {
    const char *name;
    const char *file; /* base name, for messages */
    enum dtype  dtype;
    int         n_dim; /* 0 for a scalar */
    int64_t     shape[TENSOR_DIMS_MAX];
    const void *data; /* as stored: little-endian, last dimension contiguous, at any address */
    size_t      size; /* bytes */
};

int64_t tensor_view_elements(const struct tensor_view *t); /* 1 for a scalar; checked when the file was opened */

/* "[32000, 4096]", "[]" for a scalar. Writes to out and returns it. */
const char *tensor_shape_text(const int64_t *shape, int n_dim, char out[TENSOR_SHAPE_TEXT]);

static inline const char *tensor_view_shape_text(const struct tensor_view *t, char out[TENSOR_SHAPE_TEXT])
{
    return tensor_shape_text(t->shape, t->n_dim, out);
}

#endif
