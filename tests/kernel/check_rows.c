/* Checks of the row kernels and operations: norms, sums, activations, rope, float16, the fused forms. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "base/half.h"
#include "base/num.h"
#include "cpu/math.h"
#include "cpu/rows.h"

static const struct act silu = {.kind = ACT_SILU};

static void check_exp_value(struct kc *k, float x)
{
    float  y = math_exp(x);
    double want = exp((double)x);
    if (isnan(x) ? isnan(y) : (float)want == y)
        return;
    double ulp = want < 0x1p-126 ? 0x1p-149 : ldexp(1, ilogb(want) - 23);
    kc_expect(k, fabs(y - want) < ulp, "exp(%a) is %a, needed %a", x, y, want);
}

/* exp on floats of all magnitudes: within an ulp of the exact value, and the level's, seen through silu, of scalar's
 * bits. A rounding of the polynomial's first steps shows in one of several hundred values. */
static void check_exp(struct kc *k)
{
    enum { N = 400 };
    float x[N], one[N], got[N], want[N];
    for (int c = kc_cases(k, 1000); c; c--) {
        for (int i = 0; i < N; i++) {
            x[i] = i % 3 ? (float)(kc_uniform(k) * 200 - 108) : f32_from_bits((uint32_t)kc_random(k));
            one[i] = 1;
            check_exp_value(k, x[i]);
        }
        row_fns_for(CPU_SCALAR)->act_mul(&silu, x, one, want, N);
        row_fns_for(k->level)->act_mul(&silu, x, one, got, N);
        kc_same_floats(k, "silu against scalar", got, want, N);
    }
    kc_expect(k, math_exp(-INFINITY) == 0 && math_exp(INFINITY) == INFINITY && math_exp(0) == 1, "exp of 0 or inf");
}

static void check_add(struct kc *k)
{
    struct arrays x;
    for (int c = kc_cases(k, CASES); c; c--) {
        arrays_new(k, &x, 1e30);
        memcpy(x.got, x.b, (size_t)x.n * sizeof(float));
        memcpy(x.want, x.b, (size_t)x.n * sizeof(float));
        for (int i = 0; i < x.n; i++) {
            x.ref[i] = (double)x.a[i] + x.b[i];
            x.bound[i] = KC_EPS * fabs(x.ref[i]) + 0x1p-150;
        }
        row_fns_for(CPU_SCALAR)->add(x.a, 1, x.want, x.n);
        row_fns_for(k->level)->add(x.a, 1, x.got, x.n);
        arrays_check(k, &x);
    }
}

/* exp is within an ulp, so 1 + exp(-x) within 3 half ulps, and two more operations follow. Below -88.7 the result is
 * -0. */
static void check_silu_mul(struct kc *k)
{
    struct arrays x;
    for (int c = kc_cases(k, CASES); c; c--) {
        arrays_new(k, &x, 1e4);
        for (int i = 0; i < x.n; i++) {
            double ref = x.a[i] / (1 + exp(-(double)x.a[i]));
            x.ref[i] = ref * x.b[i];
            x.bound[i] = 6 * KC_EPS * fabs(x.ref[i]) + 1e-36 * fabs(x.b[i]) + 0x1p-148;
        }
        row_fns_for(CPU_SCALAR)->act_mul(&silu, x.a, x.b, x.want, x.n);
        row_fns_for(k->level)->act_mul(&silu, x.a, x.b, x.got, x.n);
        arrays_check(k, &x);
    }
}

/* Two rounded products and their rounded sum. */
static void check_rope(struct kc *k)
{
    static double ref[N_MAX], bound[N_MAX];
    for (int c = kc_cases(k, CASES); c; c--) {
        int    half = kc_pick(k, 1, 3, 8, 16, 17, 32, 40, 64, 100), inter = kc_below(k, 2), dims = 2 * half;
        float *x = kc_floats(dims), *want = kc_floats(dims), *cs = kc_floats(dims);
        kc_notef(k, "dims %d interleaved %d", dims, inter);
        kc_fill(k, x, dims, 1e20);
        memcpy(want, x, (size_t)dims * sizeof(float));
        for (int i = 0; i < half; i++) {
            double t = 7 * kc_uniform(k);
            int    p = inter ? 2 * i : i, q = inter ? p + 1 : p + half;
            cs[2 * i] = (float)cos(t);
            cs[2 * i + 1] = (float)sin(t);
            double a = x[p], b = x[q], co = cs[2 * i], si = cs[2 * i + 1];
            ref[p] = a * co - b * si;
            ref[q] = a * si + b * co;
            bound[p] = 2 * KC_EPS * (fabs(a * co) + fabs(b * si)) + 0x1p-147;
            bound[q] = 2 * KC_EPS * (fabs(a * si) + fabs(b * co)) + 0x1p-147;
        }
        row_fns_for(CPU_SCALAR)->rope(want, cs, dims, inter);
        row_fns_for(k->level)->rope(x, cs, dims, inter);
        kc_close(k, "against double", x, ref, bound, dims);
        kc_same_floats(k, "against scalar", x, want, dims);
        kc_unguard(k, x);
        kc_unguard(k, want);
        kc_unguard(k, cs);
    }
}

