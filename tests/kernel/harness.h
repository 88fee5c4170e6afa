/* kernelcheck's harness: random inputs, guarded buffers, comparisons with a bound, timing.
 *
 * A family of kernels adds a file check_<family>.c with one table `const struct check <family>_checks[]`, ended by a
 * row without name, and its name to families.def. A check runs its own number of random cases for one level and reports
 * with kc_same, kc_close and kc_expect; it has passed when none of them failed. Everything a check draws comes from k's
 * generator, so the printed seed repeats a run.
 */
#ifndef MLXCEL_TESTS_KERNEL_HARNESS_H
#define MLXCEL_TESTS_KERNEL_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/kernels.h"

#define KC_EPS 0x1p-24 /* half an ulp of float32, relative */

struct kc {
    uint64_t       seed, state;
    enum cpu_level level;
    const char    *name;      /* of the check that runs */
    int            failures;  /* of the check that runs */
    int            threads;   /* for benchmarks */
    int            percent;   /* of the random cases that run */
    char           note[128]; /* what the case at hand is; printed with a failure */
};

struct check {
    const char *name;
    void (*run)(struct kc *k);   /* random cases at k->level */
    void (*bench)(struct kc *k); /* prints rates with kc_rate; may be NULL */
};

/* Random numbers. kc_below: 0 <= r < n. kc_pick: one of the arguments. */
uint64_t kc_random(struct kc *k);
int      kc_below(struct kc *k, int n);
double   kc_uniform(struct kc *k); /* [0, 1) */
double   kc_normal(struct kc *k);
#define kc_pick(k, ...)                                                                                                \
    ((const int[]){__VA_ARGS__}[kc_below(k, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))])

/* How many of n random cases run, one at least. */
int kc_cases(const struct kc *k, int n);

/* Fills with one kind of values, drawn anew for each call: uniform, normal, of mixed magnitudes, with some denormals
 * and zeros, or with a few planted values of magnitude `extreme`. */
void kc_fill(struct kc *k, float *x, int64_t n, double extreme);

/* A buffer whose last byte is followed by a protected page and whose front is guarded by known bytes. The content is
 * 0xff: NaN in every float type. kc_unguard checks the front (a fault of the check that runs, if k is not NULL) and
 * frees. The data starts at a multiple of `align` only if bytes is one. */
void *kc_guard(size_t bytes);
void  kc_unguard(struct kc *k, void *p);

/* A guarded buffer of n floats. */
static inline float *kc_floats(int64_t n)
{
    return kc_guard((size_t)n * sizeof(float));
}

/* Comparisons. A failure prints check, level, note, the worst element and the seed. NaN equals NaN. */
void kc_same(struct kc *k, const char *what, const void *got, const void *want, size_t bytes);
void kc_same_floats(struct kc *k, const char *what, const float *got, const float *want, int64_t n);
void kc_close(struct kc *k, const char *what, const float *got, const double *want, const double *bound, int64_t n);
void kc_expect(struct kc *k, bool ok, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void kc_notef(struct kc *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A CPU backend with the row and attention operations at a level; threads 1..POOL_THREADS_MAX. Exits when out of
 * memory. */
struct cpu *kc_cpu_new(enum cpu_level level, int threads, enum precision precision, const struct run_limits *lim);
void        kc_cpu_free(struct cpu *c);

/* The least seconds of one call among many (about 0.3 s altogether), and a line of the report: amounts are per call. */
double kc_time(void (*fn)(void *), void *arg);
void   kc_rate(struct kc *k, const char *what, double seconds, double bytes, double flops);

/* roof.c: prints the roof of decoding the model in dir; returns the exit status. NULL where roof.c is not linked, since
 * reading models needs libraries that a cross build lacks. */
int kc_roof(const char *dir, int threads) __attribute__((weak));

#endif
