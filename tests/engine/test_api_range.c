/* Layer ranges through mlxcel.h: what such an object says, loads and refuses. test_layer_range.c has the arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "formats/safetensors.h"
#include "mlxcel.h"
#include "support/scratch.h"

#define MODEL "tests/data/arch/qwen3-tied-f32" /* 3 layers, width 52, q_proj [60, 52], 131 tokens, its head tied */

static struct mlxcel *open_range(int lo, int hi)
{
    struct mlxcel_options o = {.threads = 1, .weights_only = true, .layer_lo = lo, .layer_hi = hi};
    struct mlxcel_error   e = {0};
    struct mlxcel        *m = NULL;
    if (mlxcel_open(&m, MODEL, &o, &e))
        fail_msg("%s", e.message);
    return m;
}

static void test_info(void **state)
{
    static const int ranges[][4] = {{0, 0, 0, 3}, {0, 1, 0, 1}, {1, 0, 1, 3}, {1, 2, 1, 2}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
        struct mlxcel     *m = open_range(ranges[i][0], ranges[i][1]);
        struct mlxcel_info info;
        mlxcel_get_info(m, &info);
        assert_int_equal(info.layer_lo, ranges[i][2]);
        assert_int_equal(info.layer_hi, ranges[i][3]);
        assert_int_equal(info.n_layer, 3);
        mlxcel_close(m);
    }
}

static void test_bad_ranges(void **state)
{
    static const int bad[][2] = {{-1, 1}, {2, 2}, {2, 1}, {3, 0}, {0, 4}, {0, -1}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct mlxcel_options o = {.weights_only = true, .layer_lo = bad[i][0], .layer_hi = bad[i][1]};
        struct mlxcel_error   e = {0};
        struct mlxcel        *m = NULL;
        assert_int_equal(mlxcel_open(&m, MODEL, &o, &e), MLXCEL_EINVALID);
        assert_non_null(strstr(e.message, "is not within the model's 3 layers"));
        assert_null(m);
    }
}

/* A stage does not compute by itself; the whole does. */
static void test_refusals(void **state)
{
    static const int     ranges[][2] = {{0, 2}, {1, 3}, {0, 3}};
    static const int32_t ids[] = {1, 2, 3};
    static float         logits[3 * 4096];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
        bool                 whole = i == 2;
        struct mlxcel       *m = open_range(ranges[i][0], ranges[i][1]);
        struct mlxcel_params params = {.max_tokens = 2};
        struct mlxcel_error  e[3] = {{0}};
        int64_t              id;
        int                  want = whole ? 0 : MLXCEL_EUNSUPPORTED;
        assert_int_equal(mlxcel_logits(m, ids, 3, 0, logits, &e[0]), want);
        assert_int_equal(mlxcel_generate(m, ids, 3, &params, NULL, NULL, &e[1]), want);
        assert_int_equal(mlxcel_submit(m, ids, 3, &params, NULL, NULL, &id, &e[2]), want);
        for (int k = 0; k < 3 && !whole; k++)
            if (!strstr(e[k].message,
                        i ? "only layers [1, 3) of the model's 3" : "only layers [0, 2) of the model's 3"))
                fail_msg("%s", e[k].message);
        mlxcel_close(m);
    }
}

/* --- adapters ----------------------------------------------------------------------------------------------------- */

enum { RANK = 2, WIDTH = 52, Q_OUT = 60, VOCAB = 131, PAIRS_MAX = 8 };

struct pair {
    const char *module;
    int64_t     a[2], b[2];
};

#define Q(layer, width)                                                                                                \
    {                                                                                                                  \
        "model.layers." layer ".self_attn.q_proj", {width, RANK},                                                      \
        {                                                                                                              \
            RANK, Q_OUT                                                                                                \
        }                                                                                                              \
    }
#define EMBED                                                                                                          \
    {                                                                                                                  \
        "model.embed_tokens", {VOCAB, RANK},                                                                           \
        {                                                                                                              \
            RANK, WIDTH                                                                                                \
        }                                                                                                              \
    }
#define HEAD                                                                                                           \
    {                                                                                                                  \
        "lm_head", {WIDTH, RANK},                                                                                      \
        {                                                                                                              \
            RANK, VOCAB                                                                                                \
        }                                                                                                              \
    }
#define WHOLE Q("0", WIDTH), Q("1", WIDTH), Q("2", WIDTH), EMBED, HEAD

/* An adapter of mlx-lm, its values all 1. */
static void write_adapter(const struct pair *pair)
{
    static float       ones[VOCAB * RANK];
    static char        name[PAIRS_MAX * 2][64];
    struct tensor_view v[PAIRS_MAX * 2];
    size_t             n = 0;
    for (size_t i = 0; i < ARRAY_LEN(ones); i++)
        ones[i] = 1;
    for (; pair->module; pair++)
        for (int half = 0; half < 2; half++, n++) {
            const int64_t *shape = half ? pair->b : pair->a;
            snprintf(name[n], sizeof name[n], "%s.lora_%c", pair->module, half ? 'b' : 'a');
            v[n] = (struct tensor_view){.name = name[n], .dtype = DTYPE_F32, .n_dim = 2, .data = ones};
            memcpy(v[n].shape, shape, 2 * sizeof *shape);
            v[n].size = (size_t)(shape[0] * shape[1]) * sizeof *ones;
        }
    tmp_puts(dir, "adapter_config.json", "{\"lora_parameters\": {\"rank\": 2, \"scale\": 1.0}}");
    assert_int_equal(safetensors_write(tmp_path(dir, "adapters.safetensors"), v, n, NULL, true, NULL), 0);
}