/* float16: all values there, random floats back, exactly as base/half.h (which has its own test). */
static void check_f16(struct kc *k)
{
    const struct row_fns *f = row_fns_for(k->level);
    for (int c = kc_cases(k, CASES); c; c--) {
        int       n = some_length(k), start = kc_below(k, 65536 - n);
        uint16_t *h = kc_guard((size_t)n * 2), *back = kc_guard((size_t)n * 2);
        float    *x = kc_floats(n);
        kc_notef(k, "n %d start %d", n, start);
        for (int i = 0; i < n; i++)
            h[i] = (uint16_t)(start + i);
        f->from_f16(h, x, n);
        for (int i = 0; i < n; i++)
            kc_expect(k, x[i] == f16_to_f32(h[i]) || isnan(f16_to_f32(h[i])), "0x%04x gives %a", h[i], x[i]);
        for (int i = 0; i < n; i++) /* between two neighbours: below, at and above half way */
            x[i] = f32_from_bits((f32_bits(x[i]) & 0xffffe000) + 0xfff + (uint32_t)kc_below(k, 3));
        f->to_f16(x, back, n);
        for (int i = 0; i < n; i++)
            kc_expect(k, back[i] == f32_to_f16(x[i]) || isnan(x[i]), "%a gives 0x%04x", x[i], back[i]);
        kc_unguard(k, h);
        kc_unguard(k, back);
        kc_unguard(k, x);
    }
}

/* The greatest magnitude, with none, one or two odd values; int8 there and back. */
static void check_i8(struct kc *k)
{
    const struct row_fns *f = row_fns_for(k->level);
    for (int c = kc_cases(k, CASES); c; c--) {
        int     n = some_length(k), odd = kc_below(k, 3);
        int8_t *q = kc_guard((size_t)n);
        float  *x = kc_floats(n), *back = kc_floats(n), most = 0;
        kc_notef(k, "n %d odd %d", n, odd);
        kc_fill(k, x, n, 100);
        for (int i = 0; i < n; i++)
            most = fmaxf(most, fabsf(x[i]));
        kc_expect(k, f->amax(x, n) == most, "amax %a, needed %a", f->amax(x, n), most);
        f->to_i8(x, most > 1e-30f ? 127 / most : 0, q, n);
        f->from_i8(q, back, n);
        for (int i = 0; i < n && most > 1e-30f; i++)
            kc_expect(k, q[i] == (int8_t)rintf(x[i] * (127 / most)) && back[i] == q[i], "%a gives %d", x[i], q[i]);
        for (int i = 0; i < odd; i++)
            x[kc_below(k, n)] = kc_below(k, 2) ? NAN : kc_below(k, 2) ? INFINITY : -INFINITY;
        kc_expect(k, isnan(f->amax(x, n)) || !odd, "amax %a", f->amax(x, n));
        kc_unguard(k, q);
        kc_unguard(k, x);
        kc_unguard(k, back);
    }
}

/* Operations: rows and threads do not change anything, pieces of a row are normalised by themselves, fused forms equal
 * the composed ones. */
