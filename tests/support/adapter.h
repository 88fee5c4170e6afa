/* Adapters for tests, written down in a line: "q.lora_a:F32:64x8 q.lora_b:BF16:8x32" are the tensors and their shapes,
 * values about [-1, 1] that depend on the name and the place. */
#ifndef MLXCEL_TESTS_ADAPTER_H
#define MLXCEL_TESTS_ADAPTER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../support/tmp.h"
#include "base/arena.h"
#include "base/num.h"
#include "base/rng.h"
#include "formats/safetensors.h"
#include "quant/quant.h"

#define MLX_CONFIG                                                                                                     \
    "{\"fine_tune_type\": \"lora\", \"num_layers\": 2, \"lora_parameters\": {\"rank\": 4, \"scale\": 2.0}}"
#define DORA_CONFIG                                                                                                    \
    "{\"fine_tune_type\": \"dora\", \"num_layers\": 2, \"lora_parameters\": {\"rank\": 4, \"scale\": 2.0}}"
#define FULL_CONFIG "{\"fine_tune_type\": \"full\", \"lora_parameters\": null}"
#define PEFT_CONFIG(more) "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8" more "}"
#define ADAPTER_TENSORS_MAX 64

struct adapter_tensors {
    struct tensor_view v[ADAPTER_TENSORS_MAX];
    size_t             n;
    struct arena       arena;
};

/* Value i of the tensor of that name, before it is rounded to its type. */
static inline float adapter_value(const char *name, int64_t i)
{
    uint32_t h = 1;
    for (; *name; name++)
        h = h * 31 + (uint8_t)*name;
    return (float)(2 * rng_uniform(7, h, (uint64_t)i) - 1);
}

static inline void adapter_fill(struct adapter_tensors *a, struct tensor_view *t)
{
    char   *data = arena_calloc(&a->arena, t->size + 1, 1);
    int64_t n = tensor_view_elements(t);
    for (int64_t i = 0; dtype_is_float16_32(t->dtype) && i < n; i++) {
        float x = adapter_value(t->name, i);
        quant_narrow(t->dtype, &x, 1, data + (size_t)i * dtype_size(t->dtype));
    }
    t->data = data;
}

static inline void adapter_begin(struct adapter_tensors *a, const char *spec)
{
    char *copy, *save = NULL;
    a->n = 0;
    arena_init(&a->arena, (size_t)16 << 20);
    copy = arena_strdup(&a->arena, spec, strlen(spec));
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        struct tensor_view *t = &a->v[a->n++];
        char               *type = strchr(word, ':'), *shape = type ? strchr(type + 1, ':') : NULL;
        assert_true(shape && a->n <= ADAPTER_TENSORS_MAX);
        *type = *shape = '\0';
        *t = (struct tensor_view){.name = word, .dtype = dtype_from_name(str_of(type + 1))};
        for (char *at = shape + 1; *at; at += *at == 'x')
            t->shape[t->n_dim++] = strtol(at, &at, 10);
        assert_true(dtype_bytes(t->dtype, t->shape, t->n_dim, &t->size));
        adapter_fill(a, t);
    }
}

static inline struct tensor_view *adapter_tensor(struct adapter_tensors *a, const char *name)
{
    for (size_t i = 0; i < a->n; i++)
        if (!strcmp(a->v[i].name, name))
            return &a->v[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static inline void adapter_end(struct adapter_tensors *a, const char *dir, const char *file, const char *config)
{
    struct error e = {0};
    if (safetensors_write(tmp_path(dir, file), a->v, a->n, NULL, true, &e))
        fail_msg("%s", e.msg);
    if (config)
        tmp_puts(dir, "adapter_config.json", config);
    arena_deinit(&a->arena);
}

/* The whole of it: the file's name follows from the config. */
static inline void adapter_write(const char *dir, const char *config, const char *spec)
{
    struct adapter_tensors a;
    bool                   peft = config && strstr(config, "peft_type");
    adapter_begin(&a, spec);
    unlink(tmp_path(dir, peft ? "adapters.safetensors" : "adapter_model.safetensors"));
    adapter_end(&a, dir, peft ? "adapter_model.safetensors" : "adapters.safetensors", config);
}

#endif
