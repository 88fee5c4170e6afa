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

static const struct prefix_key base, other = {.v = {1, 0}}, third = {.v = {0, 1}};

static void store(struct prefix_cache *c, struct page_pool *p, const int32_t *tokens, int64_t n)
{
    struct page_table t = {0};
    assert_int_equal(page_table_grow(&t, p, n, NULL), 0);
    prefix_store(c, base, tokens, n, &t, NULL, 0);
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
    prefix_init(&c, p, NULL);
    assert_int_equal(prefix_lookup(&c, base, x, 200, &t, NULL, NULL), 0);
    store(&c, p, x, 150);
    store(&c, p, y, 180);
    assert_int_equal(c.n, 2);
    assert_int_equal(prefix_lookup(&c, base, x, 200, &t, NULL, NULL), 150);
    assert_int_equal(t.n, 3);
    page_table_deinit(&t, p);
    assert_int_equal(prefix_lookup(&c, base, y, 120, &t, NULL, NULL), 120);
    page_table_deinit(&t, p);
    store(&c, p, x, 200); /* covers the first entry */
    assert_int_equal(c.n, 2);
    store(&c, p, x, 130); /* covered by it */
    assert_int_equal(c.n, 2);
    assert_int_equal(page_pool_available(p), 20 - 3 - 4);
    assert_true(prefix_evict(&c)); /* y was used longest ago */
    assert_int_equal(prefix_lookup(&c, base, y, 200, &t, NULL, NULL), 100);
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
    prefix_init(&c, p, NULL);
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
    prefix_init(&c, p, NULL);
    assert_int_equal(page_table_grow(&t, p, 150, NULL), 0);
    prefix_store(&c, other, x, 150, &t, NULL, 0);
    assert_int_equal(prefix_lookup(&c, base, x, 200, &t, NULL, NULL), 0);
    assert_int_equal(prefix_lookup(&c, third, x, 200, &t, NULL, NULL), 0);
    store(&c, p, x, 100); /* covered but for its key */
    store(&c, p, x, 180); /* covers but for the first's key */
    assert_int_equal(c.n, 2);
    assert_int_equal(prefix_lookup(&c, other, x, 200, &t, NULL, NULL), 150);
    page_table_deinit(&t, p);
    assert_int_equal(prefix_lookup(&c, base, x, 200, &t, NULL, NULL), 180);
    page_table_deinit(&t, p);
    assert_int_equal(prefix_lookup(&c, third, x, 200, &t, NULL, NULL), 0);
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
    prefix_init(&c, p, NULL);
    store(&c, p, x, 100);
    store(&c, p, y, 1);
    assert_int_equal(page_pool_available(p), 0);
    assert_int_equal(prefix_lookup(&c, base, x, 99, &t, NULL, NULL), 99);
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
    prefix_init(&c, p, NULL);
    store(&c, p, x, 100);
    assert_int_equal(prefix_lookup(&c, base, x, 99, &t, NULL, NULL), TOKENS);
    assert_int_equal(t.n, 1);
    page_table_deinit(&t, p);
    prefix_deinit(&c);
    page_pool_free(p);
}

/* A model with recurrent state, whose blocks have 64 bytes: entries with snapshots. */
struct recurrent {
    struct page_pool   *pages, *states;
    struct prefix_cache c;
};

static void recurrent_open(struct recurrent *r, int64_t max_pages, int64_t max_states)
{
    r->pages = pool(max_pages);
    assert_int_equal(page_pool_new(&r->states, 64, 1, max_states, NULL), 0);
    prefix_init(&r->c, r->pages, r->states);
}

/* After the cache is gone, all is given back. */
static void recurrent_close(struct recurrent *r, int64_t max_pages, int64_t max_states)
{
    prefix_deinit(&r->c);
    assert_int_equal(page_pool_available(r->pages), max_pages);
    assert_int_equal(page_pool_available(r->states), max_states);
    page_pool_free(r->pages);
    page_pool_free(r->states);
}

/* Stores tokens [0, n) with one snapshot at each place; a block's bytes tell its place. */
static void store_states(struct recurrent *r, const int32_t *tokens, int64_t n, const int64_t *at, int n_at)
{
    struct page_table t = {0};
    struct snapshot   s[4];
    assert_int_equal(page_table_grow(&t, r->pages, n, NULL), 0);
    for (int i = 0; i < n_at; i++) {
        s[i] = (struct snapshot){at[i], prefix_take_state(&r->c), 0};
        assert_non_null(s[i].state);
        memset(s[i].state, (int)at[i], 64);
    }
    prefix_store(&r->c, base, tokens, n, &t, s, n_at);
    assert_null(t.v);
}