static void check_row_ops(struct kc *k)
{
    struct run_limits lim = {.n_row = 1, .n_head = 1, .n_kv_head = 1, .head_dim = 1, .n_key = 1};
    struct cpu       *one = kc_cpu_new(k->level, 1, PRECISION_DEFAULT, &lim);
    struct cpu       *many = kc_cpu_new(k->level, 3, PRECISION_DEFAULT, &lim);
    struct step       none = {0};
    struct run        r1 = {.backend = &one->base, .step = &none}, r3 = {.backend = &many->base, .step = &none};
    for (int c = kc_cases(k, 30); c; c--) {
        int           n = some_length(k), pieces = 1 + kc_below(k, 3), rows = 1 + kc_below(k, 40), col = n * pieces;
        float        *buf[6], *w = kc_floats(n);
        struct tensor t[6];
        struct norm   norm = {NORM_RMS, n, 1e-6f, {.n_out = 1, .n_in = n, .packed = w}};
        kc_notef(k, "rows %d pieces %d n %d", rows, pieces, n);
        kc_fill(k, w, n, 100);
        for (int i = 0; i < 6; i++) {
            buf[i] = kc_floats((int64_t)rows * col);
            t[i] = (struct tensor){buf[i], rows, col, col};
        }
        kc_fill(k, buf[0], (int64_t)rows * col, 1e6);
        kc_fill(k, buf[1], (int64_t)rows * col, 1e6);
        memcpy(buf[2], buf[1], (size_t)rows * col * sizeof(float));
        op_add_norm(&r3, &norm, 0.7f, t[0], t[1], t[3]); /* rows 1 and 3: fused, threads */
        for (int i = 0; i < rows; i++) {                 /* rows 2 and 4: composed, one at a time */
            struct tensor x = {tensor_row(t[0], i), 1, col, col}, y = {tensor_row(t[2], i), 1, col, col};
            op_add(&r1, 0.7f, x, y);
            for (int p = 0; p < pieces; p++)
                op_norm(&r1, &norm, tensor_cols(y, (int64_t)p * n, n),
                        (struct tensor){tensor_row(t[4], i) + (int64_t)p * n, 1, n, n});
        }
        kc_same_floats(k, "add", buf[1], buf[2], (int64_t)rows * col);
        kc_same_floats(k, "norm", buf[3], buf[4], (int64_t)rows * col);
        int32_t index[40];
        for (int i = 0; i < rows; i++)
            index[i] = kc_below(k, rows);
        op_gather_rows(&r3, index, t[0], t[5]);
        for (int i = 0; i < rows; i++)
            kc_same_floats(k, "gather_rows", tensor_row(t[5], i), tensor_row(t[0], index[i]), col);
        op_act_mul(&r3, silu, t[0], t[3], t[5]);
        for (int i = 0; i < rows; i++)
            op_act_mul(&r1, silu, (struct tensor){tensor_row(t[0], i), 1, col, col},
                       (struct tensor){tensor_row(t[3], i), 1, col, col},
                       (struct tensor){tensor_row(t[4], i), 1, col, col});
        kc_same_floats(k, "act_mul", buf[5], buf[4], (int64_t)rows * col);
        for (int i = 0; i < 6; i++)
            kc_unguard(k, buf[i]);
        kc_unguard(k, w);
    }
    kc_cpu_free(one);
    kc_cpu_free(many);
}

/* Frequency j of a rope for a sequence of `length` tokens. */
static float frequency(const struct rope *rope, int j, int length)
{
    if (!rope->limit || length <= rope->limit)
        return rope->inv_freq[j];
    if (rope->long_freq)
        return rope->long_freq[j];
    double longer = rope->factor * length / (double)rope->limit - (rope->factor - 1);
    double base = rope->theta * pow(longer, rope->dims / (rope->dims - 2.0));
    return (float)pow(base, -2.0 * j / rope->dims);
}

/* Angles: the product position * inv_freq is float32, as in the models; cosine and sine of it are exact before
 * rounding. Rows of sequences beyond the rope's limit have other frequencies. */
static void check_rope_angles(struct kc *k)
{
    static double     ref[128], bound[128];
    struct run_limits lim = {.n_row = 1, .n_head = 1, .n_kv_head = 1, .head_dim = 1, .n_key = 1};
    struct cpu       *cpu = kc_cpu_new(k->level, 2, PRECISION_DEFAULT, &lim);
    for (int c = kc_cases(k, CASES); c; c--) {
        int         half = 1 + kc_below(k, 64), rows = 1 + kc_below(k, 8), kind = kc_below(k, half > 1 ? 4 : 3);
        int32_t     position[8], seq[8], length[3];
        float      *inv_freq = kc_floats(half), *long_freq = kc_floats(half), *cs = kc_floats((int64_t)rows * 2 * half);
        struct rope rope = {.dims = 2 * half,
                            .mscale = (float)(1 + kc_uniform(k)),
                            .inv_freq = inv_freq,
                            .limit = kind >= 2 ? 100 : 0,
                            .long_freq = kind == 2 ? long_freq : NULL,
                            .long_mscale = (float)(1 + kc_uniform(k)),
                            .theta = 10000,
                            .factor = 4};
        struct step step = {.n_row = rows, .position = position, .seq = seq, .length = kind ? length : NULL};
        struct run  r = {.backend = &cpu->base, .step = &step};
        kc_notef(k, "half %d rows %d kind %d", half, rows, kind);
        for (int i = 0; i < half; i++) {
            inv_freq[i] = (float)pow(10000 + 1e6 * kc_uniform(k), -(double)i / half);
            long_freq[i] = inv_freq[i] / 3;
        }
        for (int i = 0; i < 3; i++)
            length[i] = 99 + i;
        for (int i = 0; i < rows; i++) {
            position[i] = kc_below(k, kc_pick(k, 1, 100, 1 << 20));
            seq[i] = kc_below(k, 3);
        }
        op_rope_angles(&r, &rope, (struct tensor){cs, rows, 2 * half, 2 * half});
        for (int i = 0; i < rows; i++) {
            float mscale = kind == 2 && length[seq[i]] > 100 ? rope.long_mscale : rope.mscale;
            for (int j = 0; j < half; j++) {
                float angle = (float)position[i] * frequency(&rope, j, kind ? length[seq[i]] : 0);
                ref[2 * j] = cos((double)angle) * mscale;
                ref[2 * j + 1] = sin((double)angle) * mscale;
                bound[2 * j] = bound[2 * j + 1] = 4 * KC_EPS * mscale;
            }
            kc_close(k, "angles", cs + (int64_t)i * 2 * half, ref, bound, 2 * half);
        }
        kc_unguard(k, inv_freq);
        kc_unguard(k, long_freq);
        kc_unguard(k, cs);
    }
    kc_cpu_free(cpu);
}

