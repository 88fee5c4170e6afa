/* A fixed pool of threads that compute the same function together; the caller is member 0.
 *
 * pool_run returns when every member has returned. Idle members spin for a few microseconds, so that the hundreds of small
 * operations of one decode step start at once, then sleep on a futex: an idle program uses no processor.
 * One thread at a time may call pool_run on a pool.
 */
#ifndef MLXCEL_BASE_POOL_H
#define MLXCEL_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define POOL_THREADS_MAX 256

struct pool;

/* n: 1..POOL_THREADS_MAX members, the caller included. */
int  pool_new(struct pool **out, int n, struct error *e);
void pool_free(struct pool *p);
int  pool_size(const struct pool *p);
/* Calls fn(arg, i, n) once for every member i of n. fn must not call pool_run. */
void pool_run(struct pool *p, void (*fn)(void *arg, int i, int n), void *arg);
/* The same for work that fn takes by pool_take alone, whoever it is left to: members that have not begun when the caller
 * returns from fn, since their core is busy with something else, are left out. fn must not wait for others. */
void pool_run_some(struct pool *p, void (*fn)(void *arg, int i, int n), void *arg);
/* Inside fn of pool_run: waits until all members have come here. */
void pool_barrier(struct pool *p);

/* Work that members share by items: pool_deal, before pool_run, gives every member an equal range of [0, total); inside
 * fn each member takes from the front of its own, at most `most` items at once, which keeps its reading in order; when
 * that is used up, one item at a time from the back of the range that has most left. False: nothing is left. */
void pool_deal(struct pool *p, int32_t total);
bool pool_take(struct pool *p, int i, int32_t most, int32_t *lo, int32_t *hi);

/* How many threads this process should use: the cores that affinity and the cgroup's quota allow, at least 1. */
int pool_default_size(void);

/* The part [*lo, *hi) of [0, total) that member i of n computes, in multiples of `unit` (the last may be short). */
static inline void pool_share(long total, long unit, int i, int n, long *lo, long *hi)
{
    long units = (total + unit - 1) / unit;
    long a = units * i / n * unit, b = units * (i + 1) / n * unit;
    *lo = a < total ? a : total;
    *hi = b < total ? b : total;
}

#endif
