/* Loading adapters and making sets of them while the n-th allocation fails, for every n: each time one error, the model as
 * it was, and (under the address sanitizer) no leak. */
#include "../support/adapter.h"

#include <jansson.h>

#include "../support/fail_alloc.h"
#include "adapt/adapt.h"
#include "arch/arch.h"
#include "cpu/cpu.h"

#define MODEL "tests/data/arch/llama-tied-f32" /* 60 features, 131 rows */
#define BASE "base_model.model."
#define Q "model.layers.0.self_attn.q_proj"
#define PAIR Q ".lora_a:F32:60x4 " Q ".lora_b:F32:4x60"
#define SWEEP_MAX 200000

static char           *dir;
static struct model   *model;
static struct backend *backend;

static int load_and_use(struct error *e)
{
    struct adapter     *a;
    struct adapter_set *s;
    int                 code = adapter_load(&a, dir, model, backend, NULL, e);
    if (code)
        return code;
    code = adapter_set_new(&s, (struct adapter_use[]){{a, 0.5f}}, 1, e);
    if (!code)
        adapter_set_unref(s);
    adapter_unref(a);
    return code;
}

static void sweep(const char *config, const char *spec, bool good)
{
    struct error e;
    long         n = 0;
    int          code;
    adapter_write(dir, config, spec);
    do {
        e = (struct error){0};
        failed = false;
        countdown = ++n;
        code = load_and_use(&e);
        countdown = -1;
        if (code)
            assert_true(e.msg[0]);
        /* jansson's parser words some of its own allocation failures as syntax errors */
        if (failed && code && code != ERR_NOMEM && !strstr(e.msg, "not valid JSON"))
            fail_msg("allocation %ld: code %d: %s", n, code, e.msg);
        if (failed && !code)
            fail_msg("allocation %ld failed and nobody said so", n);
    } while (failed && n < SWEEP_MAX);
    assert_int_equal(code == 0, good);
    print_message("%ld allocations\n", n - 1);
}

static void test_every_allocation(void **state)
{
    (void)state;
    json_set_alloc_funcs(jansson_malloc, free);
    sweep(MLX_CONFIG, PAIR " model.embed_tokens.lora_a:F32:131x4 model.embed_tokens.lora_b:F32:4x60", true);
    sweep(DORA_CONFIG, PAIR " " Q ".m:F32:60", true);
    sweep(FULL_CONFIG, "model.norm.weight:F32:60 " Q ".weight:F32:60x60", true);
    sweep(PEFT_CONFIG(", \"alpha_pattern\": {\"layers\\\\.[0-9]+\\\\..*\": 3}, \"target_parameters\": [\"x.weight\"], "
                      "\"init_lora_weights\": \"pissa\""),
          BASE Q ".lora_A.weight:F32:4x60 " BASE Q ".lora_B.weight:F32:60x4", true);
    /* faults are collected, which takes memory, too */
    sweep(MLX_CONFIG, PAIR " x.lora_a:F32:60x4 y.lora_a:I32:60x4 y.lora_b:F32:4x60", false);
}

static int set_up(void **state)
{
    struct model_options o = {.page_tokens = 16};
    (void)state;
    dir = tmp_make();
    return cpu_backend_new(&backend, &(struct cpu_options){.threads = 1, .level = -1}, NULL) ||
           model_load(&model, MODEL, arch_describe, backend, &o, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    model_free(model);
    backend->free(backend);
    tmp_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_every_allocation, set_up, tear_down)};
    countdown = -1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
