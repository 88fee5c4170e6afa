/* kernelcheck: every kernel at every level that this machine runs, on random shapes and hard inputs, against a
 * double-precision reference with a bound computed from the data, and bit for bit between levels, threads and batches.
 *
 *   kernelcheck [--filter TEXT] [--level NAME] [--seed N] [--cases PERCENT] [--bench [--threads N]] [--list]
 *   kernelcheck --roof DIR [--threads N]
 *
 * The seed is 1 unless told, and repeats a run; `make fuzz` draws another. --cases runs a part of the random cases. An
 * access outside a buffer ends the program with the name of the check. With --bench the checks' benchmarks run instead and
 * print rates beside this machine's read bandwidth. --roof prints how fast the packed weights of the model in DIR can be
 * read (roof.c).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "harness.h"

#define FAMILY(name) extern const struct check name##_checks[];
#include "families.def"
#undef FAMILY

static const struct check *const families[] = {
#define FAMILY(name) name##_checks,
#include "families.def"
#undef FAMILY
};

static struct kc kc; /* for the handler */

static void on_fault(int sig)
{
    char text[256];
    int  n = snprintf(text, sizeof text, "FAIL %s/%s: %s: signal %d (seed %llu)\n1 failed\n", kc.name,
                      cpu_level_name(kc.level), kc.note, sig, (unsigned long long)kc.seed);
    if (write(STDOUT_FILENO, text, (size_t)MIN(n, (int)sizeof text - 1)) < 0)
        _exit(2);
    _exit(1);
}

struct roof {
    const uint64_t *p;
    int64_t         n;
    uint64_t        sum[POOL_THREADS_MAX];
    struct pool    *pool;
};

static void roof_part(void *arg, int i, int n)
{
    struct roof *r = arg;
    long         lo, hi;
    uint64_t     a = 0, b = 0, c = 0, d = 0;
    pool_share(r->n, 64, i, n, &lo, &hi);
    for (long j = lo; j + 4 <= hi; j += 4) {
        a += r->p[j];
        b += r->p[j + 1];
        c += r->p[j + 2];
        d += r->p[j + 3];
    }
    r->sum[i] = a + b + c + d;
}

static void roof_run(void *arg)
{
    struct roof *r = arg;
    pool_run(r->pool, roof_part, r);
}

static void roof_print(struct kc *k)
{
    struct roof  r = {.n = 16 << 20};
    size_t       bytes = (size_t)r.n * sizeof *r.p;
    void        *p = malloc(bytes);
    struct error e;
    if (!p || pool_new(&r.pool, k->threads, &e))
        exit(2);
    memset(p, 1, bytes);
    r.p = p;
    kc_rate(k, "roof: reading memory", kc_time(roof_run, &r), (double)bytes, 0);
    pool_free(r.pool);
    free(p);
}

static bool check_run(const struct check *c, bool bench)
{
    kc.name = c->name;
    kc.failures = 0;
    kc.note[0] = 0;
    kc.state = kc.seed;
    if (bench && c->bench)
        c->bench(&kc);
    else if (!bench)
        c->run(&kc);
    return kc.failures == 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: kernelcheck [--filter TEXT] [--level NAME] [--seed N] [--cases PERCENT] [--bench "
                    "[--threads N]] [--list]\n"
                    "       kernelcheck --roof DIR [--threads N]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *filter = "", *roof = NULL;
    bool        bench = false, list = false;
    int         only = -1, passed = 0, failed = 0;
    kc.seed = 1;
    kc.percent = 100;
    kc.threads = pool_default_size();
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(a, "--bench") || !strcmp(a, "--list"))
            *(a[2] == 'b' ? &bench : &list) = true;
        else if (!v || ++i >= argc)
            return usage();
        else if (!strcmp(a, "--filter"))
            filter = v;
        else if (!strcmp(a, "--roof"))
            roof = v;
        else if (!strcmp(a, "--seed"))
            kc.seed = strtoull(v, NULL, 0);
        else if (!strcmp(a, "--cases") && atoi(v) > 0)
            kc.percent = MIN(atoi(v), 100);
        else if (!strcmp(a, "--threads") && atoi(v) > 0)
            kc.threads = atoi(v);
        else if (strcmp(a, "--level") || (only = cpu_level_from_name(v)) < 0)
            return usage();
    }
    if (roof)
        return kc_roof ? kc_roof(roof, kc.threads) : usage();
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    signal(SIGILL, on_fault);
    printf("kernelcheck: seed %llu, machine's level %s\n", (unsigned long long)kc.seed,
           cpu_level_name(cpu_level_detect()));
    if (bench)
        roof_print(&kc);
    for (size_t f = 0; f < ARRAY_LEN(families); f++)
        for (const struct check *c = families[f]; c->name; c++) {
            if (!strstr(c->name, filter))
                continue;
            if (list)
                printf("%s\n", c->name);
            for (int l = 0; l < CPU_LEVELS && !list; l++) {
                kc.level = (enum cpu_level)l;
                if (cpu_level_runs(kc.level) && (only < 0 || only == l))
                    *(check_run(c, bench) ? &passed : &failed) += 1;
            }
        }
    if (!bench && !list)
        printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
