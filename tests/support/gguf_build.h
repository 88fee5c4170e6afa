/* Builds GGUF files in memory: values and tensors are added in any order, then put together by gguf_build_write. */
#ifndef TESTS_SUPPORT_GGUF_BUILD_H
#define TESTS_SUPPORT_GGUF_BUILD_H

#include "../support/tmp.h"
#include "base/buf.h"
#include "formats/gguf.h"

struct gguf_build {
    struct buf values, tensors, data;
    uint64_t   n_values, n_tensors;
};

static inline void gguf_build_number(struct buf *b, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        buf_putc(b, (char)(v >> 8 * i));
}

static inline void gguf_build_text(struct buf *b, const char *p, size_t n)
{
    gguf_build_number(b, n, 8);
    buf_put(b, p, n);
}

static inline void gguf_build_init(struct gguf_build *g)
{
    *g = (struct gguf_build){0};
    buf_init(&g->values, 1 << 24);
    buf_init(&g->tensors, 1 << 24);
    buf_init(&g->data, 1 << 26);
}

static inline void gguf_build_key(struct gguf_build *g, const char *key, enum gguf_type type)
{
    gguf_build_text(&g->values, key, strlen(key));
    gguf_build_number(&g->values, type, 4);
    g->n_values++;
}

static inline void gguf_build_int(struct gguf_build *g, const char *key, uint32_t v)
{
    gguf_build_key(g, key, GGUF_U32);
    gguf_build_number(&g->values, v, 4);
}

static inline void gguf_build_float(struct gguf_build *g, const char *key, float v)
{
    gguf_build_key(g, key, GGUF_F32);
    buf_put(&g->values, &v, 4);
}

static inline void gguf_build_bool(struct gguf_build *g, const char *key, bool v)
{
    gguf_build_key(g, key, GGUF_BOOL);
    gguf_build_number(&g->values, v, 1);
}

static inline void gguf_build_str(struct gguf_build *g, const char *key, const char *v)
{
    gguf_build_key(g, key, GGUF_STR);
    gguf_build_text(&g->values, v, strlen(v));
}

static inline void gguf_build_strs(struct gguf_build *g, const char *key, const char *const *v, size_t n)
{
    gguf_build_key(g, key, GGUF_ARRAY);
    gguf_build_number(&g->values, GGUF_STR, 4);
    gguf_build_number(&g->values, n, 8);
    for (size_t i = 0; i < n; i++)
        gguf_build_text(&g->values, v[i], strlen(v[i]));
}

static inline void gguf_build_ints(struct gguf_build *g, const char *key, const int32_t *v, size_t n)
{
    gguf_build_key(g, key, GGUF_ARRAY);
    gguf_build_number(&g->values, GGUF_I32, 4);
    gguf_build_number(&g->values, n, 8);
    buf_put(&g->values, v, n * 4);
}

static inline void gguf_build_floats(struct gguf_build *g, const char *key, const float *v, size_t n)
{
    gguf_build_key(g, key, GGUF_ARRAY);
    gguf_build_number(&g->values, GGUF_F32, 4);
    gguf_build_number(&g->values, n, 8);
    buf_put(&g->values, v, n * 4);
}

/* cols 0: one dimension. p: n bytes of data. */
static inline void gguf_build_tensor(struct gguf_build *g, const char *name, uint32_t type, uint64_t rows,
                                     uint64_t cols, const void *p, size_t n)
{
    gguf_build_text(&g->tensors, name, strlen(name));
    gguf_build_number(&g->tensors, cols ? 2 : 1, 4);
    if (cols)
        gguf_build_number(&g->tensors, cols, 8);
    gguf_build_number(&g->tensors, rows, 8);
    gguf_build_number(&g->tensors, type, 4);
    gguf_build_number(&g->tensors, g->data.n, 8);
    buf_put(&g->data, p, n);
    while (g->data.n % 32)
        buf_putc(&g->data, 0);
    g->n_tensors++;
}

/* Writes dir/name and frees the builder's memory. */
static inline void gguf_build_write(struct gguf_build *g, const char *dir, const char *name)
{
    struct buf b;
    buf_init(&b, 1 << 26);
    buf_puts(&b, "GGUF");
    gguf_build_number(&b, 3, 4);
    gguf_build_number(&b, g->n_tensors, 8);
    gguf_build_number(&b, g->n_values, 8);
    buf_put(&b, g->values.p, g->values.n);
    buf_put(&b, g->tensors.p, g->tensors.n);
    while (b.n % 32)
        buf_putc(&b, 0);
    buf_put(&b, g->data.p, g->data.n);
    if (b.failed)
        abort();
    tmp_write(dir, name, b.p, b.n);
    buf_deinit(&b);
    buf_deinit(&g->values);
    buf_deinit(&g->tensors);
    buf_deinit(&g->data);
}

#endif
