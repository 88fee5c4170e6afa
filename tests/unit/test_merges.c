/* Merges that a vocabulary implies: which there are, and their order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/num.h"
#include "text/merges.h"

/*                                   0    1    2    3     4     5      6       7 (two characters) */
static const char *const tokens[] = {"b",
                                     "a",
                                     "c",
                                     "ab",
                                     "bc",
                                     "abc",
                                     "abcx",
                                     ("\xc3\xa9"
                                      "a")};

static void make(struct vocab *v)
{
    vocab_init(v);
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++)
        assert_true(vocab_put(v, (int32_t)i, str_of(tokens[i])));
    assert_true(vocab_index(v, NULL));
}

static void expect(const struct merges *m, const struct merge *want, size_t n)
{
    assert_int_equal(m->n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(m->v[i].left, want[i].left);
        assert_int_equal(m->v[i].right, want[i].right);
        assert_int_equal(m->v[i].made, want[i].made);
    }
}

static void by_order(void **state)
{
    static const int32_t      order[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const struct merge shorter_left[] = {{1, 0, 3}, {0, 2, 4}, {1, 4, 5}, {3, 2, 5}};
    struct merges_rule        rule = {.order = order, .n_order = 8};
    struct merges             m = {0};
    struct vocab              v;
    (void)state;
    make(&v);
    assert_int_equal(merges_derive(&m, &v, &rule, NULL), 0);
    expect(&m, shorter_left, 4);
    merges_deinit(&m);
    vocab_deinit(&v);
}

/* The ids of the left parts decide, not their lengths. */
static void by_left_id(void **state)
{
    static const char *const  words[] = {"xy", "x", "y", "z", "yz", "xyz"};
    static const int32_t      order[] = {5};
    static const struct merge want[] = {{0, 3, 5}, {1, 4, 5}};
    struct merges_rule        rule = {.order = order, .n_order = 1, .by_left_id = true};
    struct merges             m = {0};
    struct vocab              v;
    (void)state;
    vocab_init(&v);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        assert_true(vocab_put(&v, (int32_t)i, str_of(words[i])));
    assert_true(vocab_index(&v, NULL));
    assert_int_equal(merges_derive(&m, &v, &rule, NULL), 0);
    expect(&m, want, 2);
    merges_deinit(&m);
    vocab_deinit(&v);
}

static void by_score(void **state)
{
    static const float        scores[] = {0, 0, 0, -3, -2, -2, 0, 0};
    static const uint8_t      all[] = {1, 1, 1, 1, 1, 1, 1, 1}, some[] = {1, 1, 1, 0, 1, 1, 1, 1};
    static const struct merge want[] = {{0, 2, 4}, {1, 4, 5}, {3, 2, 5}, {1, 0, 3}}, less[] = {{0, 2, 4}, {1, 4, 5}};
    struct merges             m = {0};
    struct vocab              v;
    (void)state;
    make(&v);
    assert_int_equal(merges_derive_by_score(&m, &v, scores, all, NULL), 0);
    expect(&m, want, 4);
    merges_deinit(&m);
    assert_int_equal(merges_derive_by_score(&m, &v, scores, some, NULL), 0); /* neither made nor a part */
    expect(&m, less, 2);
    merges_deinit(&m);
    vocab_deinit(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_order), cmocka_unit_test(by_left_id),
                                       cmocka_unit_test(by_score)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
