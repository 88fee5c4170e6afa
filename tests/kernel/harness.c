/* See harness.h. */
#include "harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/half.h"
#include "base/num.h"

#define REPORTS_MAX 5 /* failures of one check that are printed */
#define FRONT 64      /* guard bytes before a buffer */
#define FRONT_BYTE 0xa5

/* splitmix64 (Steele, Lea and Flood, 2014) */
uint64_t kc_random(struct kc *k)
{
    uint64_t z = k->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

int kc_cases(const struct kc *k, int n)
{
    return MAX(1, n * k->percent / 100);
}

int kc_below(struct kc *k, int n)
{
    return (int)(kc_random(k) % (uint64_t)n);
}

double kc_uniform(struct kc *k)
{
    return (double)(kc_random(k) >> 11) * 0x1p-53;
}

double kc_normal(struct kc *k)
{
    double u = 1 - kc_uniform(k), v = kc_uniform(k);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void kc_fill(struct kc *k, float *x, int64_t n, double extreme)
{
    int kind = kc_below(k, 5);
    for (int64_t i = 0; i < n; i++) {
        double v = kc_normal(k);
        if (kind == 0)
            v = 2 * kc_uniform(k) - 1;
        else if (kind == 2)
            v = ldexp(v, kc_below(k, 16) - 12);
        else if (kind == 3 && kc_below(k, 3) == 0)
            v = kc_below(k, 2) ? ldexp(v, -130) : 0;
        x[i] = (float)v;
    }
    for (int j = 0; kind == 4 && n && j < 3; j++)
        x[kc_below(k, (int)MIN(n, 1 << 30))] = (float)(kc_below(k, 2) ? extreme : -extreme);
}

struct guard { /* in the first bytes of the mapping */
    size_t mapped, bytes;
};

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static char *guard_start(void *p)
{
    return (char *)(((uintptr_t)p - FRONT - sizeof(struct guard)) & ~(uintptr_t)(page_size() - 1));
}

void *kc_guard(size_t bytes)
{
    size_t page = page_size(), used = (sizeof(struct guard) + FRONT + bytes + page - 1) & ~(page - 1);
    char  *m = mmap(NULL, used + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED || mprotect(m + used, page, PROT_NONE)) {
        fprintf(stderr, "kernelcheck: out of memory\n");
        exit(2);
    }
    char *p = m + used - bytes;
    memcpy(guard_start(p), &(struct guard){used + page, bytes}, sizeof(struct guard));
    memset(p - FRONT, FRONT_BYTE, FRONT);
    memset(p, 0xff, bytes);
    return p;
}

void kc_unguard(struct kc *k, void *p)
{
    struct guard g;
    int          bad = 0;
    if (!p)
        return;
    for (int i = 1; i <= FRONT; i++)
        bad |= ((unsigned char *)p)[-i] != FRONT_BYTE;
    if (k)
        kc_expect(k, !bad, "bytes before a buffer were overwritten");
    memcpy(&g, guard_start(p), sizeof g);
    munmap((char *)p + g.bytes - (g.mapped - page_size()), g.mapped);
}

static void report(struct kc *k, const char *text)
{
    if (k->failures++ < REPORTS_MAX)
        printf("FAIL %s/%s: %s: %s (seed %llu)\n", k->name, cpu_level_name(k->level), k->note, text,
               (unsigned long long)k->seed);
}

void kc_expect(struct kc *k, bool ok, const char *fmt, ...)
{
    char    text[256];
    va_list ap;
    if (ok)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    report(k, text);
}

void kc_notef(struct kc *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(k->note, sizeof k->note, fmt, ap);
    va_end(ap);
}

void kc_same(struct kc *k, const char *what, const void *got, const void *want, size_t bytes)
{
    const unsigned char *g = got, *w = want;
    size_t               i = 0;
    while (i < bytes && g[i] == w[i])
        i++;
    if (i < bytes)
        kc_expect(k, false, "%s: byte %zu of %zu is 0x%02x, needed 0x%02x", what, i, bytes, g[i], w[i]);
}

void kc_same_floats(struct kc *k, const char *what, const float *got, const float *want, int64_t n)
{
    int64_t bad = 0, first = 0;
    for (int64_t i = n; i-- > 0;)
        if (f32_bits(got[i]) != f32_bits(want[i]) && !(isnan(got[i]) && isnan(want[i]))) {
            bad++;
            first = i;
        }
    if (bad) /* n may be 0 */
        kc_expect(k, false, "%s: %lld of %lld differ; element %lld is %a, needed %a", what, (long long)bad,
                  (long long)n, (long long)first, got[first], want[first]);
}

void kc_close(struct kc *k, const char *what, const float *got, const double *want, const double *bound, int64_t n)
{
    double  worst = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        double excess = fabs(got[i] - want[i]) / bound[i];
        if (isnan(want[i]) ? isnan(got[i]) : isinf(want[i]) && got[i] == want[i])
            excess = 0;
        else if (!(excess >= 0)) /* NaN: only one of them is, or bound and difference are 0 */
            excess = got[i] == want[i] ? 0 : INFINITY;
        if (excess > worst) {
            worst = excess;
            at = i;
        }
    }
    kc_expect(k, worst <= 1, "%s: element %lld of %lld is %.9g, needed %.9g within %.3g", what, (long long)at,
              (long long)n, got[at], want[at], bound[at]);
}

struct cpu *kc_cpu_new(enum cpu_level level, int threads, enum precision precision, const struct run_limits *lim)
{
    struct error e;
    struct cpu  *c = calloc(1, sizeof *c);
    if (!c || pool_new(&c->pool, threads, &e))
        goto fail;
    c->level = level;
    c->precision = precision;
    c->rows = row_fns_for(level);
    c->attn = attn_fns_for(level);
    c->delta = delta_fns_for(level);
    c->ssm = ssm_fns_for(level);
    c->lim = *lim;
    c->base.kv_elem_size = precision == PRECISION_EXACT ? 4 : 2;
    rows_install(c);
    attn_install(c);
    delta_install(c);
    ssm_install(c);
    route_install(c);
    if (attn_reserve(c, &e) || index_reserve(c, &e))
        goto fail;
    return c;
fail:
    fprintf(stderr, "kernelcheck: cannot make a backend\n");
    exit(2);
}

void kc_cpu_free(struct cpu *c)
{
    if (!c)
        return;
    pool_free(c->pool);
    free(c->attn_scratch);
    free(c->index_scratch);
    free(c);
}

double kc_time(void (*fn)(void *), void *arg)
{
    double best = INFINITY, end = clock_now() + 0.3;
    fn(arg);
    for (int i = 0; i < 3 || clock_now() < end; i++) {
        double t = clock_now();
        fn(arg);
        best = fmin(best, clock_now() - t);
    }
    return best;
}

void kc_rate(struct kc *k, const char *what, double seconds, double bytes, double flops)
{
    printf("%-10s %-44s %10.2f us", cpu_level_name(k->level), what, seconds * 1e6);
    if (bytes > 0)
        printf(" %8.2f GB/s", bytes / seconds * 1e-9);
    if (flops > 0)
        printf(" %8.2f GFLOP/s", flops / seconds * 1e-9);
    printf("\n");
}
