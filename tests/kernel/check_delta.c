/* Checks of the gated delta rule: its gates, and the recurrence against double precision, over steps that are cut anywhere,
 * several sequences and threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cpu/delta.h"
#include "cpu/rows.h"
#include "harness.h"

#define CASES 60
#define ROWS_MAX 24
#define SEQ_MAX 3
#define COLS_MAX 640 /* of a row of any tensor */

static double softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}

/* decay, sigmoid and unit of one length. decay: exp is within an ulp, softplus within a few, and what an error of its
 * argument does grows with it. */
static void check_gates(struct kc *k)
{
    static double ref[COLS_MAX], bound[COLS_MAX];
    const char   *what[3] = {"decay", "sigmoid", "unit"};
    for (int c = kc_cases(k, 6 * CASES); c; c--) {
        int    n = kc_pick(k, 1, 7, 15, 16, 17, 33, 64, 128, 200), kind = c % 3, one = kc_below(k, 2);
        float *x = kc_floats(n), *want = kc_floats(n), *a_log = kc_floats(one ? 1 : n), *dt = kc_floats(n),
              scale = 0.25f, eps = 1e-6f;
        double sum = 0;
        kc_notef(k, "%s n %d one %d", what[kind], n, one);
        kc_fill(k, x, n, kind == 2 ? 1e15 : 200);
        kc_fill(k, dt, n, 10);
        kc_fill(k, a_log, one ? 1 : n, 4);
        memcpy(want, x, (size_t)n * sizeof *x);
        for (int i = 0; i < n; i++)
            sum += (double)x[i] * x[i];
        for (int i = 0; i < n; i++) {
            double t = (double)x[i] + dt[i], rate = exp(a_log[one ? 0 : i]), arg = rate * softplus(t);
            double slope = rate / (1 + exp(-t));
            ref[i] = kind == 0 ? exp(-arg) : kind == 1 ? 1 / (1 + exp(-(double)x[i])) : x[i] / sqrt(sum + eps) * scale;
            bound[i] = kind == 0   ? ref[i] * KC_EPS * (12 * arg + slope * fabs(t) + 4) + 1e-38
                       : kind == 1 ? 6 * KC_EPS * ref[i] + 1e-37
                                   : (n / 32.0 + 12) * KC_EPS * fabs(ref[i]) + 0x1p-140;
        }
        const struct delta_fns *f[2] = {delta_fns_for(CPU_SCALAR), delta_fns_for(k->level)};
        const struct row_fns   *rows[2] = {row_fns_for(CPU_SCALAR), row_fns_for(k->level)};
        float                  *out[2] = {want, x};
        for (int i = 0; i < 2; i++)
            kind == 0   ? f[i]->decay(a_log, one, dt, out[i], n)
            : kind == 1 ? rows[i]->act(ACT_SIGMOID, NULL, out[i], out[i], n)
                        : f[i]->unit(out[i], eps, scale, n);
        kc_close(k, "against double", x, ref, bound, n);
        kc_same_floats(k, "against scalar", x, want, n);
        kc_unguard(k, x);
        kc_unguard(k, want);
        kc_unguard(k, a_log);
        kc_unguard(k, dt);
    }
}

/* A delta rule and its inputs, rows of all sequences after one another. */
struct fixture {
    struct delta  d;
    int           n_seq, n[SEQ_MAX], rows;
    struct tensor q, k, v, decay, beta;
    size_t        bytes; /* of a state */
};

static struct tensor draw(struct kc *k, int rows, int cols, double extreme)
{
    struct tensor t = {kc_floats((int64_t)rows * cols), rows, cols, cols};
    kc_fill(k, t.data, (int64_t)rows * cols, extreme);
    return t;
}

