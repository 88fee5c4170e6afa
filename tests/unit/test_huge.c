/* Large arrays in shared regions: apart from each other, zeroed, aligned, given back with their last array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/huge.h"
#include "base/num.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define __asan_address_is_poisoned(p) ((void)(p), 1)
#endif

#define MB ((size_t)1 << 20)

static void test_arrays_are_apart(void **state)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 5 * MB, 70 * MB, 100, 60 * MB, 3};
    struct huge         h = {0};
    unsigned char      *p[ARRAY_LEN(sizes)];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        p[i] = huge_alloc(&h, sizes[i]);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 64, 0);
        for (size_t k = 0; k < sizes[i]; k += 61)
            assert_int_equal(p[i][k], 0);
        memset(p[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (size_t k = 0; k < sizes[i]; k += 61)
            assert_int_equal(p[i][k], i + 1);
    huge_deinit(&h);
    assert_null(h.head);
}

static int mapped(void *p)
{
    unsigned char core;
    void         *page = (void *)((char *)p - (uintptr_t)p % (uintptr_t)sysconf(_SC_PAGESIZE));
    return mincore(page, 1, &core) == 0;
}

static void test_a_region_ends_with_its_last_array(void **state)
{
    struct huge h = {0};
    (void)state;
    void *a = huge_alloc(&h, 40 * MB), *b = huge_alloc(&h, 40 * MB), *c = huge_alloc(&h, 1000);
    huge_free(&h, NULL);
    huge_free(&h, a);
    assert_false(mapped(a));
    huge_free(&h, c);
    assert_true(mapped(b));
    huge_free(&h, b);
    assert_false(mapped(b));
    assert_null(h.head);
    void *d = huge_alloc(&h, 10); /* still of use */
    assert_non_null(d);
    huge_free(&h, d);
    assert_null(h.head);
}

/* An array of no bytes that begins where a region is full belongs to it no less. */
static void test_nothing_at_the_end(void **state)
{
    struct huge h = {0};
    (void)state;
    void *a = huge_alloc(&h, 64 * MB - 64), *b = huge_alloc(&h, 0);
    huge_free(&h, a);
    assert_true(mapped(b));
    huge_free(&h, b);
    assert_null(h.head);
}

/* The address sanitizer sees what reaches beyond an array, to the byte. */
static void test_beyond_an_array(void **state)
{
    static const size_t sizes[] = {1, 64, 100, 4096, 3 * MB};
    struct huge         h = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char *p = huge_alloc(&h, sizes[i]);
        memset(p, 1, sizes[i]);
        assert_true(__asan_address_is_poisoned(p + sizes[i]));
    }
    huge_deinit(&h);
}

static void test_too_much(void **state)
{
    struct huge h = {0};
    (void)state;
    assert_null(huge_alloc(&h, SIZE_MAX));
    assert_null(huge_alloc(&h, SIZE_MAX - 63));
    assert_null(huge_alloc(&h, SIZE_MAX / 2));
    assert_null(h.head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays_are_apart),   cmocka_unit_test(test_a_region_ends_with_its_last_array),
        cmocka_unit_test(test_nothing_at_the_end), cmocka_unit_test(test_beyond_an_array),
        cmocka_unit_test(test_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
