/* Checks of activations and of what is made of them: every kind against double with the bound that its form promises,
 * at every level the same bits, with a gate of each column and of each head. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "cpu/rows.h"
#include "harness.h"

#define N_MAX 700
#define CASES 100

static const float xielu[] = {0.8f, 0.3f, 0.5f, -1e-6f};

/* The exact value; *size: what its error is counted in. exp of a rounded argument v has a relative error of v's size. */
static double exact(enum act_kind kind, double x, double *size)
{
    double v = 0, y = 0;
    switch (kind) {
    case ACT_SILU:
        y = x / (1 + exp(-x));
        break;
    case ACT_GELU:
        y = x * erfc(-x / sqrt(2)) / 2;
        break;
    case ACT_GELU_TANH:
        v = sqrt(2 / M_PI) * 2 * (x + 0.044715 * x * x * x);
        y = x / (1 + exp(-v));
        break;
    case ACT_GELU_QUICK:
        v = 1.702 * x;
        y = x / (1 + exp(-v));
        break;
    case ACT_RELU:
        y = fmax(x, 0);
        break;
    case ACT_RELU2:
        y = x > 0 ? x * x : 0;
        break;
    case ACT_SIGMOID:
        y = 1 / (1 + exp(-x));
        break;
    case ACT_SOFTPLUS:
        y = fmax(x, 0) + log1p(exp(-fabs(x)));
        break;
    case ACT_TANH:
        y = tanh(x);
        break;
    case ACT_IDENTITY:
        y = x;
        break;
    case ACT_XIELU:
        y = xielu[2] * x + (x > 0 ? xielu[0] * x * x : xielu[1] * (expm1(fmin(x, xielu[3])) - x));
        *size = fabs(xielu[2] * x) + (x > 0 ? y : xielu[1] * (fabs(expm1(fmin(x, xielu[3]))) + fabs(x)));
        return y;
    case ACT_SWIGLU_CLAMPED:
        break;
    }
    *size = fabs(y) * (1 + fmin(fabs(v), 110) / 2);
    return y;
}

/* Results below the least normal number, and beyond exp's range, may be lost. */
static double bound_of(double size, double x)
{
    return isfinite(size) ? 8 * KC_EPS * size + 1e-37 * (1 + fabs(x)) : INFINITY;
}

struct arrays {
    int    n;
    float *x, *up, *got, *want;
    double ref[N_MAX], bound[N_MAX];
};

/* Values around 0 and of all magnitudes, up to 1e18: squares are finite. */
static void arrays_new(struct kc *k, struct arrays *a)
{
    a->n = 1 + kc_below(k, N_MAX);
    a->x = kc_guard((size_t)a->n * 4);
    a->up = kc_guard((size_t)a->n * 4);
    a->got = kc_guard((size_t)a->n * 4);
    a->want = kc_guard((size_t)a->n * 4);
    kc_fill(k, a->x, a->n, 1e18);
    kc_fill(k, a->up, a->n, 100);
    for (int i = 0; i < a->n; i++)
        a->x[i] = i % 3 ? (float)(kc_uniform(k) * kc_pick(k, 1, 4, 30, 240) - kc_pick(k, 0, 1, 15, 120)) : a->x[i];
    if (kc_below(k, 4) == 0)
        a->x[kc_below(k, a->n)] = NAN;
}

static void arrays_free(struct kc *k, struct arrays *a)
{
    kc_unguard(k, a->x);
    kc_unguard(k, a->up);
    kc_unguard(k, a->got);
    kc_unguard(k, a->want);
}