/* Keys of about unit length and decays and betas in [0, 1), as the gates make them. */
static void fixture_new(struct kc *k, struct fixture *f)
{
    struct delta *d = &f->d;
    *d = (struct delta){.n_k_head = 1 + kc_below(k, 2),
                        .k_dim = kc_pick(k, 1, 3, 16, 20, 33, 64),
                        .v_dim = kc_pick(k, 1, 5, 16, 17, 32, 40, 49, 64),
                        .per_channel = kc_below(k, 2),
                        .state = 64};
    d->n_head = d->n_k_head * (1 + kc_below(k, 2));
    f->rows = 0;
    f->n_seq = 1 + kc_below(k, SEQ_MAX);
    for (int s = 0; s < f->n_seq; s++)
        f->rows += f->n[s] = 1 + kc_below(k, ROWS_MAX / SEQ_MAX);
    f->q = draw(k, f->rows, d->n_k_head * d->k_dim, 10);
    f->k = draw(k, f->rows, d->n_k_head * d->k_dim, 1);
    f->v = draw(k, f->rows, d->n_head * d->v_dim, 100);
    f->decay = draw(k, f->rows, d->n_head * (d->per_channel ? d->k_dim : 1), 1);
    f->beta = draw(k, f->rows, d->n_head, 1);
    for (int64_t i = 0; i < f->k.n_row * f->k.n_col; i++)
        ((float *)f->k.data)[i] /= sqrtf((float)d->k_dim);
    for (int64_t i = 0; i < f->decay.n_row * f->decay.n_col; i++)
        ((float *)f->decay.data)[i] = (float)kc_uniform(k);
    for (int64_t i = 0; i < f->beta.n_row * f->beta.n_col; i++)
        ((float *)f->beta.data)[i] = (float)kc_uniform(k);
    f->bytes = d->state + delta_state_bytes(d);
    kc_notef(k, "heads %d/%d dims %d %d channel %d rows %d seq %d", d->n_k_head, d->n_head, d->k_dim, d->v_dim,
             d->per_channel, f->rows, f->n_seq);
}

static void fixture_free(struct kc *k, struct fixture *f)
{
    void *p[] = {f->q.data, f->k.data, f->v.data, f->decay.data, f->beta.data};
    for (size_t i = 0; i < ARRAY_LEN(p); i++)
        kc_unguard(k, p[i]);
}

/* One value column of one head in double precision, beside bounds of what float32 makes of it: each operation's own rounding
 * and what it inherits. */
static void column(const struct fixture *f, int row, int n, int h, int j, double *ref, double *bound)
{
    const struct delta *d = &f->d;
    double              S[64] = {0}, E[64] = {0};
    int                 hk = h / (d->n_head / d->n_k_head);
    for (int t = row; t < row + n; t++) {
        const float *q = tensor_row(f->q, t) + (int64_t)hk * d->k_dim,
                    *k = tensor_row(f->k, t) + (int64_t)hk * d->k_dim;
        const float *g = tensor_row(f->decay, t) + (int64_t)h * (d->per_channel ? d->k_dim : 1);
        double       v = tensor_row(f->v, t)[h * d->v_dim + j], beta = tensor_row(f->beta, t)[h], r = 0, er = 0, y = 0,
               ey = 0;
        for (int i = 0; i < d->k_dim; i++) {
            double gk = (double)g[d->per_channel ? i : 0] * k[i];
            r += S[i] * gk;
            er += E[i] * fabs(gk) + (d->k_dim + 2) * KC_EPS * fabs(S[i] * gk);
        }
        double u = (v - r) * beta, eu = (er + KC_EPS * fabs(v - r)) * beta + KC_EPS * fabs(u);
        for (int i = 0; i < d->k_dim; i++) {
            double gi = g[d->per_channel ? i : 0], decayed = S[i] * gi;
            S[i] = decayed + k[i] * u;
            E[i] = E[i] * gi + KC_EPS * (fabs(decayed) + fabs(S[i])) + fabs(k[i]) * eu + 0x1p-149;
            y += S[i] * q[i];
            ey += E[i] * fabs(q[i]) + (d->k_dim + 1) * KC_EPS * fabs(S[i] * q[i]);
        }
        ref[t] = y;
        bound[t] = 1.1 * ey + 0x1p-140;
    }
}

static void *zeros(size_t bytes)
{
    return memset(kc_guard(bytes), 0, bytes);
}

/* All sequences in one step on three threads, then one after the other in steps of `most` rows on one thread: the same bits,
 * states too. The values are overwritten by the outputs in the second. */
