/* Checks of norms: RMS and LayerNorm against double, weights of several pieces and none, adapters' weights and biases. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "base/num.h"
#include "cpu/rows.h"

/* The sum of squares has no cancellation: its relative error is at most that of its longest chain. */
static void check_rms_norm(struct kc *k)
{
    const struct row_fns *f = row_fns_for(k->level);
    struct arrays         x;
    for (int c = kc_cases(k, CASES); c; c--) {
        double sum = 0, eps = 1e-5f;
        arrays_new(k, &x, 1e15);
        for (int i = 0; i < x.n; i++)
            sum += (double)x.a[i] * x.a[i];
        for (int i = 0; i < x.n; i++) {
            x.ref[i] = x.a[i] / sqrt(sum / x.n + eps) * x.b[i];
            x.bound[i] = (x.n / 32.0 + 10) * KC_EPS * fabs(x.ref[i]) + 0x1p-140 * (1 + fabs(x.b[i]));
        }
        row_fns_for(CPU_SCALAR)->rms_norm(x.a, x.b, 1e-5f, x.n, x.want);
        f->rms_norm(x.a, x.b, 1e-5f, x.n, x.got);
        kc_close(k, "against double", x.got, x.ref, x.bound, x.n);
        f->rms_norm(x.a, x.b, 1e-5f, x.n, x.a); /* in place */
        kc_same_floats(k, "in place", x.a, x.want, x.n);
        arrays_check(k, &x);
    }
}

/* What a common offset costs: the mean is off by the error of its chain, and so is every deviation. */
static void check_layer_norm(struct kc *k)
{
    struct arrays x;
    for (int c = kc_cases(k, CASES); c; c--) {
        double       mean = 0, size = 0, var = 0, eps = 1e-5f, chain;
        float        bias[N_MAX];
        const float *w, *b;
        arrays_new(k, &x, 1e15);
        w = kc_below(k, 4) ? x.b : NULL;
        b = kc_below(k, 3) ? bias : NULL;
        chain = x.n / 16.0 + 8;
        kc_fill(k, bias, x.n, 100);
        for (int i = 0; i < x.n; i++) {
            mean += (double)x.a[i] / x.n;
            size += fabs((double)x.a[i]) / x.n;
        }
        for (int i = 0; i < x.n; i++)
            var += (x.a[i] - mean) * (x.a[i] - mean) / x.n;
        for (int i = 0; i < x.n; i++) {
            double r = 1 / sqrt(var + eps), d = x.a[i] - mean, off = chain * KC_EPS * size * r, f = w ? w[i] : 1;
            x.ref[i] = d * r * f + (b ? b[i] : 0);
            x.bound[i] = fabs(f) * (off + 2 * KC_EPS * fabs(d) * r) +
                         fabs(d * r * f) * ((chain + 4) * KC_EPS + 2 * off + off * off) + KC_EPS * fabs(x.ref[i]) +
                         0x1p-140 * (1 + fabs(f));
        }
        row_fns_for(CPU_SCALAR)->layer_norm(x.a, w, b, 1e-5f, x.n, x.want);
        row_fns_for(k->level)->layer_norm(x.a, w, b, 1e-5f, x.n, x.got);
        kc_close(k, "against double", x.got, x.ref, x.bound, x.n);
        row_fns_for(k->level)->layer_norm(x.a, w, b, 1e-5f, x.n, x.a); /* in place */
        kc_same_floats(k, "in place", x.a, x.want, x.n);
        arrays_check(k, &x);
    }
}

