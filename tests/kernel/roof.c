/* The roof of decoding a model: how fast its packed weights can be read at all.
 *
 * The model is loaded as for running. A pass reads every byte that decoding one token multiplies, from the same memory
 * in the same order: matrix after matrix, the members of the pool side by side in their shares of the tiles of each, and
 * asks for memory ahead as the kernels do. Of a stack of experts it reads as many as one token, other ones in each pass. It computes nothing but a sum, so what decoding loses against it is
 * arithmetic, small operations and waiting. The cache of keys and values is not read: the roof is that of a short
 * context.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "arch/arch.h"
#include "base/clock.h"
#include "base/num.h"
#include "cpu/linear.h"
#include "harness.h"
#include "model/model.h"

#define SECONDS 2.0 /* of passes */
#define PASSES_MAX 4096

typedef uint64_t lanes __attribute__((vector_size(16)));

struct pass {
    struct model *model;
    lanes         sum[POOL_THREADS_MAX]; /* so that nothing is left out as useless */
    size_t        bytes;
    size_t        number; /* of the pass */
};

/* How many matrices of this row of the table decoding reads. */
static int matrices(const struct model *m, const struct param *row)
{
    bool read = row->role == ROLE_LINEAR || row->role == ROLE_HEAD || (row->role == ROLE_EMBED && m->tied);
    return !read ? 0 : row->active ? row->active : param_stack(row);
}

/* The i-th of them in a pass: experts spread over the stack. */
static const struct packed *matrix(const struct param *row, size_t pass, int i)
{
    size_t n = (size_t)param_stack(row), k = row->active ? (size_t)row->active : n;
    return row->weight[((size_t)i * n / k + pass * 5) % n].packed;
}

static lanes read_span(const unsigned char *p, size_t n)
{
    const lanes *v = (const void *)p;
    lanes        a = {0}, b = {0}, c = {0}, d = {0};
    size_t       i = 0, count = n / sizeof *v; /* tiles are whole vectors */
    for (; i + 4 <= count; i += 4) {
        __builtin_prefetch((const char *)(v + i) + LINEAR_AHEAD);
        a += v[i];
        b += v[i + 1];
        c += v[i + 2];
        d += v[i + 3];
    }
    for (; i < count; i++)
        a += v[i];
    return (a + b) + (c + d);
}

static void pass_part(void *arg, int i, int n)
{
    struct pass         *pass = arg;
    const struct params *p = &pass->model->params;
    lanes                sum = {0};
    for (int head = 0; head < 2; head++) /* a tied head is the table's first row, but read last */
        for (size_t k = 0; k < p->n; k++) {
            if ((p->v[k].role == ROLE_LINEAR) != (head == 0))
                continue;
            for (int j = 0; j < matrices(pass->model, &p->v[k]); j++) {
                const struct packed *m = matrix(&p->v[k], pass->number, j);
                long                 lo, hi;
                pool_share((long)m->n_tile, 1, i, n, &lo, &hi);
                sum += read_span(packed_tile(m, lo), (size_t)(hi - lo) * m->tile_size);
            }
        }
    pass->sum[i] = sum;
}

static size_t bytes_of(const struct model *m)
{
    size_t bytes = 0;
    for (size_t k = 0; k < m->params.n; k++) {
        const struct param  *row = &m->params.v[k];
        const struct packed *p = row->weight->packed; /* of a stack all are as large */
        bytes += matrices(m, row) ? (size_t)matrices(m, row) * (size_t)p->n_tile * p->tile_size : 0;
    }
    return bytes;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct pass *pass, struct pool *pool, const char *dir)
{
    static double seconds[PASSES_MAX];
    int           n = 0;
    double        end = clock_now() + SECONDS;
    pool_run(pool, pass_part, pass);
    while (n < 7 || (n < PASSES_MAX && clock_now() < end)) {
        double t = clock_now();
        pass->number++;
        pool_run(pool, pass_part, pass);
        seconds[n++] = clock_now() - t;
    }
    qsort(seconds, (size_t)n, sizeof *seconds, ascending);
    printf("roof: %s: %.1f MB a token, %d threads: median %.2f GB/s, %.2f tok/s; best %.2f GB/s, %.2f tok/s\n", dir,
           (double)pass->bytes * 1e-6, pool_size(pool), (double)pass->bytes / seconds[n / 2] * 1e-9, 1 / seconds[n / 2],
           (double)pass->bytes / seconds[0] * 1e-9, 1 / seconds[0]);
}

int kc_roof(const char *dir, int threads)
{
    static struct pass   pass;
    struct backend      *backend = NULL;
    struct cpu_options   cpu = {.threads = threads, .level = -1};
    struct model_options options = {.page_tokens = KV_TILE};
    struct error         e = {0};
    int                  err = cpu_backend_new(&backend, &cpu, &e);
    if (!err)
        err = model_load(&pass.model, dir, arch_describe, backend, &options, &e);
    if (!err) {
        pass.bytes = bytes_of(pass.model);
        measure(&pass, cpu_backend_pool(backend), dir);
        model_free(pass.model);
    } else {
        fprintf(stderr, "kernelcheck: %s\n", e.msg);
    }
    if (backend)
        backend->free(backend);
    return err != 0;
}
