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
    assert_string_equal(cpu_level_name(CPU_AVX512BF16), "avx512bf16");
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
    assert_true(cpu_level_runs(CPU_SCALAR) && cpu_level_runs(cpu_level_detect()));
    assert_false(cpu_level_runs(CPU_LEVELS));
    for (int l = 0; l < CPU_LEVELS; l++) {
        if (!cpu_level_runs((enum cpu_level)l))
            continue;
        for (int i = 0; i < 33; i++)
            x[i] = y[i] = (float)i;
        row_fns_for((enum cpu_level)l)->add(x, 1, y, 33);
        for (int i = 0; i < 33; i++)
            assert_true(y[i] == 2 * x[i]);
    }
}

static void test_lists(void **state)
{
    char all[CPU_LEVEL_LIST_SIZE], runs[CPU_LEVEL_LIST_SIZE];
    (void)state;
    assert_string_equal(cpu_level_list(false, all), "scalar, avx2, avx512, avx512vnni, avx512bf16, neon, neondot");
    assert_ptr_equal(strstr(cpu_level_list(true, runs), "scalar"), runs);
    assert_true(strlen(runs) < strlen(all)); /* no machine is of two architectures */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_detected_level_runs),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
