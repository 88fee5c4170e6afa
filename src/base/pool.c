/* The pool of pool.h.
 *
 * A run is one increment of `epoch`, for which workers wait. Each has a ticket, the run's number and a state: the caller
 * offers it, the worker takes it, computes and gives it back as done. In pool_run_some the caller, when it finds no work
 * left, withdraws the tickets that nobody took: a worker whose core is busy with another program does not hold up the
 * run. Waiting spins SPIN_ROUNDS times with pause and then sleeps by futex on the same word; the waker calls the kernel
 * only when somebody sleeps.
 */
#include "base/pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/num.h"

#define SPIN_ROUNDS 4000 /* about 50-100 us: longer than the serial part between two operations of a step */

enum ticket { TICKET_OFFERED, TICKET_TAKEN, TICKET_DONE, TICKET_WITHDRAWN };

struct pool {
    _Alignas(64) atomic_uint epoch; /* changes when a run starts */
    atomic_int sleepers;
    _Alignas(64) atomic_int caller_sleeps;
    _Alignas(64) atomic_uint gate; /* barrier generation */
    atomic_uint arrived;
    void (*fn)(void *, int, int);
    void      *arg;
    int        n;
    atomic_int stop;
    struct member {
        _Alignas(64) _Atomic uint64_t range; /* of items not taken yet: lo << 32 | hi */
        atomic_uint  ticket;                 /* of a worker: run's epoch << 2 | enum ticket */
        struct pool *pool;
        int          i;
        pthread_t    thread;
    } * members;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Waits until *word differs from `seen`. */
static void wait_change(atomic_uint *word, unsigned seen, atomic_int *sleepers)
{
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != seen)
            return;
        relax();
    }
    atomic_fetch_add(sleepers, 1);
    while (atomic_load(word) == seen)
        futex_wait(word, seen);
    atomic_fetch_sub(sleepers, 1);
}

static unsigned ticket_of(unsigned epoch, enum ticket state)
{
    return epoch << 2 | state;
}

static bool ticket_change(struct member *m, unsigned epoch, enum ticket from, enum ticket to)
{
    unsigned seen = ticket_of(epoch, from);
    return atomic_compare_exchange_strong(&m->ticket, &seen, ticket_of(epoch, to));
}

static void *worker(void *arg)
{
    struct member *m = arg;
    struct pool   *p = m->pool;
    unsigned       epoch = 0;
    for (;;) {
        wait_change(&p->epoch, epoch, &p->sleepers);
        epoch = atomic_load(&p->epoch);
        if (atomic_load(&p->stop))
            return NULL;
        if (!ticket_change(m, epoch, TICKET_OFFERED, TICKET_TAKEN))
            continue; /* too late */
        p->fn(p->arg, m->i, p->n);
        atomic_store(&m->ticket, ticket_of(epoch, TICKET_DONE));
        if (atomic_load(&p->caller_sleeps))
            futex_wake(&m->ticket);
    }
}

int pool_size(const struct pool *p)
{
    return p->n;
}

static void start_epoch(struct pool *p)
{
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->sleepers))
        futex_wake(&p->epoch);
}

