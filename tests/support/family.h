/* Checkpoints of the model families for tests in C: the recipes of tests/data/families with random values, and an adapter over
 * whatever matrices a model has. The values are of the recipes' kinds, but not those that familylib.py draws: what is compared
 * is the program with itself. Included behind cmocka.h. */
#ifndef MLXCEL_TESTS_FAMILY_H
#define MLXCEL_TESTS_FAMILY_H

#include <jansson.h>

#include "support/adapter.h"
#include "support/fixture.h"

#define FAMILIES "tests/data/families/"

/* The least and the greatest value of a kind ("uniform -2", "norm"); familylib.py has the same kinds. */
static inline void family_range(const char *kind, float *low, float *high)
{
    static const struct {
        const char *kind;
        float       low, high;
    } ranges[] = {{"norm", 0.5f, 1.5f}, {"norm0", -0.5f, 0.5f}, {"decay", -2.5f, 1.5f}, {"dt", -3, 1}};
    int scale = 0;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (!strcmp(kind, ranges[i].kind)) {
            *low = ranges[i].low;
            *high = ranges[i].high;
            return;
        }
    if (sscanf(kind, "uniform %d", &scale) != 1)
        fail_msg("values of the kind \"%s\" are not made here", kind);
    *high = ldexpf(1, scale);
    *low = -*high;
}

static inline void family_fill(struct arena *a, struct tensor_view *t, const char *kind)
{
    int64_t  n = tensor_view_elements(t);
    float   *x = arena_calloc(a, (size_t)n, sizeof *x), low, high;
    char    *data = arena_alloc(a, t->size);
    uint32_t h = 1;
    assert_true(x && data);
    family_range(kind, &low, &high);
    for (const char *c = t->name; *c; c++)
        h = h * 31 + (uint8_t)*c;
    for (int64_t i = 0; i < n; i++)
        x[i] = low + (high - low) * (float)rng_uniform(7, h, (uint64_t)i);
    quant_narrow(t->dtype, x, n, data);
    t->data = data;
}

static inline void family_copy_config(const char *dir, const char *name)
{
    char path[256], text[8192];
    snprintf(path, sizeof path, FAMILIES "%s/config.json", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    assert_true(n < sizeof text);
    tmp_write(dir, "config.json", text, n);
}

/* Writes the checkpoint of the family's recipe to dir. */
static inline void family_write(const char *dir, const char *name)
{
    char         path[256];
    struct error e = {0};
    struct arena arena;
    size_t       n = 0;
    const char  *key;
    json_t      *row;
    snprintf(path, sizeof path, FAMILIES "%s/tensors.json", name);
    json_t *recipe = json_load_file(path, 0, NULL);
    assert_non_null(recipe);
    family_copy_config(dir, name);
    arena_init(&arena, (size_t)64 << 20);
    struct tensor_view *v = arena_calloc(&arena, json_object_size(recipe), sizeof *v);
    json_object_foreach(recipe, key, row)
    {
        struct tensor_view *t = &v[n++];
        const char         *dtype = json_string_value(json_array_get(row, 0));
        json_t             *shape = json_array_get(row, 1);
        *t = (struct tensor_view){
            .name = key, .dtype = dtype_from_name(str_of(dtype)), .n_dim = (int)json_array_size(shape)};
        for (int i = 0; i < t->n_dim; i++)
            t->shape[i] = json_integer_value(json_array_get(shape, (size_t)i));
        assert_true(dtype_bytes(t->dtype, t->shape, t->n_dim, &t->size));
        family_fill(&arena, t, json_string_value(json_array_get(row, 2)));
    }
    if (safetensors_write(tmp_path(dir, "model.safetensors"), v, n, NULL, true, &e))
        fail_msg("%s", e.msg);
    json_decref(recipe);
    arena_deinit(&arena);
}

/* Writes an adapter over the model's matrices (the first ones, if it has very many) to dir. */
static inline void family_adapter_write(const char *dir, const struct model *m)
{
    char   spec[ADAPTER_TENSORS_MAX * 160];
    size_t at = 0;
    int    left = ADAPTER_TENSORS_MAX / 2;
    for (size_t i = 0; i < m->params.n; i++) {
        const struct param *p = &m->params.v[i];
        if (p->role == ROLE_LINEAR && p->n_dim == 2 && left-- > 0)
            at += (size_t)snprintf(spec + at, sizeof spec - at, "%s.lora_a:F32:%dx4 %s.lora_b:F32:4x%d ", p->name,
                                   (int)p->shape[1], p->name, (int)p->shape[0]);
        assert_true(at < sizeof spec);
    }
    adapter_write(dir,
                  "{\"fine_tune_type\": \"lora\", \"num_layers\": -1, \"lora_parameters\": {\"rank\": 4, \"scale\": "
                  "0.02}}",
                  spec);
}

#endif
