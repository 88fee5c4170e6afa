/* Checks of short convolutions and state space models: against double precision, and the same bits at every level, for any
 * threads, for steps that are cut anywhere, beside other sequences, and from a copy of the state. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cpu/ssm.h"
#include "harness.h"

#define CASES 60
#define ROWS_MAX 160
#define SEQ_MAX 3
#define STATE_MAX 64

enum kind { CONV, MAMBA1, MAMBA2 };

/* An operation and its inputs, the rows of all sequences after one another. */
struct fixture {
    enum kind     kind;
    struct conv   conv;
    struct mamba1 m1;
    struct mamba2 m2;
    int           n_seq, n[SEQ_MAX], rows, n_col; /* n_col: of x and y */
    struct tensor x, dt, b, c;
    size_t        bytes; /* of a state */
    float        *vectors[4];
};

static struct tensor draw(struct kc *k, int rows, int cols, double extreme)
{
    struct tensor t = {kc_floats((int64_t)rows * cols), rows, cols, cols};
    kc_fill(k, t.data, (int64_t)rows * cols, extreme);
    return t;
}

static void draw_vector(struct kc *k, struct fixture *f, struct weight *w, int i, int n, double extreme)
{
    f->vectors[i] = kc_floats(n);
    kc_fill(k, f->vectors[i], n, extreme);
    *w = (struct weight){.n_out = 1, .n_in = n, .packed = f->vectors[i]};
}

static void conv_new(struct kc *k, struct fixture *f)
{
    struct conv *c = &f->conv;
    *c = (struct conv){.n = kc_pick(k, 1, 15, 16, 17, 63, 64, 65, 200),
                       .width = kc_pick(k, 2, 3, 4, 7, CONV_WIDTH_MAX),
                       .silu = kc_below(k, 2),
                       .state = 64};
    f->n_col = c->n;
    f->bytes = c->state + conv_state_bytes(c);
    draw_vector(k, f, &c->w, 0, c->n * c->width, 100);
    if (kc_below(k, 2)) {
        f->vectors[1] = kc_floats(c->n);
        kc_fill(k, f->vectors[1], c->n, 100);
        c->w.bias = f->vectors[1];
    }
    f->x = draw(k, f->rows, c->n, 1e10);
    kc_notef(k, "conv n %d width %d silu %d bias %d rows %d", c->n, c->width, c->silu, !!c->w.bias, f->rows);
}

static void mamba1_new(struct kc *k, struct fixture *f)
{
    struct mamba1 *m = &f->m1;
    *m = (struct mamba1){
        .n = kc_pick(k, 1, 15, 16, 17, 40, 64), .n_state = kc_pick(k, 1, 3, 16, STATE_MAX), .state = 128};
    f->n_col = m->n;
    f->bytes = m->state + mamba1_state_bytes(m);
    draw_vector(k, f, &m->a_log, 0, m->n * m->n_state, 3);
    draw_vector(k, f, &m->d, 1, m->n, 10);
    f->x = draw(k, f->rows, m->n, 100);
    f->dt = draw(k, f->rows, m->n, 50);
    f->b = draw(k, f->rows, m->n_state, 10);
    f->c = draw(k, f->rows, m->n_state, 10);
    kc_notef(k, "mamba1 n %d state %d rows %d", m->n, m->n_state, f->rows);
}

static void mamba2_new(struct kc *k, struct fixture *f)
{
    struct mamba2 *m = &f->m2;
    *m = (struct mamba2){.n_group = 1 + kc_below(k, 3),
                         .head_dim = kc_pick(k, 1, 8, 16, 17, 32, 33, 48, 64),
                         .n_state = kc_pick(k, 1, 3, 16, STATE_MAX),
                         .dt_min = kc_below(k, 2) ? 0 : 0.25f,
                         .dt_max = kc_below(k, 2) ? INFINITY : 1.5f,
                         .state = 64};
    m->n_head = m->n_group * (1 + kc_below(k, 3));
    f->n_col = m->n_head * m->head_dim;
    f->bytes = m->state + mamba2_state_bytes(m);
    draw_vector(k, f, &m->a_log, 0, m->n_head, 3);
    draw_vector(k, f, &m->dt_bias, 1, m->n_head, 10);
    draw_vector(k, f, &m->d, 2, m->n_head, 10);
    f->x = draw(k, f->rows, f->n_col, 100);
    f->dt = draw(k, f->rows, m->n_head, 50);
    f->b = draw(k, f->rows, m->n_group * m->n_state, 10);
    f->c = draw(k, f->rows, m->n_group * m->n_state, 10);
    kc_notef(k, "mamba2 heads %d/%d dim %d state %d dt %g..%g rows %d", m->n_head, m->n_group, m->head_dim, m->n_state,
             (double)m->dt_min, (double)m->dt_max, f->rows);
}