static void check_clip(struct kc *k)
{
    const struct row_fns *f = row_fns_for(k->level);
    for (int c = kc_cases(k, CASES); c; c--) {
        int    n = some_length(k);
        float *x = kc_floats(n), *y = kc_floats(n), limit = (float)kc_uniform(k);
        kc_fill(k, x, n, 1e6);
        x[kc_below(k, n)] = kc_below(k, 2) ? NAN : -0.0f;
        memcpy(y, x, (size_t)n * sizeof *x);
        f->clip(limit, y, n);
        for (int i = 0; i < n; i++) {
            float want = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
            kc_same_floats(k, "clip", y + i, &want, 1);
        }
        kc_unguard(k, x);
        kc_unguard(k, y);
    }
}

/* Columns that stand together head by head, from a matrix with a wider stride. */
static void check_gather_cols(struct kc *k)
{
    struct run_limits lim = {.n_row = 1, .n_head = 1, .n_kv_head = 1, .head_dim = 1, .n_key = 1};
    struct cpu       *cpu = kc_cpu_new(k->level, 3, PRECISION_DEFAULT, &lim);
    struct run        r = {.backend = &cpu->base};
    for (int c = kc_cases(k, 30); c; c--) {
        int64_t first = kc_below(k, 20), n = 1 + kc_below(k, 70), step = n + kc_below(k, 70),
                pieces = 1 + kc_below(k, 9);
        int64_t rows = 1 + kc_below(k, 300), cols = first + (pieces - 1) * step + n, stride = cols + kc_below(k, 5);
        float  *x = kc_floats(rows * stride), *y = kc_floats(rows * pieces * n);
        kc_fill(k, x, rows * stride, 1);
        op_gather_cols(&r, first, step, n, (struct tensor){x, rows, cols, stride},
                       (struct tensor){y, rows, pieces * n, pieces * n});
        for (int64_t i = 0; i < rows * pieces; i++)
            kc_same_floats(k, "gather_cols", y + i * n, x + i / pieces * stride + first + i % pieces * step, n);
        kc_unguard(k, x);
        kc_unguard(k, y);
    }
    kc_cpu_free(cpu);
}

struct bench {
    const struct row_fns *f;
    float                *a, *b, *y;
    int64_t               n;
};

static void bench_silu(void *arg)
{
    struct bench *b = arg;
    for (int i = 0; i < 100; i++)
        b->f->act_mul(&silu, b->a, b->b, b->y, b->n);
}

static void bench_rows(struct kc *k)
{
    struct bench b = {.f = row_fns_for(k->level), .n = 1536};
    b.a = kc_floats(4096);
    b.b = kc_floats(4096);
    b.y = kc_floats(4096);
    kc_fill(k, b.a, 4096, 1);
    kc_fill(k, b.b, 4096, 1);
    kc_rate(k, "silu_mul 1536", kc_time(bench_silu, &b) / 100, 3 * 4 * 1536, 0);
    kc_unguard(k, b.a);
    kc_unguard(k, b.b);
    kc_unguard(k, b.y);
}

const struct check rows_checks[] = {
    {"exp", check_exp, NULL},
    {"add", check_add, NULL},
    {"silu_mul", check_silu_mul, bench_rows},
    {"rope", check_rope, NULL},
    {"rope_angles", check_rope_angles, NULL},
    {"f16", check_f16, NULL},
    {"i8", check_i8, NULL},
    {"row_ops", check_row_ops, NULL},
    {"gather_cols", check_gather_cols, NULL},
    {"clip", check_clip, NULL},
    {NULL, NULL, NULL},
};
