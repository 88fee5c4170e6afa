/* Cache pages and the prefix cache: counts of references, sharing, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cache/prefix.h"

#define BYTES 256
#define TOKENS 64

static struct page_pool *pool(int64_t max)
{
    struct page_pool *p;
    assert_int_equal(page_pool_new(&p, BYTES, TOKENS, max, NULL), 0);
    return p;
}

static void test_limit_and_reuse(void **state)
{
    struct page_pool *p = pool(3);
    void             *v[3];
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_non_null(v[i] = page_take(p));
    assert_null(page_take(p));
    assert_int_equal(page_pool_available(p), 0);
    page_ref(p, v[1]);
    page_unref(p, v[1]);
    assert_null(page_take(p));
    page_unref(p, v[1]);
    assert_ptr_equal(page_take(p), v[1]);
    assert_int_equal((uintptr_t)v[0] % 64, 0);
    page_pool_free(p);
}

static void test_grow_and_fork(void **state)
{
    struct page_pool *p = pool(5);
    struct page_table a = {0}, b = {0};
    struct error      e = {0};
    (void)state;
    assert_int_equal(page_table_grow(&a, p, 2 * TOKENS + 1, &e), 0);
    assert_int_equal(a.n, 3);
    for (size_t i = 0; i < 3; i++)
        memset(a.v[i], 'a' + (int)i, BYTES);
    assert_int_equal(page_table_fork(&b, p, &a, TOKENS + 5, &e), 0);
    assert_int_equal(b.n, 2);
    assert_ptr_equal(b.v[0], a.v[0]);
    assert_ptr_not_equal(b.v[1], a.v[1]);
    assert_memory_equal(b.v[1], a.v[1], BYTES);
    assert_int_equal(page_pool_available(p), 1);
    page_table_deinit(&a, p);
    assert_int_equal(page_pool_available(p), 3); /* b holds the shared one and its copy */
    assert_int_equal(page_table_grow(&b, p, 6 * TOKENS, &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "of 5"));
    page_table_deinit(&b, p);
    assert_int_equal(page_pool_available(p), 5);
    page_pool_free(p);
}

static const struct prefix_key base, other = {{1, 0}}, third = {{0, 1}};

static void store(struct prefix_cache *c, struct page_pool *p, const int32_t *tokens, int64_t n)
{
    struct page_table t = {0};
    assert_int_equal(page_table_grow(&t, p, n, NULL), 0);
    prefix_store(c, base, tokens, n, &t);
    assert_null(t.v);
}

static void test_prefix(void **state)
{
    struct page_pool   *p = pool(20);
    struct prefix_cache c;
    struct page_table   t = {0};
    int32_t             x[200], y[200];
    (void)state;
    for (int i = 0; i < 200; i++)
        x[i] = y[i] = i;
    y[100] = -1;
    prefix_init(&c, p);
    assert_int_equal(prefix_lookup(&c, base, x, 200, &t), 0);
    store(&c, p, x, 150);
    store(&c, p, y, 180);
    assert_int_equal(c.n, 2);
    assert_int_equal(prefix_lookup(&c, base, x, 200, &t), 150);
    assert_int_equal(t.n, 3);
    page_table_deinit(&t, p);
    assert_int_equal(prefix_lookup(&c, base, y, 120, &t), 120);
    page_table_deinit(&t, p);
    store(&c, p, x, 200); /* covers the first entry */
    assert_int_equal(c.n, 2);
    store(&c, p, x, 130); /* covered by it */
    assert_int_equal(c.n, 2);
    assert_int_equal(page_pool_available(p), 20 - 3 - 4);
    assert_true(prefix_evict(&c)); /* y was used longest ago */
    assert_int_equal(prefix_lookup(&c, base, y, 200, &t), 100);
    page_table_deinit(&t, p);
    assert_true(prefix_evict(&c));
    assert_false(prefix_evict(&c));
    assert_int_equal(page_pool_available(p), 20);
    prefix_deinit(&c);
    page_pool_free(p);
}

static void test_many_entries(void **state)
{
    struct page_pool   *p = pool(1000);
    struct prefix_cache c;
    (void)state;
    prefix_init(&c, p);
    for (int32_t i = 0; i < PREFIX_ENTRIES_MAX + 10; i++)
        store(&c, p, (int32_t[]){i, i}, 2);
    assert_int_equal(c.n, PREFIX_ENTRIES_MAX);
    assert_int_equal(page_pool_available(p), 1000 - PREFIX_ENTRIES_MAX);
    prefix_deinit(&c);
    assert_int_equal(page_pool_available(p), 1000);
    page_pool_free(p);
}

/* The page for the copy is taken from the entry used longest ago, never from the one that is hit. */
/* Entries of different keys share nothing, whichever of them is longer; of one key they cover each other. */
static void test_keys(void **state)
{
    struct page_pool   *p = pool(20);
    struct prefix_cache c;
    struct page_table   t = {0};
    int32_t             x[200];
    (void)state;
    for (int i = 0; i < 200; i++)
        x[i] = i;
    prefix_init(&c, p);
    assert_int_equal(page_table_grow(&t, p, 150, NULL), 0);
    prefix_store(&c, other, x, 150, &t);
    assert_int_equal(prefix_lookup(&c, base, x, 200, &t), 0);
    assert_int_equal(prefix_lookup(&c, third, x, 200, &t), 0);
    store(&c, p, x, 100); /* covered but for its key */
    store(&c, p, x, 180); /* covers but for the first's key */
    assert_int_equal(c.n, 2);
    assert_int_equal(prefix_lookup(&c, other, x, 200, &t), 150);
    page_table_deinit(&t, p);
    assert_int_equal(prefix_lookup(&c, base, x, 200, &t), 180);
    page_table_deinit(&t, p);
    assert_int_equal(prefix_lookup(&c, third, x, 200, &t), 0);
    prefix_deinit(&c);
    page_pool_free(p);
}

static void test_hit_evicts(void **state)
{
    struct page_pool   *p = pool(3);
    struct prefix_cache c;
    struct page_table   t = {0};
    int32_t             x[100] = {0}, y[1] = {1};
    (void)state;
    prefix_init(&c, p);
    store(&c, p, x, 100);
    store(&c, p, y, 1);
    assert_int_equal(page_pool_available(p), 0);
    assert_int_equal(prefix_lookup(&c, base, x, 99, &t), 99);
    assert_int_equal(t.n, 2);
    assert_int_equal(c.n, 1);
    assert_int_equal(c.v[0].n, 100);
    page_table_deinit(&t, p);
    prefix_deinit(&c);
    page_pool_free(p);
}

/* Without a page for the copy a hit still shares the whole pages. */
static void test_hit_without_room(void **state)
{
    struct page_pool   *p = pool(2);
    struct prefix_cache c;
    struct page_table   t = {0};
    int32_t             x[100] = {0};
    (void)state;
    prefix_init(&c, p);
    store(&c, p, x, 100);
    assert_int_equal(prefix_lookup(&c, base, x, 99, &t), TOKENS);
    assert_int_equal(t.n, 1);
    page_table_deinit(&t, p);
    prefix_deinit(&c);
    page_pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit_and_reuse), cmocka_unit_test(test_grow_and_fork),    cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_many_entries),    cmocka_unit_test(test_hit_without_room), cmocka_unit_test(test_keys),
        cmocka_unit_test(test_hit_evicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