/* A weight of several pieces' width, of one, and none: each piece by itself with its own part. */
static void check_norm_pieces(struct kc *k)
{
    struct run_limits lim = {.n_row = 1, .n_head = 1, .n_kv_head = 1, .head_dim = 1, .n_key = 1};
    struct cpu       *cpu = kc_cpu_new(k->level, 3, PRECISION_DEFAULT, &lim);
    struct step       none = {0};
    struct run        r = {.backend = &cpu->base, .step = &none};
    for (int c = kc_cases(k, 40); c; c--) {
        int         n = 1 + kc_below(k, 70), wide = kc_below(k, 4), pieces = (wide ? wide : 1) * (1 + kc_below(k, 3));
        int         rows = 1 + kc_below(k, 20), col = n * pieces, layer = kc_below(k, 2);
        float      *x = kc_floats((int64_t)rows * col), *y = kc_floats((int64_t)rows * col), *want = kc_floats(col);
        float      *w = kc_floats((int64_t)n * 4), *b = kc_floats((int64_t)n * 4);
        struct norm norm = {.kind = layer ? NORM_LAYER : NORM_RMS, .n = n, .eps = 1e-6f, .w = {.index = -1}};
        kc_notef(k, "%s rows %d pieces %d n %d weight of %d", layer ? "layer" : "rms", rows, pieces, n, wide);
        kc_fill(k, x, (int64_t)rows * col, 100);
        kc_fill(k, w, n * 4, 100);
        kc_fill(k, b, n * 4, 100);
        if (wide)
            norm.w = (struct weight){.n_out = 1, .n_in = (int64_t)n * wide, .packed = w, .bias = layer ? b : NULL};
        op_norm(&r, &norm, (struct tensor){x, rows, col, col}, (struct tensor){y, rows, col, col});
        for (int i = 0; i < rows; i++) {
            for (int p = 0; p < pieces; p++) {
                const float *from = x + (int64_t)i * col + p * n, *v = wide ? w + p % wide * n : NULL;
                if (layer)
                    cpu->rows->layer_norm(from, v, wide ? b + p % wide * n : NULL, 1e-6f, n, want + p * n);
                else
                    cpu->rows->rms_norm(from, v, 1e-6f, n, want + p * n);
            }
            kc_same_floats(k, "norm", y + (int64_t)i * col, want, col);
        }
        kc_unguard(k, x);
        kc_unguard(k, y);
        kc_unguard(k, want);
        kc_unguard(k, w);
        kc_unguard(k, b);
    }
    kc_cpu_free(cpu);
}

/* An adapter's weight and bias in place of the norm's, in its rows alone. */
static void check_norm_adapters(struct kc *k)
{
    enum { N = 37, ROWS = 9 };
    struct run_limits        lim = {.n_row = 1, .n_head = 1, .n_kv_head = 1, .head_dim = 1, .n_key = 1};
    struct cpu              *cpu = kc_cpu_new(k->level, 2, PRECISION_DEFAULT, &lim);
    float                    x[ROWS * N], y[ROWS * N], want[N], w[2][N], b[2][N];
    int32_t                  seq[ROWS];
    struct weight            other = {.n_out = 1, .n_in = N, .packed = w[1]};
    struct lora_delta        delta = {.replace = &other, .bias = b[1]};
    const struct lora_delta *table[1] = {&delta};
    struct lora              lora = {.n_weight = 1, .delta = table};
    struct lora_set         *set = calloc(1, sizeof *set + sizeof *set->use);
    kc_expect(k, set, "out of memory");
    if (!set)
        return;
    set->n = 1;
    set->use[0] = (struct lora_use){&lora, 0.5f};
    const struct lora_set *sets[2] = {NULL, set};
    struct step            s = {.n_row = ROWS, .seq = seq, .n_seq = 2, .lora = sets};
    struct run             r = {.backend = &cpu->base, .step = &s};
    struct norm            norm = {NORM_LAYER, N, 1e-5f, {.n_out = 1, .n_in = N, .packed = w[0], .bias = b[0]}};
    kc_fill(k, x, ROWS * N, 10);
    kc_fill(k, w[0], 2 * N, 10);
    kc_fill(k, b[0], 2 * N, 10);
    for (int i = 0; i < ROWS; i++)
        seq[i] = i >= ROWS / 2;
    op_norm(&r, &norm, (struct tensor){x, ROWS, N, N}, (struct tensor){y, ROWS, N, N});
    for (int i = 0; i < ROWS; i++) {
        cpu->rows->layer_norm(x + i * N, w[seq[i]], b[seq[i]], 1e-5f, N, want);
        kc_same_floats(k, "row", y + i * N, want, N);
    }
    free(set);
    kc_cpu_free(cpu);
}

struct bench {
    const struct row_fns *f;
    float                 x[576], w[576], y[576];
};

static void bench_rms(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < 100; i++)
        b->f->rms_norm(b->x, b->w, 1e-5f, 576, b->y);
}

static void bench_layer(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < 100; i++)
        b->f->layer_norm(b->x, b->w, b->w, 1e-5f, 576, b->y);
}

static void bench_norms(struct kc *k)
{
    struct bench b = {.f = row_fns_for(k->level)};
    kc_fill(k, b.x, 576, 1);
    kc_fill(k, b.w, 576, 1);
    kc_rate(k, "rms_norm 576", kc_time(bench_rms, &b) / 100, 0, 576 * 4);
    kc_rate(k, "layer_norm 576", kc_time(bench_layer, &b) / 100, 0, 576 * 8);
}

const struct check norms_checks[] = {
    {"rms_norm", check_rms_norm, bench_norms},
    {"layer_norm", check_layer_norm, NULL},
    {"norm_pieces", check_norm_pieces, NULL},
    {"norm_adapters", check_norm_adapters, NULL},
    {NULL, NULL, NULL},
};