/* Looks tokens [0, n) up: they resume behind `want`, with its state, and share `shared`. */
static void assert_resumes(struct recurrent *r, const int32_t *tokens, int64_t n, int64_t want, int64_t shared)
{
    struct page_table t = {0};
    unsigned char     state[64] = {0}, wanted[64];
    int64_t           found_shared;
    memset(wanted, (int)want, sizeof wanted);
    assert_int_equal(prefix_lookup(&r->c, base, tokens, n, &t, state, &found_shared), want);
    assert_int_equal(found_shared, shared);
    assert_int_equal(t.n, (want + TOKENS - 1) / TOKENS);
    assert_memory_equal(state, wanted, sizeof state);
    page_table_deinit(&t, r->pages);
}

static void test_resume_at_snapshots(void **state)
{
    struct recurrent r;
    int32_t          x[200], y[200];
    (void)state;
    for (int i = 0; i < 200; i++)
        x[i] = y[i] = i;
    y[120] = -1;
    recurrent_open(&r, 20, 8);
    store_states(&r, x, 150, (const int64_t[]){70, 149, 150}, 3);
    assert_resumes(&r, x, 149, 149, 149);
    assert_resumes(&r, x, 200, 150, 150);
    assert_resumes(&r, y, 200, 70, 120);
    assert_resumes(&r, y, 69, 0, 69);
    store_states(&r, x, 180, (const int64_t[]){180}, 1); /* covers the first entry, inherits its snapshots */
    assert_int_equal(r.c.n, 1);
    assert_resumes(&r, x, 170, 150, 170);
    assert_resumes(&r, x, 200, 180, 180);
    store_states(&r, x, 100, (const int64_t[]){70, 100}, 2); /* covered: gives its snapshot of a new place */
    assert_int_equal(r.c.n, 1);
    assert_int_equal(page_pool_available(r.states), 8 - 5);
    assert_resumes(&r, y, 200, 100, 120);
    recurrent_close(&r, 20, 8);
}

/* Blocks are taken from the snapshot that was used longest ago; an entry without one is of no use. */
static void test_snapshots_leave(void **state)
{
    struct recurrent r;
    int32_t          x[200], y[200];
    (void)state;
    for (int i = 0; i < 200; i++) {
        x[i] = i;
        y[i] = -i - 1;
    }
    recurrent_open(&r, 20, 4);
    store_states(&r, x, 150, (const int64_t[]){70, 149}, 2);
    store_states(&r, y, 130, (const int64_t[]){130}, 1);
    assert_resumes(&r, x, 150, 149, 150);
    assert_resumes(&r, y, 150, 130, 130);
    void *a = prefix_take_state(&r.c), *b = prefix_take_state(&r.c);
    assert_resumes(&r, x, 148, 0, 148); /* the one at 70 is gone */
    assert_resumes(&r, x, 150, 149, 150);
    void *c = prefix_take_state(&r.c);
    assert_resumes(&r, y, 150, 0, 0); /* with its entry */
    assert_resumes(&r, x, 150, 149, 150);
    void *d = prefix_take_state(&r.c);
    assert_int_equal(r.c.n, 0);
    assert_null(prefix_take_state(&r.c));
    void *all[] = {a, b, c, d};
    for (size_t i = 0; i < 4; i++)
        page_unref(r.states, all[i]);
    recurrent_close(&r, 20, 4);
}

/* An entry keeps a bounded number, the last used; without a page for the copy there is no hit, since the state would be that
 * behind it; what nothing can resume is not stored. */
static void test_snapshots_of_one_entry(void **state)
{
    struct recurrent r;
    int32_t          x[200] = {0};
    (void)state;
    recurrent_open(&r, 2, 40);
    for (int64_t n = 1; n <= PREFIX_SNAPSHOTS_MAX + 4; n++)
        store_states(&r, x, n, &n, 1);
    assert_int_equal(r.c.n, 1);
    assert_int_equal(r.c.v[0].n_snapshot, PREFIX_SNAPSHOTS_MAX);
    assert_resumes(&r, x, 4, 0, 4);
    assert_resumes(&r, x, 5, 5, 5);
    assert_true(prefix_evict(&r.c));
    store_states(&r, x, 100, (const int64_t[]){64, 99}, 2);
    assert_resumes(&r, x, 99, 0, 99);
    assert_resumes(&r, x, 98, 64, 98);
    assert_true(prefix_evict(&r.c));
    store_states(&r, x, 100, NULL, 0);
    assert_int_equal(r.c.n, 0);
    recurrent_close(&r, 2, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit_and_reuse),  cmocka_unit_test(test_grow_and_fork),
        cmocka_unit_test(test_prefix),           cmocka_unit_test(test_many_entries),
        cmocka_unit_test(test_hit_without_room), cmocka_unit_test(test_keys),
        cmocka_unit_test(test_hit_evicts),       cmocka_unit_test(test_resume_at_snapshots),
        cmocka_unit_test(test_snapshots_leave),  cmocka_unit_test(test_snapshots_of_one_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
