/* Checks of matrix products: every form of weight at every level, for any number of rows and threads.
 *
 * Three kinds of truth:
 *   arithmetic  against the sums of docs/order-law.md in double: what float32 rounding may add is bounded by
 *               c * eps * sum |a * b|
 *   meaning     against the plain product in double: an input may move by half its block's step, so an output by
 *               sum |w| * step / 2
 *   order       the same bits as the scalar level with one thread and all rows together; for products of bfloat16
 *               pairs, which only one level has, as a plain model of its instruction
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "linear_case.h"

enum { N_IN_MAX = 1152 };

static const int        widths[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
static const enum dtype types[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32};

/* How a weight is stored; a dense one has its type in scale_dtype. */
static const struct quant floats[] = {
    {QUANT_MXFP4, 4, 32, DTYPE_U8}, {QUANT_MXFP8, 8, 32, DTYPE_U8}, {QUANT_NVFP4, 4, 16, DTYPE_U8}};

static struct quant affine(int bits, int group, enum dtype d)
{
    return (struct quant){QUANT_AFFINE, bits, group, d};
}

static struct quant dense(enum dtype d)
{
    return (struct quant){QUANT_NONE, 0, 0, d};
}

static struct quant affine_or_dense(int bits, enum dtype d) /* bits 0: dense */
{
    return bits ? affine(bits, 32, d) : dense(d);
}

/* A row of x as the order law quantizes it, in double; step: how far each value may be from x. */
static void quantized_row(const float *x, int64_t n_in, enum precision precision, double *out, double *step)
{
    for (int64_t b = 0; b < n_in; b += LINEAR_BLOCK) {
        float amax = 0;
        int   n = (int)MIN(n_in - b, LINEAR_BLOCK);
        for (int i = 0; i < n; i++)
            amax = fmaxf(amax, fabsf(x[b + i]));
        float s = amax < 1e-33f ? 0 : amax / 127, inv = amax < 1e-33f ? 0 : 127 / amax;
        for (int i = 0; i < n; i++) {
            float q = rintf(x[b + i] * inv), rest = rintf(fmaf(-q, s, x[b + i]) * (inv * 254));
            out[b + i] = (double)q * s + (precision == PRECISION_HIGH ? (double)rest * (s * (1.0f / 254)) : 0);
            step[b + i] = s == 0 ? fabsf(x[b + i]) : precision == PRECISION_HIGH ? s / 500.0 : s / 1.99;
        }
    }
}

/* --- products of bfloat16 pairs: "bfloat16 weights" in docs/order-law.md ---------------------------------------------
 */

static bool by_pairs(const struct kc *k, const struct quant *q, enum precision precision)
{
    return k->level == CPU_AVX512BF16 && precision == PRECISION_DEFAULT && q->mode == QUANT_NONE &&
           q->scale_dtype == DTYPE_BF16;
}

static float flushed(float v)
{
    return fabsf(v) < FLT_MIN ? copysignf(0, v) : v;
}

static float rounded(float v)
{
    return flushed(bf16_to_f32(f32_to_bf16(v)));
}

static float pairs_sum(const float *w, const float *x, int64_t n)
{
    float acc = 0;
    for (int64_t i = 0; i < n; i += 2) {
        acc = flushed(i + 1 < n ? fmaf(rounded(x[i + 1]), flushed(w[i + 1]), acc) : fmaf(0, 0, acc));
        acc = flushed(fmaf(rounded(x[i]), flushed(w[i]), acc));
    }
    return acc;
}

static void pairs_model(const struct product *p, float *y)
{
    int64_t n = p->w.n_in;
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t o = 0; o < p->w.n_out; o++)
            *y++ = pairs_sum(p->dense + o * n, p->x + r * n, n) + (p->w.bias ? p->bias[o] : -0.0f);
}

