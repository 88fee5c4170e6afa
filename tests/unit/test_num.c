/* Checked arithmetic and numbers given as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"

static void checked_arithmetic(void **state)
{
    size_t  r;
    int64_t i;
    int     n;
    (void)state;
    assert_true(num_add(SIZE_MAX - 1, (size_t)1, &r) && r == SIZE_MAX);
    assert_false(num_add(SIZE_MAX, (size_t)1, &r));
    assert_true(num_sub((size_t)5, (size_t)5, &r) && r == 0);
    assert_false(num_sub((size_t)5, (size_t)6, &r));
    assert_true(num_mul((size_t)1 << 32, ((size_t)1 << 32) - 1, &r));
    assert_false(num_mul((size_t)1 << 32, (size_t)1 << 32, &r));
    assert_false(num_mul(INT64_MAX, (int64_t)2, &i));
    assert_false(num_mul(INT64_MIN, (int64_t)-1, &i));
    assert_false(num_add(INT64_MIN, (int64_t)-1, &i));
    assert_false(num_add((int64_t)1 << 31, (int64_t)0, &n)); /* the result's type counts */
    assert_false(num_sub((size_t)0, (size_t)1, &r));
}

static void alignment(void **state)
{
    size_t r;
    (void)state;
    assert_true(num_align(0, 64, &r) && r == 0);
    assert_true(num_align(1, 64, &r) && r == 64);
    assert_true(num_align(64, 64, &r) && r == 64);
    assert_true(num_align(65, 64, &r) && r == 128);
    assert_true(num_align(SIZE_MAX - 63, 64, &r) && r == SIZE_MAX - 63);
    assert_false(num_align(SIZE_MAX - 62, 64, &r));
    assert_false(num_align(SIZE_MAX, 16, &r));
}

static void macros(void **state)
{
    int v[7];
    (void)state;
    assert_int_equal(ARRAY_LEN(v), 7);
    assert_int_equal(MIN(3, 4), 3);
    assert_int_equal(MAX(3, 4), 4);
}

static void whole_numbers(void **state)
{
    static const struct {
        const char *text;
        int64_t     value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"+5", 5},
                {"007", 7},
                {"-12", -12},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    static const char *const bad[] = {"",
                                      " ",
                                      " 1",
                                      "1 ",
                                      "\t1",
                                      "1\n",
                                      "1.0",
                                      "1e3",
                                      "0x10",
                                      "abc",
                                      "1a",
                                      "--1",
                                      "+",
                                      "-",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999"};
    int64_t                  v = 77;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(num_parse_i64(good[i].text, &v));
        assert_true(v == good[i].value);
    }
    v = 77;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(num_parse_i64(bad[i], &v));
        assert_int_equal(v, 77);
    }
}

static void real_numbers(void **state)
{
    static const struct {
        const char *text;
        double      value;
    } good[] = {{"0", 0},      {"-1.5", -1.5},         {".5", 0.5}, {"1e3", 1000}, {"1e308", 1e308},
                {"1e-400", 0}, {"4.9e-324", 4.9e-324}, {"0x10", 16}};
    static const char *const bad[] = {"",    " 1",   "1 ",       "1.0x",  "e5",     ".",   "nan",
                                      "inf", "-inf", "infinity", "1e309", "-1e999", "1,5", "1e"};
    double                   v = 77;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(num_parse_f64(good[i].text, &v));
        assert_true(v == good[i].value);
    }
    v = 77;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(num_parse_f64(bad[i], &v));
        assert_true(v == 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked_arithmetic), cmocka_unit_test(alignment),    cmocka_unit_test(macros),
        cmocka_unit_test(whole_numbers),      cmocka_unit_test(real_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
