/* Rows of a weight from its planes; contract in weight.h. */
#include "tensor/weight.h"

static const char *at(const void *plane, size_t bytes, int64_t i)
{
    return plane ? (const char *)plane + (size_t)i * bytes : NULL;
}

void weight_row(const struct weight *w, int64_t row, float *out)
{
    const struct quant *q = &w->quant;
    if (q->mode == QUANT_NONE) {
        quant_widen(w->dtype, at(w->data, (size_t)w->n_in * dtype_size(w->dtype), row), w->n_in, out);
        return;
    }
    size_t  size = quant_scale_row_bytes(q, w->n_in);
    int64_t scale_row = row / quant_scale_rows(q);
    quant_decode_row(q, at(w->data, quant_row_bytes(q, w->n_in), row), at(w->scales, size, scale_row),
                     at(w->biases, size, scale_row), w->n_in, out);
}