/* Compares row r of the product, y[n_out], with both truths. */
static void check_row(struct kc *k, const struct product *p, enum precision precision, int64_t r, const float *y)
{
    int64_t      n = p->w.n_in;
    const float *x = p->x + r * n;
    bool quantized = p->w.quant.mode != QUANT_NONE && p->w.quant.mode != QUANT_MXFP8 && precision != PRECISION_EXACT;
    static double q[N_IN_MAX], step[N_IN_MAX];
    bool          finite = true;
    for (int64_t i = 0; i < n; i++) {
        q[i] = x[i];
        step[i] = 0;
        finite &= isfinite(x[i]);
    }
    if (finite && quantized)
        quantized_row(x, n, precision, q, step);
    for (int64_t i = 0; i < n && by_pairs(k, &p->w.quant, precision); i++) {
        q[i] = rounded(x[i]);
        step[i] = fabsf(x[i]) * 0x1p-8 + FLT_MIN;
    }
    for (int64_t o = 0; o < p->w.n_out; o++) {
        const float *w = p->dense + o * n;
        double       sum = p->w.bias ? p->bias[o] : 0, truth = sum, mag = fabs(sum), slack = 0, tiny = 0;
        if (!finite) {
            kc_expect(k, !isfinite(y[o]), "row %d: %g of inputs that are not finite", (int)r, y[o]);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            sum += q[i] * w[i];
            truth += (double)x[i] * w[i];
            /* |scale * code| and |bias| apart are larger than |w|; these data keep both below 4 (|w| + 1) */
            mag += 4 * fabs(q[i]) * (fabs(w[i]) + (quantized ? 1 : 0));
            slack += step[i] * fabs(w[i]);
            tiny += FLT_MIN * (3 + fabs(q[i])); /* what subnormal products, sums and weights may lose */
        }
        double bound = KC_EPS * (8 + sqrt((double)n)) * mag + tiny, whole = bound + slack;
        kc_close(k, "against its quantized inputs", y + o, &sum, &bound, 1);
        kc_close(k, "against its inputs", y + o, &truth, &whole, 1);
    }
}

/* The level against both truths and against scalar, for several numbers of rows and threads. */
static void check_product(struct kc *k, struct quant q, enum precision precision, int64_t n_out, int64_t n_in)
{
    static const int rows[] = {1, 2, 3, 4, 5, 7, 17, ROWS};
    struct product   p;
    int              threads = 1 + kc_below(k, 3);
    product_init(k, &p, q, n_out, n_in);
    float          *want = need((size_t)(ROWS * n_out) * 4), *got = need((size_t)(ROWS * n_out) * 4);
    struct backend *one = backend_new(CPU_SCALAR, 1, precision, ROWS, n_in);
    prepare(one, &p.w);
    compute(k, one, &p, ROWS, want);
    one->release(one, &p.w);
    one->free(one);
    if (by_pairs(k, &q, precision))
        pairs_model(&p, want);
    struct backend *b = backend_new(k->level, threads, precision, ROWS, n_in);
    prepare(b, &p.w);
    for (int i = 0; i < 4; i++) {
        int n = i ? rows[kc_below(k, (int)ARRAY_LEN(rows))] : 1;
        kc_notef(k, "%s, %d bits, group %d, %s, [%d, %d], precision %d, %d rows, %d threads", quant_mode_name(q.mode),
                 q.bits, q.group, dtype_name(q.scale_dtype), (int)n_out, (int)n_in, (int)precision, n, threads);
        compute(k, b, &p, n, got);
        kc_same_floats(k, "against scalar", got, want, ROWS * n_out);
    }
    for (int64_t r = 0; r < ROWS; r++)
        check_row(k, &p, precision, r, got + r * n_out);
    b->release(b, &p.w);
    b->free(b);
    free(want);
    free(got);
    product_deinit(&p);
}

enum { MANY = 300 }; /* rows of a step: chunks that are as large as they get, and more than one */

/* A step of many rows, those of the product again and again, gives each the bits that it has in a small one. */
static void check_many(struct kc *k, struct quant q, enum precision precision, int64_t n_in)
{
    enum { N_OUT = 70 };
    struct product p;
    int            threads = 1 + kc_below(k, 3);
    product_init(k, &p, q, N_OUT, n_in);
    struct backend *b = backend_new(k->level, threads, precision, MANY, n_in);
    struct step     none = {0};
    struct run      r = {.backend = b, .step = &none};
    float          *want = need((size_t)ROWS * N_OUT * sizeof *want), *x = need((size_t)(MANY * n_in) * sizeof *x);
    float          *y = kc_guard((size_t)MANY * N_OUT * sizeof *y);
    for (int64_t i = 0; i < MANY * n_in; i++)
        x[i] = p.x[i % (ROWS * n_in)];
    prepare(b, &p.w);
    compute(k, b, &p, ROWS, want);
    kc_notef(k, "%s, %d bits, %s, %d inputs, precision %d, %d rows, %d threads", quant_mode_name(q.mode), q.bits,
             dtype_name(q.scale_dtype), (int)n_in, (int)precision, MANY, threads);
    op_linear(&r, &p.w, (struct tensor){x, MANY, n_in, n_in}, (struct tensor){y, MANY, N_OUT, N_OUT});
    for (int64_t i = 0; i < MANY; i += ROWS)
        kc_same_floats(k, "against few rows", y + i * N_OUT, want, MIN(MANY - i, (int64_t)ROWS) * N_OUT);
    kc_unguard(k, y);
    b->release(b, &p.w);
    b->free(b);
    free(want);
    free(x);
    product_deinit(&p);
}