static const struct {
    int         lo, hi;
    struct pair pair[PAIRS_MAX];
    const char *refused; /* NULL: it loads */
} adapters[] = {
    {0, 3, {WHOLE}, NULL},
    {0, 1, {WHOLE}, NULL},
    {1, 2, {WHOLE}, NULL},
    {2, 3, {WHOLE}, NULL},
    /* Its own must fit. */
    {1,
     3,
     {Q("0", WIDTH), Q("1", 51), EMBED},
     "model.layers.1.self_attn.q_proj takes 52 input features and produces 60; lora_a is [51, 2]"},
    {0, 1, {Q("0", 51), Q("1", WIDTH)}, "model.layers.0.self_attn.q_proj takes 52"},
    {0, 1, {{"model.embed_tokens", {130, RANK}, {RANK, WIDTH}}}, "model.embed_tokens holds 131 rows"},
    {2, 3, {{"lm_head", {WIDTH, RANK}, {RANK, 130}}}, "lm_head takes 52 input features and produces 131"},
    /* Those of others need not. */
    {1, 2, {Q("0", 51), Q("1", WIDTH), Q("2", 9)}, NULL},
    {1, 2, {{"model.embed_tokens", {130, RANK}, {RANK, WIDTH}}, {"lm_head", {9, RANK}, {RANK, 9}}}, NULL},
    /* What the whole model does not have is refused by every part of it. */
    {0,
     1,
     {Q("0", WIDTH), Q("3", WIDTH)},
     "model.layers.3.self_attn.q_proj is no layer of the qwen3 model, which has layers 0 to 2"},
    {1, 2, {{"model.layers.0.mlp.gate", {WIDTH, RANK}, {RANK, 8}}}, "model.layers.0.mlp.gate is no layer"},
};

static void test_adapters(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(adapters); i++) {
        struct mlxcel            *m = open_range(adapters[i].lo, adapters[i].hi);
        struct mlxcel_lora_source source = {.path = dir};
        struct mlxcel_lora_info  *list = NULL;
        struct mlxcel_error       e = {0};
        size_t                    n = 0;
        write_adapter(adapters[i].pair);
        int rc = mlxcel_lora_load(m, &source, NULL, &e);
        if (!adapters[i].refused != !rc || (rc && !strstr(e.message, adapters[i].refused)))
            fail_msg("%zu: %s", i, e.message);
        assert_int_equal(mlxcel_lora_list(m, &list, &n, &e), 0);
        assert_int_equal(n, rc ? 0 : 1);
        mlxcel_free(list);
        mlxcel_close(m);
    }
}

/* Memory is for the pairs that the object has: a layer's, the embedding's, the head's. */
static void test_memory(void **state)
{
    static const int         ranges[][2] = {{0, 3}, {0, 1}, {1, 2}, {2, 3}};
    static const struct pair whole[] = {WHOLE, {NULL, {0}, {0}}};
    int64_t                  bytes[ARRAY_LEN(ranges)];
    (void)state;
    write_adapter(whole);
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
        struct mlxcel            *m = open_range(ranges[i][0], ranges[i][1]);
        struct mlxcel_lora_source source = {.path = dir};
        struct mlxcel_info        info;
        assert_int_equal(mlxcel_lora_load(m, &source, NULL, NULL), 0);
        mlxcel_get_info(m, &info);
        bytes[i] = info.lora_bytes;
        mlxcel_close(m);
    }
    assert_true(bytes[2] < bytes[1] && bytes[2] < bytes[3] && bytes[1] < bytes[0] && bytes[3] < bytes[0]);
}

/* Fused at opening, too. */
static void test_fused(void **state)
{
    static const struct pair good[] = {Q("0", WIDTH), Q("1", WIDTH), Q("2", WIDTH), EMBED, {NULL, {0}, {0}}};
    static const struct pair bad[] = {Q("0", WIDTH), Q("1", 51), {NULL, {0}, {0}}};
    (void)state;
    for (int lo = 0; lo < 3; lo++)
        for (int k = 0; k < 2; k++) {
            struct mlxcel_lora_source source = {.path = dir, .fuse = true};
            struct mlxcel_options     o = {
                    .weights_only = true, .layer_lo = lo, .layer_hi = lo + 1, .lora = &source, .n_lora = 1};
            struct mlxcel_error e = {0};
            struct mlxcel      *m = NULL;
            write_adapter(k ? bad : good);
            int rc = mlxcel_open(&m, MODEL, &o, &e);
            if (rc != (k && lo == 1 ? MLXCEL_EMISFIT : 0))
                fail_msg("layer %d: %s", lo, e.message);
            mlxcel_close(m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_info),     cmocka_unit_test(test_bad_ranges),
                                       cmocka_unit_test(test_refusals), cmocka_unit_test(test_adapters),
                                       cmocka_unit_test(test_memory),   cmocka_unit_test(test_fused)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
