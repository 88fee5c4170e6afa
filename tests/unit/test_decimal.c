/* Decimal numbers as the reference's JSON reader makes them: values it printed after reading the left side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "text/decimal.h"

static void test_values(void **state)
{
    static const struct {
        const char *text;
        double      value;
    } cases[] = {
        {"0", 0},
        {"-0.0", 0},
        {"-5.5", -5.5},
        {"12", 12},
        {"1e3", 1000},
        {"-2.5E-2", -0.025},
        {"1.5e+2", 150},
        /* the nearest double is ...766 */
        {"-2.0122928619384766", -2.012292861938477},
        {"-8.123456789012344", -8.123456789012344},
        {"-10.024300128479336", -10.024300128479336},
        /* more digits than 64 bits hold: the rest is dropped */
        {"1.00000000000000000000000000009", 1},
        {"123456789012345678901234567890", 1.2345678901234568e29},
        {"1e-400", 0},
        {"5e-324", 5e-324},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (decimal_read(str_of(cases[i].text)) != cases[i].value)
            fail_msg("%s: %.17g, wanted %.17g", cases[i].text, decimal_read(str_of(cases[i].text)), cases[i].value);
    assert_true(isinf(decimal_read(STR("1e400"))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