static void check_steps(struct kc *k)
{
    const struct quant forms[] = {affine(4, 32, DTYPE_F16),
                                  affine(8, 64, DTYPE_F32),
                                  dense(DTYPE_F16),
                                  dense(DTYPE_BF16),
                                  floats[0],
                                  floats[1],
                                  floats[2]};
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        check_many(k, forms[i], PRECISION_DEFAULT, 64 * (1 + kc_below(k, 3)));
        check_many(k, forms[i], PRECISION_HIGH, N_IN_MAX);
    }
}

static int some_outputs(struct kc *k)
{
    return kc_pick(k, 1, 7, 16, 17, 33, 100);
}

static void check_affine(struct kc *k)
{
    for (size_t b = 0; b < ARRAY_LEN(widths); b++)
        for (size_t g = 0; g < ARRAY_LEN(groups); g++)
            for (size_t t = 0; t < ARRAY_LEN(types); t++)
                for (int p = PRECISION_DEFAULT; p <= PRECISION_EXACT; p++)
                    check_product(k, affine(widths[b], groups[g], types[t]), (enum precision)p, some_outputs(k),
                                  groups[g] * (1 + kc_below(k, 3)));
    for (size_t b = 0; b < ARRAY_LEN(widths); b++) /* more than one panel */
        check_product(k, affine(widths[b], groups[b % 3], DTYPE_F16), (enum precision)(b % 2), 33, N_IN_MAX);
}

static void check_floats(struct kc *k)
{
    for (size_t m = 0; m < ARRAY_LEN(floats); m++)
        for (int p = PRECISION_DEFAULT; p <= PRECISION_EXACT; p++) {
            for (int n = 1; n <= 5; n++) /* nvfp4: also rows that end in half a block */
                check_product(k, floats[m], (enum precision)p, some_outputs(k), n * floats[m].group);
            check_product(k, floats[m], (enum precision)p, 33, N_IN_MAX - floats[m].group);
        }
}

/* A product of rows of NaN leaves them in the scratch, where the pair that an odd row ends with must not find them. */
static void check_odd_tail(struct kc *k, int64_t n_row)
{
    struct product wide, odd;
    product_init(k, &wide, dense(DTYPE_BF16), 16, 64);
    product_init(k, &odd, dense(DTYPE_BF16), 33, 31);
    float *y = need((size_t)ROWS * 33 * sizeof *y);
    for (int64_t i = 0; i < ROWS * wide.w.n_in; i++)
        wide.x[i] = NAN;
    struct backend *b = backend_new(k->level, 2, PRECISION_DEFAULT, ROWS, wide.w.n_in);
    prepare(b, &wide.w);
    prepare(b, &odd.w);
    compute(k, b, &wide, n_row, y);
    compute(k, b, &odd, n_row, y);
    for (int64_t r = 8; r < ROWS; r++)
        check_row(k, &odd, PRECISION_DEFAULT, r, y + r * odd.w.n_out);
    b->release(b, &wide.w);
    b->release(b, &odd.w);
    b->free(b);
    free(y);
    product_deinit(&wide);
    product_deinit(&odd);
}

static void check_dense(struct kc *k)
{
    static const int64_t ins[] = {1, 5, 31, 64, 100, 577, 1100};
    for (size_t t = 0; t < ARRAY_LEN(types); t++)
        for (size_t i = 0; i < ARRAY_LEN(ins); i++) {
            check_product(k, dense(types[t]), PRECISION_DEFAULT, some_outputs(k), ins[i]);
            check_product(k, dense(types[t]), (enum precision)(1 + kc_below(k, 2)), some_outputs(k), ins[i]);
        }
    check_odd_tail(k, 1);
    check_odd_tail(k, ROWS);
}

enum { FUSED_IN = 96, FUSED_OUT = 50 };