static void check_act(struct kc *k)
{
    const struct row_fns *f = row_fns_for(k->level), *scalar = row_fns_for(CPU_SCALAR);
    struct arrays         a;
    for (int c = kc_cases(k, CASES); c; c--) {
        for (enum act_kind kind = 0; kind <= ACT_XIELU; kind++) {
            if (kind == ACT_SWIGLU_CLAMPED)
                continue;
            arrays_new(k, &a);
            kc_notef(k, "act %d n %d", kind, a.n);
            for (int i = 0; i < a.n; i++) {
                double size;
                a.ref[i] = isnan(a.x[i]) ? NAN : exact(kind, a.x[i], &size);
                a.bound[i] = isnan(a.x[i]) ? 0 : bound_of(size, a.x[i]);
            }
            scalar->act(kind, xielu, a.x, a.want, a.n);
            f->act(kind, xielu, a.x, a.got, a.n);
            kc_close(k, "against double", a.got, a.ref, a.bound, a.n);
            kc_same_floats(k, "against scalar", a.got, a.want, a.n);
            for (int i = 0; i < a.n; i++)
                a.want[i] *= a.up[i];
            if (kind != ACT_XIELU) {
                f->act_mul(&(struct act){.kind = kind}, a.x, a.up, a.x, a.n);
                kc_same_floats(k, "act_mul", a.x, a.want, a.n);
            }
            arrays_free(k, &a);
        }
    }
}

static void check_swiglu_clamped(struct kc *k)
{
    static const struct act act = {.kind = ACT_SWIGLU_CLAMPED, .limit = 7, .alpha = 1.702f};
    struct arrays           a;
    for (int c = kc_cases(k, CASES); c; c--) {
        arrays_new(k, &a);
        kc_notef(k, "n %d", a.n);
        for (int i = 0; i < a.n; i++) {
            double g = fmin(a.x[i], act.limit), u = fmin(fmax(a.up[i], -act.limit), act.limit);
            a.ref[i] = isnan(a.x[i]) ? NAN : g / (1 + exp(-act.alpha * g)) * (u + 1);
            a.bound[i] = bound_of(fabs(a.ref[i]) * (1 + fmin(fabs(g), 110)), g);
        }
        row_fns_for(CPU_SCALAR)->act_mul(&act, a.x, a.up, a.want, a.n);
        row_fns_for(k->level)->act_mul(&act, a.x, a.up, a.got, a.n);
        kc_close(k, "against double", a.got, a.ref, a.bound, a.n);
        kc_same_floats(k, "against scalar", a.got, a.want, a.n);
        arrays_free(k, &a);
    }
}

static void check_softcap(struct kc *k)
{
    struct arrays a;
    for (int c = kc_cases(k, CASES); c; c--) {
        float cap = (float)kc_pick(k, 1, 15, 30, 50);
        arrays_new(k, &a);
        kc_notef(k, "n %d cap %g", a.n, cap);
        for (int i = 0; i < a.n; i++) {
            a.ref[i] = cap * tanh((double)a.x[i] / cap);
            a.bound[i] = isnan(a.x[i]) ? 0 : 10 * KC_EPS * fabs(a.ref[i]) + 0x1p-140;
        }
        memcpy(a.want, a.x, (size_t)a.n * 4);
        memcpy(a.got, a.x, (size_t)a.n * 4);
        row_fns_for(CPU_SCALAR)->softcap(cap, a.want, a.n);
        row_fns_for(k->level)->softcap(cap, a.got, a.n);
        kc_close(k, "against double", a.got, a.ref, a.bound, a.n);
        kc_same_floats(k, "against scalar", a.got, a.want, a.n);
        row_fns_for(k->level)->scale(a.x, cap, a.got, a.n);
        for (int i = 0; i < a.n; i++)
            a.want[i] = a.x[i] * cap;
        kc_same_floats(k, "scale", a.got, a.want, a.n);
        arrays_free(k, &a);
    }
}

