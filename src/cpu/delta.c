/* The gated delta rule of the CPU backend.
 *
 * delta_gates is a row operation. delta shares out heads and slices of 32 value columns: a thread runs along all rows of a
 * sequence with its slice of the state, which stays in the first-level cache, and nothing that it computes depends on how
 * many rows the step has, on other sequences or on who has the other slices.
 */
#include "cpu/delta.h"

#include "base/num.h"
#include "cpu/kernels.h"

#define PARALLEL_MIN 16384 /* elements of work that waking the pool costs; rows.c */

const struct delta_fns *delta_fns_for(enum cpu_level level)
{
    return KERNELS_FOR(delta, level);
}

struct job {
    struct run         *run;
    const struct delta *d;
    struct tensor       q, k, v, a, b, y;
};

static const struct delta_fns *fns_of(const struct job *j)
{
    return ((const struct cpu *)j->run->backend)->delta;
}

/* A vector's values for row i, which its adapters may replace. */
static const float *values(const struct job *j, int64_t i, const struct weight *w)
{
    return (j->run->step->lora ? lora_weight_of(run_lora(j->run, i), w) : w)->packed;
}

static void gates_row(const struct job *j, int64_t i)
{
    const struct delta_fns *f = fns_of(j);
    const struct delta     *d = j->d;
    float                  *a = tensor_row(j->a, i);
    const float            *a_log = values(j, i, &d->a_log), *dt = values(j, i, &d->dt_bias);
    for (int h = 0; h < d->n_k_head; h++) {
        f->unit(tensor_row(j->q, i) + (int64_t)h * d->k_dim, d->eps, d->scale, d->k_dim);
        f->unit(tensor_row(j->k, i) + (int64_t)h * d->k_dim, d->eps, 1, d->k_dim);
    }
    if (!d->per_channel)
        f->decay(a_log, false, dt, a, d->n_head);
    else
        for (int h = 0; h < d->n_head; h++)
            f->decay(a_log + h, true, dt + (int64_t)h * d->k_dim, a + (int64_t)h * d->k_dim, d->k_dim);
    f->sigmoid(tensor_row(j->b, i), d->n_head);
}

static void gates_part(void *arg, int i, int n)
{
    const struct job *j = arg;
    long              lo, hi;
    pool_share(j->q.n_row, 1, i, n, &lo, &hi);
    for (long row = lo; row < hi; row++)
        gates_row(j, row);
}

static void delta_gates(struct run *r, const struct delta *d, struct tensor q, struct tensor k, struct tensor a,
                        struct tensor b)
{
    struct job j = {.run = r, .d = d, .q = q, .k = k, .a = a, .b = b};
    int64_t    cost = 2 * q.n_col + 16 * a.n_col;
    if (q.n_row > 1 && q.n_row * cost >= PARALLEL_MIN)
        pool_run(((struct cpu *)r->backend)->pool, gates_part, &j);
    else
        gates_part(&j, 0, 1);
}

/* Rows [lo, lo + n) of t from column `col` on. */
static struct tensor part_of(struct tensor t, int64_t lo, int64_t n, int64_t col)
{
    return (struct tensor){tensor_row(t, lo) + col, n, t.n_col - col, t.stride};
}

/* The pair-th pair of slices of all heads, over the rows [lo, lo + n) of one sequence. */
static void scan_pair(const struct job *j, int64_t pair, int64_t lo, int64_t n, char *state)
{
    const struct delta *d = j->d;
    int64_t             n_slice = (d->v_dim + DELTA_LANES - 1) / DELTA_LANES, n_pair = (n_slice + 1) / 2;
    int64_t             h = pair / n_pair, slice = pair % n_pair * 2, col = slice * DELTA_LANES;
    int64_t             v = h * d->v_dim + col, k = h / (d->n_head / d->n_k_head) * d->k_dim;
    struct delta_scan   s = {.k_dim = d->k_dim,
                             .n_col = (int)MIN(d->v_dim - col, 2 * DELTA_LANES),
                             .per_channel = d->per_channel,
                             .state =
                                 (float *)(void *)(state + d->state) + (h * n_slice + slice) * d->k_dim * DELTA_LANES,
                             .q = part_of(j->q, lo, n, k),
                             .k = part_of(j->k, lo, n, k),
                             .v = part_of(j->v, lo, n, v),
                             .decay = part_of(j->a, lo, n, d->per_channel ? h * d->k_dim : h),
                             .beta = part_of(j->b, lo, n, h),
                             .y = part_of(j->y, lo, n, v)};
    fns_of(j)->scan(&s);
}

static void scan_part(void *arg, int i, int n)
{
    const struct job   *j = arg;
    const struct delta *d = j->d;
    const struct step  *step = j->run->step;
    int64_t             n_pair = (d->v_dim + 2 * DELTA_LANES - 1) / (2 * DELTA_LANES);
    long                lo, hi;
    pool_share(d->n_head * n_pair, 1, i, n, &lo, &hi);
    for (int row = 0, end; row < step->n_row; row = end) {
        for (end = row + 1; end < step->n_row && step->seq[end] == step->seq[row]; end++)
            ;
        for (long pair = lo; pair < hi; pair++)
            scan_pair(j, pair, row, end - row, step->state[step->seq[row]]);
    }
}

static void delta(struct run *r, const struct delta *d, struct tensor q, struct tensor k, struct tensor v,
                  struct tensor decay, struct tensor b, struct tensor y)
{
    struct job j = {.run = r, .d = d, .q = q, .k = k, .v = v, .a = decay, .b = b, .y = y};
    if ((int64_t)r->step->n_row * d->n_head * d->k_dim * d->v_dim >= PARALLEL_MIN)
        pool_run(((struct cpu *)r->backend)->pool, scan_part, &j);
    else
        scan_part(&j, 0, 1);
}

void delta_install(struct cpu *c)
{
    c->base.ops.delta_gates = delta_gates;
    c->base.ops.delta = delta;
}
