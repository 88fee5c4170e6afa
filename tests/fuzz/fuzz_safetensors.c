/* Any bytes as a safetensors file: refused with a sentence, or every view lies inside and has the size its shape says.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_view(const struct tensor_view *t, const char *begin, const char *end)
{
    const char *p = t->data;
    size_t      bytes;
    char        shape[TENSOR_SHAPE_TEXT];
    if (p < begin || p > end || t->size > (size_t)(end - p) || !t->name || !t->file)
        abort();
    if (!dtype_bytes(t->dtype, t->shape, t->n_dim, &bytes) || bytes != t->size)
        abort();
    tensor_view_shape_text(t, shape);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors s;
    struct error       e = {0};
    size_t             sum = 0;
    if (safetensors_parse(&s, (const char *)data, size, "f.safetensors", &e)) {
        if (!e.msg[0])
            abort();
        return 0;
    }
    for (size_t i = 0; i < s.n; i++) {
        check_view(&s.tensors[i], (const char *)data, (const char *)data + size);
        sum += s.tensors[i].size;
        if (i && strcmp(s.tensors[i - 1].name, s.tensors[i].name) >= 0)
            abort();
    }
    if (sum > size)
        abort(); /* no byte belongs to two tensors */
    safetensors_deinit(&s);
    return 0;
}