/* What infinities and the border to NaN give. */
static void check_extremes(struct kc *k)
{
    const struct row_fns *f = row_fns_for(k->level);
    static const struct {
        enum act_kind kind;
        float         below, above; /* of -infinity and infinity */
    } cases[] = {
        {ACT_GELU, 0, INFINITY}, {ACT_RELU, 0, INFINITY},     {ACT_RELU2, 0, INFINITY},
        {ACT_SIGMOID, 0, 1},     {ACT_SOFTPLUS, 0, INFINITY}, {ACT_TANH, -1, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        float x[2] = {-INFINITY, INFINITY};
        f->act(cases[i].kind, NULL, x, x, 2);
        kc_expect(k, x[0] == cases[i].below && x[1] == cases[i].above, "act %d of infinities: %g, %g", cases[i].kind,
                  x[0], x[1]);
    }
}

/* Operations: rows and threads change nothing; a gate of each head counts for the head's columns; XIELU takes its numbers
 * from weights. */
static void check_act_ops(struct kc *k)
{
    struct run_limits lim = {.n_row = 1, .n_head = 1, .n_kv_head = 1, .head_dim = 1, .n_key = 1};
    struct cpu       *one = kc_cpu_new(k->level, 1, PRECISION_DEFAULT, &lim);
    struct cpu       *many = kc_cpu_new(k->level, 3, PRECISION_DEFAULT, &lim);
    struct step       none = {0};
    struct run        r1 = {.backend = &one->base, .step = &none}, r3 = {.backend = &many->base, .step = &none};
    float             stored[] = {0.2f, -0.4f, 0.5f, -1e-6f}, numbers[4];
    struct weight     w[4];
    for (int i = 0; i < 4; i++)
        w[i] = (struct weight){.n_out = 1, .n_in = 1, .packed = &stored[i]};
    numbers[0] = (float)log1p(exp(stored[0]));
    numbers[1] = (float)(stored[2] + log1p(exp(stored[1])));
    numbers[2] = stored[2];
    numbers[3] = stored[3];
    for (int c = kc_cases(k, 30); c; c--) {
        int           heads = kc_pick(k, 1, 3, 64, 65, 130), width = 1 + kc_below(k, 40), rows = 1 + kc_below(k, 40);
        int           col = heads * width;
        float        *gate = kc_guard((size_t)rows * heads * 4), *up = kc_guard((size_t)rows * col * 4);
        float        *got = kc_guard((size_t)rows * col * 4), *want = kc_guard((size_t)rows * col * 4);
        struct tensor g = {gate, rows, heads, heads}, u = {up, rows, col, col}, y = {got, rows, col, col};
        kc_notef(k, "rows %d heads %d width %d", rows, heads, width);
        kc_fill(k, gate, (int64_t)rows * heads, 100);
        kc_fill(k, up, (int64_t)rows * col, 100);
        op_act_mul(&r3, (struct act){.kind = ACT_SIGMOID}, g, u, y);
        one->rows->act(ACT_SIGMOID, NULL, gate, gate, (int64_t)rows * heads);
        for (int64_t i = 0; i < (int64_t)rows * col; i++)
            want[i] = gate[i / width] * up[i];
        kc_same_floats(k, "gates of heads", got, want, (int64_t)rows * col);
        op_act(&r3, (struct act){.kind = ACT_XIELU, .xielu = w}, u, y);
        one->rows->act(ACT_XIELU, numbers, up, want, (int64_t)rows * col);
        kc_same_floats(k, "xielu", got, want, (int64_t)rows * col);
        op_scale(&r3, 0.3f, u);
        op_softcap(&r3, 15, u);
        op_act(&r1, (struct act){.kind = ACT_GELU}, u, y);
        one->rows->act(ACT_GELU, NULL, up, want, (int64_t)rows * col);
        kc_same_floats(k, "act", got, want, (int64_t)rows * col);
        kc_unguard(k, gate);
        kc_unguard(k, up);
        kc_unguard(k, got);
        kc_unguard(k, want);
    }
    kc_cpu_free(one);
    kc_cpu_free(many);
}

struct bench {
    const struct row_fns *f;
    enum act_kind         kind;
    float                 x[1536], y[1536];
};

static void bench_act(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < 100; i++)
        b->f->act(b->kind, xielu, b->x, b->y, 1536);
}

static void bench_acts(struct kc *k)
{
    static const char *const name[] = {"silu",    "gelu",     "gelu_tanh", "gelu_quick", "relu", "relu2",
                                       "sigmoid", "softplus", "tanh",      NULL,         "xielu"};
    struct bench             b = {.f = row_fns_for(k->level)};
    kc_fill(k, b.x, 1536, 1);
    for (b.kind = 0; b.kind <= ACT_XIELU; b.kind++)
        if (name[b.kind])
            kc_rate(k, name[b.kind], kc_time(bench_act, &b) / 100, 2 * 4 * 1536, 0);
}

const struct check acts_checks[] = {
    {"act", check_act, bench_acts},   {"swiglu_clamped", check_swiglu_clamped, NULL},
    {"softcap", check_softcap, NULL}, {"act_extremes", check_extremes, NULL},
    {"act_ops", check_act_ops, NULL}, {NULL, NULL, NULL},
};
