/* The thread pool: every member runs once per run, barriers hold everybody back, sleeping members wake, idle pools end.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/num.h"
#include "base/pool.h"

#define MEMBERS 4
#define PHASES 50

struct shared {
    struct pool *pool;
    int          calls[MEMBERS], n[MEMBERS]; /* written by their member alone */
    int          phase[MEMBERS];
    int          late; /* members seen behind after a barrier */
};

static struct pool *pool_of(int n)
{
    struct pool *p = NULL;
    assert_int_equal(pool_new(&p, n, NULL), 0);
    assert_int_equal(pool_size(p), n);
    return p;
}

static void count(void *arg, int i, int n)
{
    struct shared *s = arg;
    s->calls[i]++;
    s->n[i] = n;
}

static void test_each_member_once(void **state)
{
    (void)state;
    for (int n = 1; n <= MEMBERS; n++) {
        struct shared s = {.pool = pool_of(n)};
        for (int run = 1; run <= 3000; run++) {
            pool_run(s.pool, count, &s);
            for (int i = 0; i < n; i++) { /* what a run wrote is seen when it has returned */
                assert_int_equal(s.calls[i], run);
                assert_int_equal(s.n[i], n);
            }
        }
        pool_free(s.pool);
    }
}

/* After barrier p all members have written p; a second barrier keeps the next write away from the readers. */
static void phases(void *arg, int i, int n)
{
    struct shared *s = arg;
    for (int p = 1; p <= PHASES; p++) {
        s->phase[i] = p;
        pool_barrier(s->pool);
        for (int k = 0; k < n; k++)
            if (s->phase[k] != p)
                __atomic_fetch_add(&s->late, 1, __ATOMIC_RELAXED);
        pool_barrier(s->pool);
    }
}

static void test_barrier(void **state)
{
    (void)state;
    for (int n = 1; n <= MEMBERS; n++) {
        struct shared s = {.pool = pool_of(n)};
        for (int run = 0; run < 20; run++)
            pool_run(s.pool, phases, &s);
        assert_int_equal(s.late, 0);
        pool_free(s.pool);
    }
}

static double process_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Idle members sleep (the process uses nearly no processor time), and wake for the next run. */
static void test_sleepers_wake(void **state)
{
    (void)state;
    struct shared s = {.pool = pool_of(MEMBERS)};
    for (int run = 1; run <= 10; run++) {
        usleep(20000);
        pool_run(s.pool, count, &s);
        for (int i = 0; i < MEMBERS; i++)
            assert_int_equal(s.calls[i], run);
    }
    usleep(50000); /* the spin is over */
    double used = process_seconds();
    usleep(200000);
    assert_true(process_seconds() - used < 0.05);
    pool_free(s.pool);
}

static void slow_first(void *arg, int i, int n)
{
    if (i == 0 || i == n - 1)
        usleep(i == 0 ? 1000 : 20000);
    count(arg, i, n);
}

/* The caller, too, sleeps while a member is slow, and is woken. */
static void test_slow_member(void **state)
{
    (void)state;
    struct shared s = {.pool = pool_of(MEMBERS)};
    for (int run = 1; run <= 5; run++) {
        pool_run(s.pool, slow_first, &s);
        for (int i = 0; i < MEMBERS; i++)
            assert_int_equal(s.calls[i], run);
    }
    pool_free(s.pool);
}

static void test_free_while_idle(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++)
        pool_free(pool_of(1 + i % MEMBERS)); /* members may not even have started to wait */
    struct pool *p = pool_of(MEMBERS);
    usleep(20000);
    pool_free(p); /* asleep */
    pool_free(NULL);
}

static void test_bad_size(void **state)
{
    (void)state;
    struct pool *p = NULL;
    struct error e;
    assert_int_equal(pool_new(&p, 0, &e), ERR_INVALID);
    assert_int_equal(pool_new(&p, POOL_THREADS_MAX + 1, &e), ERR_INVALID);
    assert_null(p);
    assert_true(pool_default_size() >= 1 && pool_default_size() <= POOL_THREADS_MAX);
}