static void fixture_new(struct kc *k, struct fixture *f, enum kind kind)
{
    *f = (struct fixture){.kind = kind, .n_seq = 1 + kc_below(k, SEQ_MAX)};
    for (int s = 0; s < f->n_seq; s++)
        f->rows += f->n[s] = 1 + kc_below(k, kc_pick(k, 4, ROWS_MAX / SEQ_MAX - 1));
    (kind == CONV ? conv_new : kind == MAMBA1 ? mamba1_new : mamba2_new)(k, f);
}

static void fixture_free(struct kc *k, struct fixture *f)
{
    void *p[] = {f->x.data, f->dt.data, f->b.data, f->c.data, f->vectors[0], f->vectors[1], f->vectors[2]};
    for (size_t i = 0; i < ARRAY_LEN(p); i++)
        if (p[i])
            kc_unguard(k, p[i]);
}

static struct tensor rows_of(struct tensor t, int lo, int n)
{
    return t.data ? (struct tensor){tensor_row(t, lo), n, t.n_col, t.stride} : t;
}

/* Rows [lo, hi) as one step, into the same rows of y; seq[i] of a row is its sequence, whose state is state[seq[i]]. */
static void step(struct cpu *cpu, const struct fixture *f, const int32_t *seq, void *const *state, int lo, int hi,
                 struct tensor y)
{
    struct step   s = {.n_row = hi - lo, .seq = seq + lo, .n_seq = f->n_seq, .state = state};
    struct run    r = {.backend = &cpu->base, .step = &s};
    int           n = hi - lo;
    struct tensor x = rows_of(f->x, lo, n), dt = rows_of(f->dt, lo, n), b = rows_of(f->b, lo, n);
    struct tensor c = rows_of(f->c, lo, n), out = rows_of(y, lo, n);
    if (f->kind == CONV)
        op_conv(&r, &f->conv, x, out);
    else if (f->kind == MAMBA1)
        op_mamba1(&r, &f->m1, x, dt, b, c, out);
    else
        op_mamba2(&r, &f->m2, x, dt, b, c, out);
}

/* All rows in steps that end at random places, from states of zeros; halfway the states move to a copy. In place: y is x. */
static void run_all(struct kc *k, struct cpu *cpu, const struct fixture *f, bool cut, bool in_place, struct tensor y)
{
    struct fixture g = *f;
    int32_t        seq[ROWS_MAX];
    void          *state[SEQ_MAX];
    for (int s = 0, row = 0; s < f->n_seq; s++) {
        state[s] = memset(kc_guard(f->bytes), 0, f->bytes);
        for (int i = 0; i < f->n[s]; i++)
            seq[row++] = s;
    }
    if (in_place) {
        memcpy(y.data, f->x.data, (size_t)f->rows * (size_t)f->n_col * sizeof(float));
        g.x = y;
    }
    for (int lo = 0, hi; lo < f->rows; lo = hi) {
        int n = 1 + kc_below(k, 9);
        hi = cut ? MIN(f->rows, lo + n) : f->rows;
        step(cpu, &g, seq, state, lo, hi, y);
        for (int s = 0; s < f->n_seq && cut; s++) {
            void *copy = memcpy(kc_guard(f->bytes), state[s], f->bytes);
            kc_unguard(k, state[s]);
            state[s] = copy;
        }
    }
    for (int s = 0; s < f->n_seq; s++)
        kc_unguard(k, state[s]);
}

/* x as float32 has it in a double, and how far off it may be. */
struct value {
    double x, e;
};

/* softplus within 8 half ulps of the result for its rounded argument. */
static struct value softplus_of(double x, double e)
{
    double y = x > 40 ? x : log1p(exp(x));
    return (struct value){y, 8 * KC_EPS * y + e / (1 + exp(-x)) + 1e-44};
}

/* exp(dt a), a = -exp(a_log): exp is within an ulp, and what its argument's error does grows with it. */
static struct value decay_of(struct value dt, float a_log)
{
    double a = exp((double)a_log), y = exp(-dt.x * a);
    return (struct value){y, y * (a * dt.e * 1.01 + 4 * KC_EPS * dt.x * a + 3 * KC_EPS) + 1e-38};
}

