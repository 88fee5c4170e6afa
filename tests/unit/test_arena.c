/* Arenas: alignment, stable pointers, the limit, overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

static void allocations_are_aligned_and_apart(void **state)
{
    struct arena a;
    char        *p[500];
    (void)state;
    arena_init(&a, 1 << 24);
    for (size_t i = 0; i < 500; i++) {
        p[i] = arena_alloc(&a, i * 7);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 16, 0);
        memset(p[i], (int)i, i * 7);
    }
    for (size_t i = 0; i < 500; i++) /* none moved, none overlaps another */
        for (size_t k = 0; k < i * 7; k++)
            assert_int_equal((unsigned char)p[i][k], i & 255);
    arena_deinit(&a);
}

static void zero_bytes_are_an_address(void **state)
{
    struct arena a;
    (void)state;
    arena_init(&a, 1000);
    void *p = arena_alloc(&a, 0), *q = arena_alloc(&a, 0);
    assert_non_null(p);
    assert_ptr_not_equal(p, q);
    assert_non_null(arena_calloc(&a, 0, 100));
    arena_deinit(&a);
}

static void the_limit_holds(void **state)
{
    struct arena a;
    (void)state;
    arena_init(&a, 160);
    for (int i = 0; i < 10; i++)
        assert_non_null(arena_alloc(&a, 16));
    assert_false(a.full);
    assert_null(arena_alloc(&a, 1));
    assert_null(arena_alloc(&a, 0));
    assert_true(a.full);
    arena_reset(&a);
    assert_int_equal(a.used, 0);
    assert_false(a.full);
    assert_null(arena_alloc(&a, 161));
    assert_non_null(arena_alloc(&a, 160));
    assert_null(arena_alloc(&a, 1));
    arena_deinit(&a);
    assert_null(arena_alloc(&a, 1)); /* deinit leaves no room */
    arena_deinit(&a);
    struct arena zero = {0};
    assert_null(arena_alloc(&zero, 1));
    arena_deinit(&zero);
}

static void overflow_is_a_failure(void **state)
{
    struct arena a;
    (void)state;
    arena_init(&a, SIZE_MAX);
    assert_non_null(arena_alloc(&a, 100));
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_alloc(&a, SIZE_MAX - 15));
    assert_null(arena_calloc(&a, SIZE_MAX / 2, 3));
    assert_null(arena_calloc(&a, (size_t)1 << 33, (size_t)1 << 31));
    assert_null(arena_strdup(&a, "", SIZE_MAX));
    assert_non_null(arena_alloc(&a, 100)); /* still usable */
    arena_deinit(&a);
}

static void large_blocks_beside_small_ones(void **state)
{
    struct arena a;
    (void)state;
    arena_init(&a, (size_t)64 << 20);
    char *small = arena_alloc(&a, 10);
    memset(small, 1, 10);
    char *large = arena_calloc(&a, 3 << 20, 4);
    for (size_t i = 0; i < (size_t)12 << 20; i += 4096)
        assert_int_equal(large[i], 0);
    assert_int_equal(small[9], 1);
    arena_reset(&a);
    assert_non_null(arena_alloc(&a, 10));
    arena_deinit(&a);
}

static void texts(void **state)
{
    struct arena a;
    (void)state;
    arena_init(&a, 4096);
    char *s = arena_strdup(&a, "abcdef", 3);
    assert_string_equal(s, "abc");
    assert_string_equal(arena_strdup(&a, NULL, 0), "");
    assert_string_equal(arena_printf(&a, "%s-%d", s, 7), "abc-7");
    assert_string_equal(arena_printf(&a, "%s", ""), "");
    assert_null(arena_printf(&a, "%5000d", 1));
    arena_deinit(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_aligned_and_apart),
        cmocka_unit_test(zero_bytes_are_an_address),
        cmocka_unit_test(the_limit_holds),
        cmocka_unit_test(overflow_is_a_failure),
        cmocka_unit_test(large_blocks_beside_small_ones),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
