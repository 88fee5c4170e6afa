/* Levels: names both ways, and that the detected level really runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/kernels.h"
#include "cpu/rows.h"

static void test_names(void **state)
{
    (void)state;
    for (int l = 0; l < CPU_LEVELS; l++)
        assert_int_equal(cpu_level_from_name(cpu_level_name((enum cpu_level)l)), l);
    assert_string_equal(cpu_level_name(CPU_AVX512VNNI), "avx512vnni");
    assert_int_equal(cpu_level_from_name("AVX2"), -1);
    assert_int_equal(cpu_level_from_name(""), -1);
    assert_string_equal(cpu_level_name(CPU_LEVELS), "unknown");
}

static void test_detected_level_runs(void **state)
{
    float x[33], y[33];
    (void)state;
    assert_in_range(cpu_level_detect(), CPU_SCALAR, CPU_LEVELS - 1);
    assert_int_equal(cpu_level_detect(), cpu_level_detect());
    for (int l = 0; l <= (int)cpu_level_detect(); l++) {
        for (int i = 0; i < 33; i++)
            x[i] = y[i] = (float)i;
        row_fns_for((enum cpu_level)l)->add(x, y, 33);
        for (int i = 0; i < 33; i++)
            assert_true(y[i] == 2 * x[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_detected_level_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