/* Shares are in order, without gaps, of whole units, and as even as units allow. */
static void test_share(void **state)
{
    static const long totals[] = {0, 1, 2, 15, 16, 17, 64, 1000}, units[] = {1, 3, 16};
    (void)state;
    for (size_t t = 0; t < ARRAY_LEN(totals); t++)
        for (size_t u = 0; u < ARRAY_LEN(units); u++)
            for (int n = 1; n <= 7; n++) {
                long at = 0, least = LONG_MAX, most = 0;
                for (int i = 0; i < n; i++) {
                    long lo, hi;
                    pool_share(totals[t], units[u], i, n, &lo, &hi);
                    assert_int_equal(lo, at);
                    assert_true(hi >= lo && (hi % units[u] == 0 || hi == totals[t]));
                    long share = (hi - lo + units[u] - 1) / units[u];
                    least = MIN(least, share);
                    most = MAX(most, share);
                    at = hi;
                }
                assert_int_equal(at, totals[t]);
                assert_true(most - least <= 1);
            }
}

#define ITEMS 700

struct dealt {
    struct pool *pool;
    atomic_int   taken[ITEMS];
    atomic_int   most; /* items given at once */
    int          slow; /* this member takes nothing before the others are through */
    atomic_int   done;
};

static void take_all(void *arg, int i, int n)
{
    struct dealt *d = arg;
    int32_t       lo, hi;
    while (i == d->slow && atomic_load(&d->done) < n - 1)
        ;
    while (pool_take(d->pool, i, 3, &lo, &hi)) {
        assert_true(lo >= 0 && lo < hi && hi <= ITEMS);
        if (hi - lo > atomic_load(&d->most))
            atomic_store(&d->most, hi - lo);
        for (; lo < hi; lo++)
            atomic_fetch_add(&d->taken[lo], 1);
    }
    atomic_fetch_add(&d->done, 1);
}

/* Every item is taken once, also when one member sleeps and the others take what was dealt to it. */
static void test_deal_and_take(void **state)
{
    static const int totals[] = {0, 1, 2, 3, 7, 64, ITEMS};
    (void)state;
    for (int n = 1; n <= MEMBERS; n++)
        for (int slow = -1; slow < n; slow++)
            for (size_t t = 0; t < ARRAY_LEN(totals); t++) {
                struct dealt d = {.pool = pool_of(n), .slow = slow};
                for (int run = 1; run <= 5; run++) {
                    atomic_store(&d.done, 0);
                    pool_deal(d.pool, totals[t]);
                    (slow < 0 && run % 2 ? pool_run_some : pool_run)(d.pool, take_all, &d);
                    for (int k = 0; k < ITEMS; k++)
                        assert_int_equal(atomic_load(&d.taken[k]), k < totals[t] ? run : 0);
                }
                assert_true(atomic_load(&d.most) <= 3 && (totals[t] < 64 || slow >= 0 || atomic_load(&d.most) == 3));
                pool_free(d.pool);
            }
}

struct some {
    struct pool *pool;
    atomic_int   open, outside, calls, taken;
};

static void take_some(void *arg, int i, int n)
{
    struct some *s = arg;
    (void)n;
    atomic_fetch_add(&s->outside, !atomic_load(&s->open));
    atomic_fetch_add(&s->calls, 1);
    for (int32_t lo, hi; pool_take(s->pool, i, 2, &lo, &hi);)
        atomic_fetch_add(&s->taken, hi - lo);
    atomic_fetch_add(&s->outside, !atomic_load(&s->open));
}

/* Members that sleep when the work is done already are left out, and come to the next run; nobody computes outside. */
static void test_late_members(void **state)
{
    struct some s = {.pool = pool_of(MEMBERS)};
    int         left_out = 0, whole = 0;
    (void)state;
    for (int run = 0; run < 1000; run++) {
        if (run < 20)
            usleep(2000); /* they sleep */
        atomic_store(&s.calls, 0);
        atomic_store(&s.taken, 0);
        pool_deal(s.pool, run % 50);
        atomic_store(&s.open, 1);
        pool_run_some(s.pool, take_some, &s);
        atomic_store(&s.open, 0);
        assert_int_equal(atomic_load(&s.taken), run % 50);
        left_out += atomic_load(&s.calls) < MEMBERS;
        atomic_store(&s.calls, 0);
        atomic_store(&s.open, 1);
        pool_run(s.pool, take_some, &s); /* nothing is left to take, and all come */
        atomic_store(&s.open, 0);
        whole += atomic_load(&s.calls) == MEMBERS;
    }
    assert_true(left_out > 0);
    assert_int_equal(whole, 1000);
    assert_int_equal(atomic_load(&s.outside), 0);
    pool_free(s.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_member_once),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_sleepers_wake),
        cmocka_unit_test(test_slow_member),
        cmocka_unit_test(test_free_while_idle),
        cmocka_unit_test(test_bad_size),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_deal_and_take),
        cmocka_unit_test(test_late_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
