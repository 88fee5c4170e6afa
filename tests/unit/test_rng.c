/* Philox4x32-10 against the known answers that its authors publish with their library (Random123, kat_vectors), and the
 * uniform numbers made from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"

static void known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], image[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, /* digits of pi */
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        uint32_t c[4];
        for (int i = 0; i < 4; i++)
            c[i] = rows[r].counter[i];
        rng_philox(c, rows[r].key);
        for (int i = 0; i < 4; i++)
            assert_int_equal(c[i], rows[r].image[i]);
    }
}

static void uniform_is_the_first_two_words(void **state)
{
    (void)state;
    assert_true(rng_uniform(0, 0, 0) == (double)(0x6627e8d5e169c58dull >> 11) * 0x1p-53);
}

/* Every bit of seed, choice and index matters. */
static void all_inputs_count(void **state)
{
    double base = rng_uniform(7, 3, 11);
    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        assert_true(rng_uniform(7 ^ 1ull << bit, 3, 11) != base);
        assert_true(rng_uniform(7, 3, 11 ^ 1ull << bit) != base);
    }
    for (int bit = 0; bit < 32; bit++)
        assert_true(rng_uniform(7, 3 ^ 1u << bit, 11) != base);
    assert_true(rng_uniform(7, 3, 11) == base);
}

/* Chi-square of 100,000 draws in 100 cells: 99 degrees of freedom, 0.1 % and 99.9 % points 60.8 and 148.2. */
static void uniform_is_uniform(void **state)
{
    enum { CELLS = 100, DRAWS = 100000 };
    int    count[CELLS] = {0};
    double chi = 0;
    (void)state;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double u = rng_uniform(42, 0, i);
        assert_true(u >= 0 && u < 1);
        count[(int)(u * CELLS)]++;
    }
    for (int i = 0; i < CELLS; i++)
        chi += (count[i] - (double)DRAWS / CELLS) * (count[i] - (double)DRAWS / CELLS) / ((double)DRAWS / CELLS);
    assert_true(chi > 60.8 && chi < 148.2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(uniform_is_the_first_two_words),
        cmocka_unit_test(all_inputs_count),
        cmocka_unit_test(uniform_is_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
