/* Any bytes as a GGUF file; what is accepted is read to the last element and the last byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_value(const struct gguf *g, const char *key)
{
    struct gguf_array a;
    struct str        s;
    int64_t           i;
    double            d;
    bool              b;
    volatile char     last = 0;
    if (!gguf_get_int(g, key, -10, 10, &i, NULL) && (i < -10 || i > 10))
        abort();
    gguf_get_num(g, key, &d, NULL);
    gguf_get_bool(g, key, &b, NULL);
    if (!gguf_get_str(g, key, &s, NULL) && s.n)
        last = s.p[s.n - 1];
    for (int kind = GGUF_KIND_INT; kind <= GGUF_KIND_STR; kind++) {
        if (gguf_get_array(g, key, (enum gguf_kind)kind, &a, NULL))
            continue;
        while (a.left)
            if (kind == GGUF_KIND_INT)
                gguf_next_int(&a);
            else if (kind == GGUF_KIND_NUM)
                gguf_next_num(&a);
            else if (kind == GGUF_KIND_BOOL)
                gguf_next_bool(&a);
            else if ((s = gguf_next_str(&a)).n)
                last = s.p[s.n - 1];
    }
    (void)last;
}

static void read_tensor(const struct gguf_tensor *t, const char *begin, const char *end)
{
    struct ggml_type_info info;
    const char           *p = t->data;
    if (!ggml_type_info(t->type, &info)) {
        if (p || t->size)
            abort();
        return;
    }
    if (p < begin || p > end || t->size > (size_t)(end - p))
        abort();
    int64_t n = (int64_t)t->size / info.block_bytes * info.block_elements;
    for (int i = 0; i < t->n_dim; i++) {
        if (t->shape[i] <= 0)
            return;
        if (n % t->shape[i])
            abort();
        n /= t->shape[i];
    }
    if (n != 1)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *g;
    struct error e = {0};
    if (gguf_parse(&g, (const char *)data, size, "f.gguf", &e)) {
        if (!e.msg[0])
            abort();
        return 0;
    }
    for (size_t i = 0; i < gguf_value_count(g); i++)
        read_value(g, gguf_key_at(g, i));
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        read_tensor(t, (const char *)data, (const char *)data + size);
        if (gguf_tensor_find(g, t->name) != t)
            abort();
    }
    gguf_close(g);
    return 0;
}
