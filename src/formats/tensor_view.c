/* See tensor_view.h. */
#include "formats/tensor_view.h"

#include <inttypes.h>
#include <stdio.h>

int64_t tensor_view_elements(const struct tensor_view *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dim; i++)
        n *= t->shape[i];
    return n;
}

const char *tensor_shape_text(const int64_t *shape, int n_dim, char out[TENSOR_SHAPE_TEXT])
{
    size_t o = 0;
    out[o++] = '[';
    for (int i = 0; i < n_dim && i < TENSOR_DIMS_MAX; i++)
        o += (size_t)snprintf(out + o, TENSOR_SHAPE_TEXT - o, "%s%" PRId64, i ? ", " : "", shape[i]);
    out[o++] = ']';
    out[o] = '\0';
    return out;
}
