/* Loading, choosing, scaling and unloading adapters while the n-th allocation fails, for every n: each time one error, no
 * crash, no leak (under the address sanitizer), and everything as it was; a sequence for whose adapters there is no memory
 * fails alone. jansson's own allocations are left alone: its parser does not survive all of their failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/fail_alloc.h"
#include "mlxcel.h"

#define MODEL "tests/data/arch/llama-tied-f32"
#define ADAPTERS "tests/data/lora/mlx/"
#define SWEEP_MAX 200000
#define ANSWER 6

struct answer {
    int32_t token[ANSWER];
    int     n, finish, code;
};

static void collect(void *ctx, const struct mlxcel_event *ev)
{
    struct answer *a = ctx;
    if (ev->token >= 0)
        a->token[a->n++] = ev->token;
    a->finish = ev->finish;
    a->code = ev->error ? ev->error->code : 0;
}

static struct mlxcel *open_model(const struct mlxcel_lora_source *lora, size_t n, struct mlxcel_error *err)
{
    struct mlxcel_options o = {.threads = 1, .weights_only = true, .parallel = 2, .lora = lora, .n_lora = n};
    struct mlxcel        *m = NULL;
    mlxcel_open(&m, MODEL, &o, err);
    return m;
}

static int submit(struct mlxcel *m, const struct mlxcel_lora *lora, size_t n, struct answer *a,
                  struct mlxcel_error *err)
{
    static const int32_t prompt[] = {1, 5, 9, 2};
    struct mlxcel_params p;
    mlxcel_params_greedy(&p);
    p.max_tokens = ANSWER;
    p.no_cache_prompt = true;
    p.ignore_eos = true;
    p.lora = lora;
    p.n_lora = n;
    *a = (struct answer){0};
    return mlxcel_submit(m, prompt, 4, &p, collect, a, NULL, err);
}

static void run(struct mlxcel *m)
{
    for (int active = 1; active;)
        assert_int_equal(mlxcel_step(m, &active, NULL), 0);
}

/* ---- opening with adapters ---- */

static int open_with_adapters(struct mlxcel_error *err)
{
    static const struct mlxcel_lora_source lora[] = {{.path = ADAPTERS "plain", .fuse = true},
                                                     {.path = ADAPTERS "full"},
                                                     {.path = ADAPTERS "old-layers", .scale = 0.5f}};
    struct mlxcel                         *m = open_model(lora, 3, err);
    if (!m)
        return err->code;
    mlxcel_close(m);
    return 0;
}

static void test_opening(void **state)
{
    long n = 0;
    int  code;
    (void)state;
    do {
        struct mlxcel_error err = {0};
        failed = false;
        countdown = ++n;
        code = open_with_adapters(&err);
        countdown = -1;
        if (code && code != MLXCEL_ENOMEM)
            fail_msg("allocation %ld: code %d: %s", n, code, err.message);
    } while ((code || failed) && n < SWEEP_MAX);
    assert_int_equal(code, 0);
}

/* ---- an opened model ---- */

static int list_bytes(struct mlxcel *m, char out[1024])
{
    struct mlxcel_lora_info *list = NULL;
    size_t                   n = 0;
    int                      code = mlxcel_lora_list(m, &list, &n, NULL);
    out[0] = '\0';
    for (size_t i = 0; !code && i < n; i++)
        snprintf(out + strlen(out), 1024 - strlen(out), "%d %s %s %g;", list[i].id, list[i].name, list[i].path,
                 (double)list[i].scale);
    mlxcel_free(list);
    return code;
}

/* One change of the list of adapters; i counts the changes. */
static int change(struct mlxcel *m, int i, struct mlxcel_error *err)
{
    static const struct mlxcel_lora_source dora = {.path = ADAPTERS "dora", .name = "d"};
    static const struct mlxcel_lora_source full = {.path = ADAPTERS "full", .name = "d", .replace = true};
    static const struct mlxcel_lora        scales[] = {{0, 0.5f}, {1, 2}};
    char                                   text[1024];
    struct answer                          a;
    switch (i) {
    case 0:
        return mlxcel_lora_load(m, &dora, NULL, err);
    case 1:
        return mlxcel_lora_load(m, &full, NULL, err);
    case 2:
        return mlxcel_lora_set_scales(m, scales, 2, err);
    case 3:
        return list_bytes(m, text);
    case 4:
        i = submit(m, scales, 1, &a, err);
        run(m);
        return i ? i : a.code;
    default:
        return mlxcel_lora_unload(m, 1, err);
    }
}

static void test_changes(void **state)
{
    static const struct mlxcel_lora_source plain = {.path = ADAPTERS "plain"};
    struct mlxcel                         *m = open_model(&plain, 1, NULL);
    char                                   before[1024], after[1024];
    (void)state;
    assert_non_null(m);
    for (int i = 0; i < 6; i++) {
        long n = 0;
        int  code;
        do {
            struct mlxcel_error err = {0};
            assert_int_equal(list_bytes(m, before), 0);
            failed = false;
            countdown = ++n;
            code = change(m, i, &err);
            countdown = -1;
            assert_int_equal(list_bytes(m, after), 0);
            if (code)
                assert_string_equal(before, after);
            if (code && code != MLXCEL_ENOMEM)
                fail_msg("change %d, allocation %ld: code %d: %s", i, n, code, err.message);
        } while (code && n < SWEEP_MAX);
        assert_int_equal(code, 0);
    }
    assert_string_equal(after, "0 plain " ADAPTERS "plain 0.5;");
    mlxcel_close(m);
}

/* No memory for the scratch of an adapter: its sequence fails, the one beside it does not notice, and later there is. */
static void test_scratch(void **state)
{
    static const struct mlxcel_lora_source plain = {.path = ADAPTERS "plain", .idle = true};
    static const struct mlxcel_lora        choice = {0, 1};
    struct mlxcel                         *m = open_model(&plain, 1, NULL);
    struct answer                          alone, beside, adapted;
    int                                    active, failures = 0;
    (void)state;
    assert_non_null(m);
    assert_int_equal(submit(m, NULL, 0, &alone, NULL), 0);
    run(m);
    assert_int_equal(alone.n, ANSWER);
    do {
        assert_int_equal(submit(m, NULL, 0, &beside, NULL), 0);
        assert_int_equal(mlxcel_step(m, &active, NULL), 0);
        assert_int_equal(submit(m, &choice, 1, &adapted, NULL), 0);
        failed = false;
        countdown = failures + 1; /* the first allocations of the step are the scratch */
        assert_int_equal(mlxcel_step(m, &active, NULL), 0);
        countdown = -1;
        run(m);
        assert_int_equal(beside.finish, MLXCEL_LENGTH);
        assert_memory_equal(beside.token, alone.token, sizeof alone.token);
        failures += adapted.finish == MLXCEL_FAILED;
        if (adapted.finish == MLXCEL_FAILED)
            assert_int_equal(adapted.code, MLXCEL_ENOMEM);
    } while (adapted.finish == MLXCEL_FAILED);
    assert_true(failures > 0);
    assert_int_equal(adapted.n, ANSWER);
    mlxcel_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_opening), cmocka_unit_test(test_changes),
                                       cmocka_unit_test(test_scratch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