/* `all`: nobody may be left out. */
static void run(struct pool *p, void (*fn)(void *, int, int), void *arg, bool all)
{
    unsigned epoch = atomic_load_explicit(&p->epoch, memory_order_relaxed) + 1;
    if (p->n == 1) {
        fn(arg, 0, 1);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    for (int i = 1; i < p->n; i++)
        atomic_store_explicit(&p->members[i].ticket, ticket_of(epoch, TICKET_OFFERED), memory_order_relaxed);
    start_epoch(p);
    fn(arg, 0, p->n);
    for (int i = 1; i < p->n; i++) {
        struct member *m = &p->members[i];
        unsigned       state;
        if (!all && ticket_change(m, epoch, TICKET_OFFERED, TICKET_WITHDRAWN))
            continue;
        while ((state = atomic_load_explicit(&m->ticket, memory_order_acquire)) != ticket_of(epoch, TICKET_DONE))
            wait_change(&m->ticket, state, &p->caller_sleeps);
    }
}

void pool_run(struct pool *p, void (*fn)(void *, int, int), void *arg)
{
    run(p, fn, arg, true);
}

void pool_run_some(struct pool *p, void (*fn)(void *, int, int), void *arg)
{
    run(p, fn, arg, false);
}

void pool_barrier(struct pool *p)
{
    unsigned gate = atomic_load(&p->gate);
    if (atomic_fetch_add(&p->arrived, 1) + 1 == (unsigned)p->n) {
        atomic_store(&p->arrived, 0);
        atomic_store(&p->gate, gate + 1);
        return;
    }
    for (int i = 0; atomic_load_explicit(&p->gate, memory_order_acquire) == gate; i++) {
        if (i < SPIN_ROUNDS)
            relax();
        else
            sched_yield();
    }
}

static uint64_t range_of(int32_t lo, int32_t hi)
{
    return (uint64_t)(uint32_t)lo << 32 | (uint32_t)hi;
}

static int32_t range_lo(uint64_t range)
{
    return (int32_t)(range >> 32);
}

static int32_t range_left(uint64_t range)
{
    return (int32_t)(uint32_t)range - range_lo(range);
}

void pool_deal(struct pool *p, int32_t total)
{
    for (int i = 0; i < p->n; i++) {
        long lo, hi;
        pool_share(total, 1, i, p->n, &lo, &hi);
        atomic_store_explicit(&p->members[i].range, range_of((int32_t)lo, (int32_t)hi), memory_order_relaxed);
    }
}

/* Takes the last item of the longest range. */
static bool steal(struct pool *p, int32_t *lo, int32_t *hi)
{
    for (;;) {
        int      from = 0;
        uint64_t most = 0;
        for (int i = 0; i < p->n; i++) {
            uint64_t range = atomic_load_explicit(&p->members[i].range, memory_order_relaxed);
            if (i == 0 || range_left(range) > range_left(most)) {
                most = range;
                from = i;
            }
        }
        if (range_left(most) <= 0)
            return false;
        if (atomic_compare_exchange_weak(&p->members[from].range, &most, most - 1)) {
            *hi = range_lo(most) + range_left(most);
            *lo = *hi - 1;
            return true;
        }
    }
}

bool pool_take(struct pool *p, int i, int32_t most, int32_t *lo, int32_t *hi)
{
    uint64_t range = atomic_load_explicit(&p->members[i].range, memory_order_relaxed);
    while (range_left(range) > 0) {
        *lo = range_lo(range);
        *hi = *lo + MIN(most, range_left(range));
        if (atomic_compare_exchange_weak(&p->members[i].range, &range, range + ((uint64_t)(*hi - *lo) << 32)))
            return true;
    }
    return steal(p, lo, hi);
}

int pool_new(struct pool **out, int n, struct error *e)
{
    if (n < 1 || n > POOL_THREADS_MAX)
        return error_set(e, ERR_INVALID, "threads", "threads is %d, needed 1 to %d", n, POOL_THREADS_MAX);
    struct pool *p = aligned_alloc(64, (sizeof *p + 63) & ~(size_t)63);
    if (!p)
        return error_nomem(e, "the thread pool");
    memset(p, 0, sizeof *p);
    p->n = 1;
    p->members = aligned_alloc(64, (size_t)n * sizeof *p->members);
    if (!p->members) {
        free(p);
        return error_nomem(e, "the thread pool");
    }
    memset(p->members, 0, (size_t)n * sizeof *p->members);
    for (int i = 1; i < n; i++) {
        p->members[i].pool = p;
        p->members[i].i = i;
        int en = pthread_create(&p->members[i].thread, NULL, worker, &p->members[i]);
        if (en) {
            pool_free(p);
            return error_errno(e, en, "start a thread of", "the pool");
        }
        p->n = i + 1;
    }
    *out = p;
    return 0;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, 1);
    start_epoch(p);
    for (int i = 1; i < p->n; i++)
        pthread_join(p->members[i].thread, NULL);
    free(p->members);
    free(p);
}

/* Cores that a cgroup v2 or v1 quota grants, or INT_MAX. */
static int cgroup_cores(void)
{
    char      line[128];
    long long quota = 0, period = 0;
    FILE     *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (f) {
        if (fgets(line, sizeof line, f) && sscanf(line, "%lld %lld", &quota, &period) != 2)
            quota = 0;
        fclose(f);
    } else {
        f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re");
        if (f) {
            if (fscanf(f, "%lld", &quota) != 1)
                quota = 0;
            fclose(f);
        }
        f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re");
        if (f) {
            if (fscanf(f, "%lld", &period) != 1)
                period = 0;
            fclose(f);
        }
    }
    if (quota <= 0 || period <= 0)
        return INT_MAX;
    long long cores = (quota + period - 1) / period;
    return cores < 1 ? 1 : cores > INT_MAX ? INT_MAX : (int)cores;
}

int pool_default_size(void)
{
    cpu_set_t set;
    int       n = 1;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = CPU_COUNT(&set);
    n = MIN(n, cgroup_cores());
    return MAX(1, MIN(n, POOL_THREADS_MAX));
}
