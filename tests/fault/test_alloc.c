/* Opening a model and answering a prompt while the n-th allocation fails, for every n: each time one error, no crash,
 * and (under the address sanitizer) no leak. The last round, in which nothing fails any more, must succeed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "../support/fail_alloc.h"
#include "mlxcel.h"

#define MODEL "tests/data/arch/qwen3-q8-g32-f32"
#define SWEEP_MAX 200000

static int open_and_answer(struct mlxcel_error *err)
{
    static const int32_t  prompt[] = {1, 5, 9, 2};
    struct mlxcel_options o = {.threads = 1, .weights_only = true};
    struct mlxcel_params  p;
    struct mlxcel        *m;
    mlxcel_params_greedy(&p);
    p.max_tokens = 3;
    int code = mlxcel_open(&m, MODEL, &o, err);
    if (code)
        return code;
    code = mlxcel_generate(m, prompt, 4, &p, NULL, NULL, err);
    mlxcel_close(m);
    return code;
}

static void test_every_allocation(void **state)
{
    long n = 0;
    int  code;
    (void)state;
    json_set_alloc_funcs(__wrap_malloc, free);
    do {
        struct mlxcel_error err = {0};
        failed = false;
        countdown = ++n;
        code = open_and_answer(&err);
        countdown = -1;
        if (code) {
            assert_true(failed);
            assert_true(strlen(err.message) > 0);
            /* jansson's parser words some of its own allocation failures as syntax errors */
            if (code != MLXCEL_ENOMEM && !strstr(err.message, "not valid JSON"))
                fail_msg("allocation %ld: code %d: %s", n, code, err.message);
        }
    } while ((code || failed) && n < SWEEP_MAX);
    assert_int_equal(code, 0);
    assert_false(failed);
    print_message("%ld allocations\n", n - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
