/* The gated delta rule of the CPU backend.
 *
 * delta_gates is a row operation. delta shares out heads and slices of 32 value columns: a thread runs along all rows of a
 * sequence with its slice of the state, which stays in the first-level cache, and nothing that it computes depends on how
 * many rows the step has, on other sequences or on who has the other slices.
 */
#include "cpu/delta.h"

#include "base/num.h"
#include "cpu/rows.h"
#include "cpu/scan.h"

const struct delta_fns *delta_fns_for(enum cpu_level level)
{
    return KERNELS_FOR(delta, level);
}

static const struct delta_fns *fns_of(const struct run *r)
{
    return ((const struct cpu *)r->backend)->delta;
}

struct gates {
    struct run         *run;
    const struct delta *d;
    struct tensor       q, k, a, b;
};

/* A vector's values for row i, which its adapters may replace. */
static const float *values(const struct gates *j, int64_t i, const struct weight *w)
{
    return lora_weight_of(run_lora(j->run, i), w)->packed;
}

static void gates_row(const struct gates *j, int64_t i)
{
    const struct delta_fns *f = fns_of(j->run);
    const struct delta     *d = j->d;
    float                  *a = tensor_row(j->a, i), *b = tensor_row(j->b, i);
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
    ((const struct cpu *)j->run->backend)->rows->act(ACT_SIGMOID, NULL, b, b, d->n_head);
}

static void gates_part(void *arg, int i, int n)
{
    const struct gates *j = arg;
    long                lo, hi;
    pool_share(j->q.n_row, 1, i, n, &lo, &hi);
    for (long row = lo; row < hi; row++)
        gates_row(j, row);
}

static void delta_gates(struct run *r, const struct delta *d, struct tensor q, struct tensor k, struct tensor a,
                        struct tensor b)
{
    struct gates j = {r, d, q, k, a, b};
    int64_t      cost = 2 * q.n_col + 16 * a.n_col;
    if (q.n_row > 1 && q.n_row * cost >= SCAN_PARALLEL_MIN)
        pool_run(((struct cpu *)r->backend)->pool, gates_part, &j);
    else
        gates_part(&j, 0, 1);
}

struct rule {
    struct scan         scan; /* its items: pairs of slices, head by head */
    const struct delta *d;
    struct tensor       q, k, v, decay, b, y;
};

static int64_t pairs_of(const struct delta *d)
{
    return (d->v_dim + 2 * STATE_LANES - 1) / (2 * STATE_LANES);
}

static void rule_item(const struct rule *j, const struct scan_rows *rows, int64_t item)
{
    const struct delta *d = j->d;
    int64_t             n_slice = (int64_t)state_slices(d->v_dim);
    int64_t             h = item / pairs_of(d), slice = item % pairs_of(d) * 2, col = slice * STATE_LANES;
    int64_t             v = h * d->v_dim + col, k = h / (d->n_head / d->n_k_head) * d->k_dim;
    float              *state = (float *)(void *)(rows->state + d->state);
    struct delta_scan   s = {.k_dim = d->k_dim,
                             .n_col = (int)MIN(d->v_dim - col, 2 * STATE_LANES),
                             .per_channel = d->per_channel,
                             .state = state + (h * n_slice + slice) * d->k_dim * STATE_LANES,
                             .q = scan_cols(rows, j->q, k),
                             .k = scan_cols(rows, j->k, k),
                             .v = scan_cols(rows, j->v, v),
                             .decay = scan_cols(rows, j->decay, d->per_channel ? h * d->k_dim : h),
                             .beta = scan_cols(rows, j->b, h),
                             .y = scan_cols(rows, j->y, v)};
    fns_of(j->scan.run)->scan(&s);
}

static void rule_items(const struct scan *s, const struct scan_rows *rows, int64_t lo, int64_t hi)
{
    for (int64_t item = lo; item < hi; item++)
        rule_item((const struct rule *)s, rows, item);
}

static void delta(struct run *r, const struct delta *d, struct tensor q, struct tensor k, struct tensor v,
                  struct tensor decay, struct tensor b, struct tensor y)
{
    struct rule j = {{rule_items, r, d->n_head * pairs_of(d)}, d, q, k, v, decay, b, y};
    scan_run(&j.scan, (int64_t)d->n_head * d->k_dim * d->v_dim);
}

void delta_install(struct cpu *c)
{
    c->base.ops.delta_gates = delta_gates;
    c->base.ops.delta = delta;
}
