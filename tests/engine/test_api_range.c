/* Layer ranges through mlxcel.h: what such an object says, loads and refuses. test_layer_range.c has the arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "mlxcel.h"

#define MODEL "tests/data/arch/qwen3-tied-f32"

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_info), cmocka_unit_test(test_bad_ranges),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
