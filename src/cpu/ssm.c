/* Short convolutions and state space models of the CPU backend: conv, mamba1, mamba2. A thread runs along all rows of a
 * sequence with a few of its channels, whose state stays in the first-level cache (scan.h). */
#include "cpu/ssm.h"

#include "base/num.h"
#include "cpu/scan.h"

const struct ssm_fns *ssm_fns_for(enum cpu_level level)
{
    return KERNELS_FOR(ssm, level);
}

static const struct ssm_fns *fns_of(const struct scan *s)
{
    return ((const struct cpu *)s->run->backend)->ssm;
}

struct conv_job {
    struct scan        scan;
    const struct conv *c;
    struct tensor      x, y;
};

static void conv_items(const struct scan *s, const struct scan_rows *rows, int64_t lo, int64_t hi)
{
    const struct conv_job *j = (const struct conv_job *)s;
    const struct conv     *c = j->c;
    const float           *w = scan_values(rows, &c->w), *bias = lora_bias_of(rows->lora, &c->w);
    for (int64_t at = lo * CONV_COLS, end = MIN(hi * CONV_COLS, c->n); at < end; at += CONV_COLS) {
        struct conv_scan k = {.n_col = (int)MIN(end - at, CONV_COLS),
                              .width = c->width,
                              .silu = c->silu,
                              .w = w + at * c->width,
                              .bias = bias ? bias + at : NULL,
                              .state = (float *)(void *)(rows->state + c->state) + at,
                              .n_state_col = c->n,
                              .x = scan_cols(rows, j->x, at),
                              .y = scan_cols(rows, j->y, at)};
        fns_of(s)->conv(&k);
    }
}

static void cpu_conv(struct run *r, const struct conv *c, struct tensor x, struct tensor y)
{
    struct conv_job j = {{conv_items, r, (c->n + CONV_COLS - 1) / CONV_COLS}, c, x, y};
    scan_run(&j.scan, (int64_t)c->n * c->width);
}

/* Both kinds of Mamba. */
struct mamba_job {
    struct scan          scan;
    const struct mamba1 *m1;
    const struct mamba2 *m2;
    struct tensor        x, dt, b, c, y;
};

static void mamba1_items(const struct scan *s, const struct scan_rows *rows, int64_t lo, int64_t hi)
{
    const struct mamba_job *j = (const struct mamba_job *)s;
    const struct mamba1    *m = j->m1;
    const float            *a_log = scan_values(rows, &m->a_log), *d = scan_values(rows, &m->d);
    for (int64_t i = lo; i < hi; i++) {
        int64_t            at = i * STATE_LANES;
        struct mamba1_scan k = {.n_col = (int)MIN(m->n - at, STATE_LANES),
                                .n_state = m->n_state,
                                .a_log = a_log + at * m->n_state,
                                .d = d + at,
                                .state = (float *)(void *)(rows->state + m->state) + at * m->n_state,
                                .x = scan_cols(rows, j->x, at),
                                .dt = scan_cols(rows, j->dt, at),
                                .b = scan_cols(rows, j->b, 0),
                                .c = scan_cols(rows, j->c, 0),
                                .y = scan_cols(rows, j->y, at)};
        fns_of(s)->mamba1(&k);
    }
}

static void cpu_mamba1(struct run *r, const struct mamba1 *m, struct tensor x, struct tensor dt, struct tensor b,
                       struct tensor c, struct tensor y)
{
    struct mamba_job j = {{mamba1_items, r, (int64_t)state_slices(m->n)}, m, NULL, x, dt, b, c, y};
    scan_run(&j.scan, 8 * (int64_t)m->n * m->n_state);
}

/* Pairs of slices of a head's channels. */
static int64_t head_pairs(const struct mamba2 *m)
{
    return (m->head_dim + 2 * STATE_LANES - 1) / (2 * STATE_LANES);
}

static void mamba2_items(const struct scan *s, const struct scan_rows *rows, int64_t lo, int64_t hi)
{
    const struct mamba_job *j = (const struct mamba_job *)s;
    const struct mamba2    *m = j->m2;
    const float            *a_log = scan_values(rows, &m->a_log), *d = scan_values(rows, &m->d);
    const float            *dt_bias = scan_values(rows, &m->dt_bias);
    int64_t                 n_slice = (int64_t)state_slices(m->head_dim), pairs = head_pairs(m);
    for (int64_t i = lo; i < hi; i++) {
        int64_t h = i / pairs, slice = i % pairs * 2, at = h * m->head_dim + slice * STATE_LANES;
        int64_t group = h / (m->n_head / m->n_group) * m->n_state, first = (h * n_slice + slice) * STATE_LANES;
        struct mamba2_scan k = {.n_col = (int)MIN((h + 1) * m->head_dim - at, 2 * STATE_LANES),
                                .n_state = m->n_state,
                                .a_log = a_log[h],
                                .dt_bias = dt_bias[h],
                                .d = d[h],
                                .dt_min = m->dt_min,
                                .dt_max = m->dt_max,
                                .state = (float *)(void *)(rows->state + m->state) + first * m->n_state,
                                .x = scan_cols(rows, j->x, at),
                                .dt = scan_cols(rows, j->dt, h),
                                .b = scan_cols(rows, j->b, group),
                                .c = scan_cols(rows, j->c, group),
                                .y = scan_cols(rows, j->y, at)};
        fns_of(s)->mamba2(&k);
    }
}

static void cpu_mamba2(struct run *r, const struct mamba2 *m, struct tensor x, struct tensor dt, struct tensor b,
                       struct tensor c, struct tensor y)
{
    struct mamba_job j = {{mamba2_items, r, m->n_head * head_pairs(m)}, NULL, m, x, dt, b, c, y};
    scan_run(&j.scan, 2 * (int64_t)m->n_head * m->head_dim * m->n_state);
}

void ssm_install(struct cpu *c)
{
    c->base.ops.conv = cpu_conv;
    c->base.ops.mamba1 = cpu_mamba1;
    c->base.ops.mamba2 = cpu_mamba2;
}