/* y of one channel along a sequence. S: the state; E: how far off it may be. */
static void channel(const struct fixture *f, int row, int n, int col, double *ref, double *bound)
{
    double S[STATE_MAX] = {0}, E[STATE_MAX] = {0};
    bool   two = f->kind == MAMBA2;
    int    n_state = two ? f->m2.n_state : f->m1.n_state, h = two ? col / f->m2.head_dim : col;
    int    group = two ? h / (f->m2.n_head / f->m2.n_group) : 0;
    for (int t = row; t < row + n; t++) {
        const float *b = tensor_row(f->b, t) + group * n_state, *c = tensor_row(f->c, t) + group * n_state;
        double       x = (double)tensor_row(f->x, t)[col], in = (double)tensor_row(f->dt, t)[h];
        double       d = (double)((const float *)(two ? f->m2.d : f->m1.d).packed)[h], y = 0, ey = 0;
        if (two)
            in += (double)((const float *)f->m2.dt_bias.packed)[h];
        struct value dt = softplus_of(in, two ? KC_EPS * fabs(in) : 0);
        if (two)
            dt.x = fmin(fmax(dt.x, (double)f->m2.dt_min), (double)f->m2.dt_max);
        double xdt = dt.x * x, ex = dt.e * fabs(x) + KC_EPS * fabs(xdt) + 1e-44;
        for (int i = 0; i < n_state; i++) {
            const float *a_log = (two ? f->m2.a_log : f->m1.a_log).packed;
            struct value decay = decay_of(dt, two ? a_log[h] : a_log[col * n_state + i]);
            double       old = S[i] * decay.x;
            E[i] = E[i] * decay.x + fabs(S[i]) * decay.e + KC_EPS * fabs(old) + ex * fabs((double)b[i]);
            S[i] = old + xdt * (double)b[i];
            E[i] += KC_EPS * (fabs(S[i]) + E[i]) + 1e-44;
            y += S[i] * (double)c[i];
            ey += E[i] * fabs((double)c[i]) + (n_state + 2) * KC_EPS * (fabs(S[i]) + E[i]) * fabs((double)c[i]);
        }
        int64_t at = (int64_t)t * f->n_col + col;
        ref[at] = y + d * x;
        bound[at] = 1.01 * ey + 2 * KC_EPS * (fabs(y) + fabs(d * x)) + 1e-38;
    }
}

static void conv_channel(const struct fixture *f, int row, int n, int col, double *ref, double *bound)
{
    const struct conv *c = &f->conv;
    const float       *w = (const float *)c->w.packed + (int64_t)col * c->width;
    for (int t = row; t < row + n; t++) {
        double y = 0, mag = 0;
        for (int j = 0; j < c->width; j++) {
            int    from = t - c->width + 1 + j;
            double v = from < row ? 0 : (double)tensor_row(f->x, from)[col] * (double)w[j];
            y += v;
            mag += fabs(v);
        }
        double bias = c->w.bias ? (double)c->w.bias[col] : 0, e = (c->width + 2) * KC_EPS * (mag + fabs(bias));
        y += bias;
        int64_t at = (int64_t)t * f->n_col + col;
        ref[at] = c->silu ? y / (1 + exp(-y)) : y;
        bound[at] = 1.2 * e + (c->silu ? 6 * KC_EPS * fabs(ref[at]) : 0) + 1e-34;
    }
}

static void check_case(struct kc *k, enum kind kind, struct cpu *scalar, struct cpu *one, struct cpu *many)
{
    struct fixture f;
    fixture_new(k, &f, kind);
    int64_t       n = (int64_t)f.rows * f.n_col;
    double       *ref = calloc((size_t)n, sizeof *ref), *bound = calloc((size_t)n, sizeof *bound);
    struct tensor want = draw(k, f.rows, f.n_col, 1), got = draw(k, f.rows, f.n_col, 1);
    if (!ref || !bound)
        exit(2);
    for (int s = 0, row = 0; s < f.n_seq; row += f.n[s++])
        for (int col = 0; col < f.n_col; col++)
            (kind == CONV ? conv_channel : channel)(&f, row, f.n[s], col, ref, bound);
    run_all(k, scalar, &f, false, false, want);
    kc_close(k, "against double", want.data, ref, bound, n);
    run_all(k, one, &f, false, false, got);
    kc_same_floats(k, "against scalar", got.data, want.data, n);
    run_all(k, many, &f, true, kc_below(k, 2), got);
    kc_same_floats(k, "in pieces, by three threads", got.data, want.data, n);
    fixture_free(k, &f);
    kc_unguard(k, want.data);
    kc_unguard(k, got.data);
    free(ref);
    free(bound);
}

static void check_kind(struct kc *k, enum kind kind)
{
    struct run_limits lim = {.n_row = 1, .n_head = 1, .n_kv_head = 1, .head_dim = 1, .n_key = 1};
    struct cpu       *scalar = kc_cpu_new(CPU_SCALAR, 1, PRECISION_DEFAULT, &lim);
    struct cpu       *one = kc_cpu_new(k->level, 1, PRECISION_DEFAULT, &lim);
    struct cpu       *many = kc_cpu_new(k->level, 3, PRECISION_DEFAULT, &lim);
    for (int c = kc_cases(k, CASES); c; c--)
        check_case(k, kind, scalar, one, many);
    kc_cpu_free(scalar);
    kc_cpu_free(one);
    kc_cpu_free(many);
}

static void check_conv(struct kc *k)
{
    check_kind(k, CONV);
}

static void check_mamba1(struct kc *k)
{
    check_kind(k, MAMBA1);
}

static void check_mamba2(struct kc *k)
{
    check_kind(k, MAMBA2);
}

const struct check ssm_checks[] = {
    {"ssm_conv", check_conv, NULL},
    {"ssm_mamba1", check_mamba1, NULL},
    {"ssm_mamba2", check_mamba2, NULL},
    {NULL, NULL, NULL},
};