static void compare_steps(struct kc *k, struct fixture *f, struct cpu *many, struct cpu *one, float *y)
{
    struct tensor out = {y, f->rows, f->v.n_col, f->v.n_col};
    int32_t       seq[ROWS_MAX], zero[ROWS_MAX] = {0};
    char         *state[SEQ_MAX];
    int           row = 0;
    for (int s = 0; s < f->n_seq; s++) {
        state[s] = zeros(f->bytes);
        for (int i = 0; i < f->n[s]; i++)
            seq[row++] = s;
    }
    struct step step = {.n_row = f->rows, .seq = seq, .n_seq = f->n_seq, .state = (void *const *)state};
    struct run  r = {.backend = &many->base, .step = &step};
    op_delta(&r, &f->d, f->q, f->k, f->v, f->decay, f->beta, out);
    row = 0;
    for (int s = 0; s < f->n_seq; s++) {
        void *alone = zeros(f->bytes);
        for (int end = row + f->n[s]; row < end;) {
            int                  n = 1 + kc_below(k, end - row);
            struct step          part = {.n_row = n, .seq = zero, .n_seq = 1, .state = &alone};
            struct run           r1 = {.backend = &one->base, .step = &part};
            const struct tensor *t[5] = {&f->q, &f->k, &f->v, &f->decay, &f->beta};
            struct tensor        v[5];
            for (int i = 0; i < 5; i++)
                v[i] = (struct tensor){tensor_row(*t[i], row), n, t[i]->n_col, t[i]->stride};
            op_delta(&r1, &f->d, v[0], v[1], v[2], v[3], v[4], v[2]);
            row += n;
        }
        kc_same_floats(k, "state", (float *)(void *)(state[s] + f->d.state),
                       (float *)(void *)((char *)alone + f->d.state), (int64_t)delta_state_bytes(&f->d) / 4);
        kc_unguard(k, alone);
        kc_unguard(k, state[s]);
    }
    kc_same_floats(k, "steps", y, f->v.data, (int64_t)f->rows * f->v.n_col);
}

static void check_delta(struct kc *k)
{
    static double     ref[COLS_MAX][ROWS_MAX], bound[COLS_MAX][ROWS_MAX], want[COLS_MAX], most[COLS_MAX];
    struct run_limits lim = {.n_row = 1, .n_head = 1, .n_kv_head = 1, .head_dim = 1, .n_key = 1};
    struct cpu       *many = kc_cpu_new(k->level, 3, PRECISION_DEFAULT, &lim);
    struct cpu       *one = kc_cpu_new(CPU_SCALAR, 1, PRECISION_DEFAULT, &lim);
    for (int c = kc_cases(k, CASES); c; c--) {
        struct fixture f;
        fixture_new(k, &f);
        int    cols = f.d.n_head * f.d.v_dim;
        float *y = kc_floats((int64_t)f.rows * cols);
        for (int col = 0; col < cols; col++)
            for (int s = 0, row = 0; s < f.n_seq; row += f.n[s++])
                column(&f, row, f.n[s], col / f.d.v_dim, col % f.d.v_dim, ref[col], bound[col]);
        compare_steps(k, &f, many, one, y);
        for (int t = 0; t < f.rows; t++) {
            for (int col = 0; col < cols; col++) {
                want[col] = ref[col][t];
                most[col] = bound[col][t];
            }
            kc_close(k, "against double", y + (int64_t)t * cols, want, most, cols);
        }
        kc_unguard(k, y);
        fixture_free(k, &f);
    }
    kc_cpu_free(many);
    kc_cpu_free(one);
}

struct bench {
    const struct delta_fns *f;
    struct delta_scan       s;
};

static void bench_scan_run(void *arg)
{
    struct bench *b = arg;
    b->f->scan(&b->s);
}

/* Heads as Qwen3-Next and Kimi Linear have them, 64 rows at once and one. */
static void bench_delta(struct kc *k)
{
    enum { DIM = 128, N = 64 };
    float *x = kc_floats(6 * DIM * N);
    kc_fill(k, x, 6 * DIM * N, 0);
    for (int i = 0; i < 6 * DIM * N; i++)
        x[i] = 0.5f / DIM;
    for (int kind = 0; kind < 4; kind++) {
        int           rows = kind & 1 ? N : 1;
        struct tensor t = {x, rows, DIM, DIM};
        struct bench  b = {delta_fns_for(k->level),
                           {DIM, 32, kind > 1, zeros(DIM * 32 * sizeof(float)), t, t, t, t, t, t}};
        char          what[64];
        b.s.y.data = x + DIM * N;
        snprintf(what, sizeof what, "%s 128 x 32, %d rows", kind > 1 ? "per channel" : "per head", rows);
        kc_rate(k, what, kc_time(bench_scan_run, &b) / rows, 0, 7.0 * DIM * 32);
        kc_unguard(k, b.s.state);
    }
    kc_unguard(k, x);
}

const struct check delta_checks[] = {
    {"delta_gates", check_gates, NULL}, {"delta", check_delta, bench_delta}, {NULL, NULL, NULL}};