/* The fused operations give the bits of their composition. */
static void check_fused_case(struct kc *k, struct quant gate_quant, struct quant up_quant, int64_t n_row)
{
    struct product gate, up;
    product_init(k, &gate, gate_quant, FUSED_OUT, FUSED_IN);
    product_init(k, &up, up_quant, FUSED_OUT, FUSED_IN);
    struct backend *b = backend_new(k->level, 2, PRECISION_DEFAULT, ROWS, FUSED_IN);
    struct step     none = {0};
    struct run      r = {.backend = b, .step = &none};
    struct ops      plain = {.linear = b->ops.linear, .act_mul = b->ops.act_mul};
    float          *y[4];
    struct tensor   x = {gate.x, n_row, FUSED_IN, FUSED_IN}, t[4];
    prepare(b, &gate.w);
    prepare(b, &up.w);
    for (int i = 0; i < 4; i++) {
        y[i] = kc_guard((size_t)(n_row * FUSED_OUT) * 4);
        t[i] = (struct tensor){y[i], n_row, FUSED_OUT, FUSED_OUT};
    }
    kc_notef(k, "%s %d and %s %d bits, %d rows", quant_mode_name(gate_quant.mode), gate_quant.bits,
             quant_mode_name(up_quant.mode), up_quant.bits, (int)n_row);
    ops_set_defaults(&plain);
    const struct weight *w[] = {&gate.w, &up.w};
    b->ops.linear_many(&r, 2, w, x, t);
    plain.linear_many(&r, 2, w, x, t + 2);
    kc_same_floats(k, "linear_many, first", y[0], y[2], n_row * FUSED_OUT);
    kc_same_floats(k, "linear_many, second", y[1], y[3], n_row * FUSED_OUT);
    for (int i = 0; i < 4; i++) /* NaN: what is not written shows */
        memset(y[i], 0xff, (size_t)(n_row * FUSED_OUT) * sizeof(float));
    b->ops.linear_act_mul(&r, (struct act){.kind = ACT_SILU}, &gate.w, &up.w, x, t[1], t[0]);
    plain.linear_act_mul(&r, (struct act){.kind = ACT_SILU}, &gate.w, &up.w, x, t[3], t[2]);
    kc_same_floats(k, "linear_act_mul", y[0], y[2], n_row * FUSED_OUT);
    for (int i = 0; i < 4; i++)
        kc_unguard(k, y[i]);
    b->release(b, &gate.w);
    b->release(b, &up.w);
    b->free(b);
    product_deinit(&gate);
    product_deinit(&up);
}

static void check_fused(struct kc *k)
{
    static const int bits[][2] = {{4, 8}, {0, 0}, {4, 0}, {0, 6}};
    for (size_t t = 0; t < ARRAY_LEN(types); t++)
        for (int64_t n_row = 1; n_row < ROWS; n_row += 18) {
            for (size_t c = 0; c < ARRAY_LEN(bits); c++)
                check_fused_case(k, affine_or_dense(bits[c][0], types[t]), affine_or_dense(bits[c][1], types[t]),
                                 n_row);
            for (size_t m = 0; m < ARRAY_LEN(floats); m++)
                check_fused_case(k, floats[m], affine_or_dense(t == 0 ? 4 : 0, types[t]), n_row);
            check_fused_case(k, floats[t], floats[(t + 1) % 3], n_row);
        }
}

static void check_embed_case(struct kc *k, struct quant q, int n_row)
{
    enum { TOKENS = 40, WIDTH = 128 };
    struct product p;
    int32_t        token[ROWS];
    product_init(k, &p, q, TOKENS, WIDTH);
    struct backend *b = backend_new(k->level, 2, PRECISION_DEFAULT, ROWS, WIDTH);
    struct step     s = {.n_row = n_row, .token = token};
    struct run      r = {.backend = b, .step = &s};
    float          *y = kc_guard((size_t)n_row * WIDTH * 4);
    for (int i = 0; i < n_row; i++)
        token[i] = kc_below(k, TOKENS);
    op_embed(&r, &p.w, token, (struct tensor){y, n_row, WIDTH, WIDTH});
    for (int i = 0; i < n_row; i++)
        kc_same_floats(k, "row", y + i * WIDTH, p.dense + token[i] * WIDTH, WIDTH);
    kc_unguard(k, y);
    b->free(b);
    product_deinit(&p);
}

static void check_embed(struct kc *k)
{
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        check_embed_case(k, dense(types[t]), 3);
        check_embed_case(k, floats[t], 5);
        for (size_t b = 0; b < ARRAY_LEN(widths); b++)
            check_embed_case(k, affine(widths[b], groups[b % 3], types[t]), 17);
    }
}

/* --- rates ----------------------------------------------------------------------------------------------------------
 */

struct bench {
    struct step   step; /* no adapters */
    struct run    run;
    struct weight w;
    struct tensor x, y;
};

static void bench_linear(void *arg)
{
    struct bench *b = arg;
    op_linear(&b->run, &b->w, b->x, b->y);
}

/* One row of a matrix larger than the caches reads memory; many rows of a small one compute. */
static void bench_case(struct kc *k, struct quant q, enum precision precision, int64_t n_row, int64_t n_out)
{
    enum { N_IN = 1024 };
    char           name[64];
    struct bench   b = {.w = {.name = "w", .n_out = n_out, .n_in = N_IN, .quant = q, .dtype = q.scale_dtype}};
    size_t         size = (size_t)n_out * N_IN * 4;
    unsigned char *planes = need(size);
    for (size_t i = 0; i < size; i++)
        planes[i] = (unsigned char)(kc_random(k) & 0x3b); /* finite in every type */
    b.w.data = b.w.scales = b.w.biases = planes;
    if (q.scale_dtype == DTYPE_U8) /* near 1 in either type: no product is subnormal */
        b.w.scales = memset(planes + size / 2, q.mode == QUANT_NVFP4 ? 0x38 : 127, size / 2);
    b.run.step = &b.step;
    b.run.backend = backend_new(k->level, k->threads, precision, n_row, N_IN);
    prepare(b.run.backend, &b.w);
    free(planes);
    b.x = (struct tensor){need((size_t)n_row * N_IN * 4), n_row, N_IN, N_IN};
    b.y = (struct tensor){need((size_t)(n_row * n_out) * 4), n_row, n_out, n_out};
    for (int64_t i = 0; i < n_row * N_IN; i++)
        tensor_row(b.x, 0)[i] = (float)kc_normal(k);
    snprintf(name, sizeof name, "linear %s %d bits %s, %d x %d x %d%s", quant_mode_name(q.mode), q.bits,
             dtype_name(q.scale_dtype), (int)n_row, N_IN, (int)n_out, precision == PRECISION_HIGH ? ", high" : "");
    double bytes = (double)b.run.backend->packed_size(b.run.backend, &b.w, WEIGHT_LINEAR);
    kc_rate(k, name, kc_time(bench_linear, &b), n_row == 1 ? bytes : 0, 2.0 * (double)(n_row * N_IN * n_out));
    b.run.backend->release(b.run.backend, &b.w);
    b.run.backend->free(b.run.backend);
    free(b.x.data);
    free(b.y.data);
}

static void bench_affine(struct kc *k)
{
    for (size_t b = 0; b < ARRAY_LEN(widths); b++)
        bench_case(k, affine(widths[b], 64, DTYPE_F16), PRECISION_DEFAULT, 1, 128 << 10);
    for (size_t b = 2; b < ARRAY_LEN(widths); b++)
        bench_case(k, affine(widths[b], 64, DTYPE_F16), PRECISION_DEFAULT, 256, 1024);
    bench_case(k, affine(4, 64, DTYPE_F16), PRECISION_HIGH, 256, 1024);
}

static void bench_both(struct kc *k, const struct quant *q, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bench_case(k, q[i], PRECISION_DEFAULT, 1, 64 << 10);
        bench_case(k, q[i], PRECISION_DEFAULT, 256, 1024);
    }
}

static void bench_floats(struct kc *k)
{
    bench_both(k, floats, ARRAY_LEN(floats));
}

static void bench_dense(struct kc *k)
{
    const struct quant q[] = {dense(DTYPE_F16), dense(DTYPE_BF16), dense(DTYPE_F32)};
    bench_both(k, q, ARRAY_LEN(q));
}

const struct check linear_checks[] = {
    {"linear_affine", check_affine, bench_affine},
    {"linear_floats", check_floats, bench_floats},
    {"linear_dense", check_dense, bench_dense},
    {"linear_steps", check_steps, NULL},
    {"linear_fused", check_fused, NULL},
    {"embed", check_embed, NULL},
    {NULL, NULL, NULL},
};
