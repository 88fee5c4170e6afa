/* Checks of mixtures of experts: scores and choice of a router against a plain form, experts against products one by one.
 *
 * Choices compare scores, so the plain form takes the scalar level's scores, which have a check of their own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cpu/rows.h"
#include "linear_case.h"

#define CASES 150
#define EXPERTS_MAX 128
#define MOE_ROWS 70

static float *floats(int64_t n)
{
    return kc_guard((size_t)MAX(n, 1) * sizeof(float));
}

/* exp is within an ulp; a sum of n of them; a division. */
static void check_softmax(struct kc *k)
{
    static double ref[EXPERTS_MAX], bound[EXPERTS_MAX];
    for (int c = kc_cases(k, CASES); c; c--) {
        int    n = kc_pick(k, 1, 2, 7, 15, 16, 17, 33, 64, 100, 128);
        float *x = floats(n), *y = floats(n), *want = floats(n), max = -INFINITY;
        double sum = 0;
        kc_notef(k, "n %d", n);
        kc_fill(k, x, n, 60);
        for (int i = 0; i < n; i++)
            max = fmaxf(max, x[i]);
        for (int i = 0; i < n; i++)
            sum += exp((double)x[i] - max);
        for (int i = 0; i < n; i++) {
            ref[i] = exp((double)x[i] - max) / sum;
            double moved = fabs((double)x[i] - max) * KC_EPS; /* the difference is rounded */
            bound[i] = ((16 + n / 8.0) * KC_EPS + 2 * moved) * ref[i] + 0x1p-126;
        }
        row_fns_for(k->level)->softmax(x, n, y);
        row_fns_for(CPU_SCALAR)->softmax(x, n, want);
        kc_close(k, "against double", y, ref, bound, n);
        kc_same_floats(k, "against scalar", y, want, n);
        kc_unguard(k, x);
        kc_unguard(k, y);
        kc_unguard(k, want);
    }
}

/* ---- route ---- */

static int before(float x, int i, float y, int j) /* whether i is chosen rather than j */
{
    int order = isnan(x) ? isnan(y) ? 0 : -1 : isnan(y) ? 1 : (x > y) - (x < y);
    return order ? order > 0 : i < j;
}

/* Marks the k best of n, one after the other. */
static void mark_best(const float *score, int n, int k, bool *chosen)
{
    for (int i = 0; i < n; i++)
        chosen[i] = false;
    for (int j = 0; j < k; j++) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (!chosen[i] && (best < 0 || before(score[i], i, score[best], best)))
                best = i;
        chosen[best] = true;
    }
}

static void plain_groups(const struct route *m, float *choice)
{
    int   size = m->n_expert / m->n_group;
    float sum[EXPERTS_MAX];
    bool  open[EXPERTS_MAX];
    for (int i = 0; i < m->n_expert; i++)
        choice[i] = isnan(choice[i]) ? -INFINITY : choice[i];
    for (int g = 0; g < m->n_group; g++) {
        bool two[EXPERTS_MAX];
        int  n = m->group == ROUTE_GROUP_BEST2 ? MIN(2, size) : 1;
        mark_best(choice + g * size, size, n, two);
        sum[g] = 0;
        for (int i = 0; i < size; i++)
            sum[g] += two[i] ? choice[g * size + i] : 0;
    }
    mark_best(sum, m->n_group, m->topk_group, open);
    for (int i = 0; i < m->n_expert; i++)
        choice[i] = open[i / size] ? choice[i] : NAN; /* comes last */
}

/* The chosen experts of a row, and their weights in double. */
static void plain_route(const struct route *m, const float *logits, const float *correction, bool *chosen,
                        double *weight)
{
    float  score[EXPERTS_MAX], choice[EXPERTS_MAX], top = -INFINITY;
    double sum = 0;
    memcpy(score, logits, (size_t)m->n_expert * sizeof *score);
    if (m->score == ROUTE_SOFTMAX)
        row_fns_for(CPU_SCALAR)->softmax(score, m->n_expert, score);
    if (m->score == ROUTE_SIGMOID)
        row_fns_for(CPU_SCALAR)->act(ACT_SIGMOID, NULL, score, score, m->n_expert);
    for (int i = 0; i < m->n_expert; i++)
        choice[i] = correction ? score[i] + correction[i] : score[i];
    if (m->n_group > 1)
        plain_groups(m, choice);
    mark_best(choice, m->n_expert, m->top_k, chosen);
    for (int i = 0; i < m->n_expert; i++)
        top = chosen[i] ? fmaxf(top, score[i]) : top;
    for (int i = 0; i < m->n_expert; i++) {
        weight[i] = m->score == ROUTE_TOP_SOFTMAX ? exp((double)score[i] - top) : score[i];
        sum += chosen[i] ? weight[i] : 0;
    }
    if (m->score == ROUTE_TOP_SOFTMAX)
        for (int i = 0; i < m->n_expert; i++)
            weight[i] /= sum;
    if (m->score == ROUTE_TOP_SOFTMAX)
        sum = 1;
    for (int i = 0; i < m->n_expert; i++)
        weight[i] = (m->normalize ? weight[i] / fmax(sum + m->sum_add, m->sum_min) : weight[i]) * m->scale;
}

static struct route random_route(struct kc *k)
{
    struct route m = {.n_expert = kc_pick(k, 1, 2, 6, 16, 17, 60, 64, 128), .scale = (float)kc_pick(k, 1, 2)};
    m.score = (enum route_score)kc_below(k, 3);
    m.top_k = kc_below(k, 4) ? 1 + kc_below(k, MIN(m.n_expert, 10)) : m.n_expert;
    m.normalize = kc_below(k, 2);
    m.sum_add = kc_below(k, 2) ? 1e-20f : 0;
    m.sum_min = kc_below(k, 2) ? 1e-12f : 0;
    m.group = (enum route_group)kc_below(k, 2);
    m.n_group = kc_pick(k, 0, 1, 2, 4);
    m.topk_group = m.n_group;
    if (m.n_group > 1 && m.n_expert % m.n_group)
        m.n_group = 1;
    while (m.n_group > 1 && m.topk_group > 1 && m.n_expert / m.n_group * (m.topk_group - 1) >= m.top_k)
        m.topk_group--;
    return m;
}

/* Logits with equal ones; sometimes with NaN, infinities or all the same. */
static void fill_logits(struct kc *k, float *x, int64_t n)
{
    int kind = kc_below(k, 4);
    for (int64_t i = 0; i < n; i++) {
        x[i] = kind == 0 ? 0.5f : kind == 1 ? (float)kc_below(k, 5) : (float)(3 * kc_normal(k));
        if (kind == 3 && kc_below(k, 9) == 0)
            x[i] = kc_pick(k, 0, 1, 2) ? NAN : kc_below(k, 2) ? 1e30f : -INFINITY;
    }
}

static void check_route(struct kc *k)
{
    struct run_limits lim = {.n_row = 1, .n_head = 1, .n_kv_head = 1, .head_dim = 1, .n_key = 1};
    struct cpu       *cpu = kc_cpu_new(k->level, 3, PRECISION_DEFAULT, &lim);
    struct step       none = {0};
    struct run        r = {.backend = &cpu->base, .step = &none};
    for (int c = kc_cases(k, 2 * CASES); c; c--) {
        struct route m = random_route(k);
        int    rows = kc_pick(k, 1, 2, 300), n = m.n_expert, with = kc_below(k, 2) && m.score != ROUTE_TOP_SOFTMAX;
        float *correction = floats(n), *x = floats(rows * n), *logits = floats(rows * n);
        float *id = floats(rows * m.top_k), *w = floats(rows * m.top_k);
        kc_notef(k, "experts %d top %d score %d groups %d of %d rows %d", n, m.top_k, (int)m.score, m.topk_group,
                 m.n_group, rows);
        fill_logits(k, x, (int64_t)rows * n);
        memcpy(logits, x, (size_t)(rows * n) * sizeof *x);
        for (int i = 0; i < n; i++)
            correction[i] = (float)kc_normal(k);
        m.correction = (struct weight){.index = with ? 0 : -1, .packed = correction};
        op_route(&r, &m, (struct tensor){logits, rows, n, n}, (struct tensor){id, rows, m.top_k, m.top_k},
                 (struct tensor){w, rows, m.top_k, m.top_k});
        for (int i = 0; i < rows; i++) {
            bool    chosen[EXPERTS_MAX];
            double  weight[EXPERTS_MAX];
            int32_t got, at = 0;
            plain_route(&m, x + i * n, with ? correction : NULL, chosen, weight);
            for (int e = 0; e < n; e++) {
                if (!chosen[e])
                    continue;
                memcpy(&got, id + i * m.top_k + at, sizeof got);
                double tiny = m.normalize && fabs(weight[e]) < 1e-30 ? 1e-30 : 0, far = fabs(weight[e]) * 1e-5 + tiny;
                float  v = w[i * m.top_k + at++];
                kc_expect(k, got == e, "row %d: expert %d, needed %d", i, got, e);
                kc_expect(k, (!isfinite(weight[e]) && !isfinite(v)) || fabs(v - weight[e]) <= far + 1e-36,
                          "row %d: weight %g, needed %g", i, v, weight[e]);
            }
        }
        kc_unguard(k, correction);
        kc_unguard(k, x);
        kc_unguard(k, logits);
        kc_unguard(k, id);
        kc_unguard(k, w);
    }
    kc_cpu_free(cpu);
}

/* ---- experts ---- */

struct experts {
    struct moe      m;
    int             n_in, n_ff;
    struct product *gate, *up, *down; /* of each expert */
};

static struct weight *stack_new(struct kc *k, struct backend *b, struct product **p, struct quant q, int n, int n_out,
                                int n_in)
{
    struct weight *w = need((size_t)n * sizeof *w);
    *p = need((size_t)n * sizeof **p);
    for (int i = 0; i < n; i++) {
        product_init(k, *p + i, q, n_out, n_in);
        w[i] = (*p)[i].w;
        prepare(b, &w[i]);
    }
    return w;
}

static void stack_free(struct backend *b, struct weight *w, struct product *p, int n)
{
    for (int i = 0; i < n; i++) {
        b->release(b, &w[i]);
        product_deinit(&p[i]);
    }
    free(w);
    free(p);
}

static struct backend *moe_backend(struct kc *k, int threads, enum precision precision, const struct experts *x)
{
    struct backend    *b = NULL;
    struct cpu_options o = {.threads = threads, .level = (int)k->level, .precision = precision};
    struct run_limits  lim = {.n_row = MOE_ROWS,
                              .n_in = MAX(x->n_in, x->n_ff),
                              .n_head = 1,
                              .n_kv_head = 1,
                              .head_dim = 64,
                              .n_key = 64,
                              .n_expert = x->m.n_expert,
                              .top_k = x->m.top_k,
                              .n_expert_in = x->n_in,
                              .n_expert_ff = x->n_ff};
    if (cpu_backend_new(&b, &o, NULL) || b->reserve(b, &lim, NULL))
        exit(2);
    return b;
}

/* Row i of y, an expert at a time. */
static void plain_row(struct run *r, const struct experts *e, float *x, const int32_t *id, const float *w, float *y)
{
    struct tensor in = {x, 1, e->n_in, e->n_in}, gate = {floats(e->n_ff), 1, e->n_ff, e->n_ff};
    struct tensor up = {floats(e->n_ff), 1, e->n_ff, e->n_ff}, out = {floats(e->n_in), 1, e->n_in, e->n_in};
    for (int c = 0; c < e->n_in; c++)
        y[c] = 0;
    for (int j = 0; j < e->m.top_k; j++) {
        float *add = x;
        if (id[j] < e->m.n_expert) {
            op_linear_act_mul(r, e->m.act, e->m.gate + id[j], e->m.up + id[j], in, up, gate);
            op_linear(r, e->m.down + id[j], gate, out);
            add = out.data;
        }
        for (int c = 0; c < e->n_in; c++) {
            float product = w[j] * add[c];
            y[c] = y[c] + product;
        }
    }
    kc_unguard(NULL, gate.data);
    kc_unguard(NULL, up.data);
    kc_unguard(NULL, out.data);
}

/* Ascending ids out of n + 1, the last of them the identity; kind 0: all rows the same. */
static void draw_ids(struct kc *k, int32_t *id, float *w, int rows, int n, int top_k)
{
    int kind = kc_below(k, 3);
    for (int i = 0; i < rows * top_k; i++)
        w[i] = (float)kc_normal(k);
    for (int i = 0; i < rows; i++) {
        int32_t at = 0;
        for (int e = 0, left = top_k; e <= n && left; e++)
            if (n + 1 - e == left || (kind == 0 ? e < top_k : kc_below(k, n + 1) < top_k)) {
                id[i * top_k + at++] = e;
                left--;
            }
    }
}

static void check_moe_case(struct kc *k, struct quant q, enum precision precision)
{
    struct experts  e = {.n_in = 32 * kc_pick(k, 1, 2, 5), .n_ff = 32 * kc_pick(k, 1, 3)};
    struct step     none = {0};
    int             n = kc_pick(k, 1, 2, 5, 9), rows = kc_pick(k, 1, 2, 7, 33, MOE_ROWS);
    struct backend *b, *one;
    e.m = (struct moe){.n_expert = n, .top_k = 1 + kc_below(k, n + 1)};
    b = moe_backend(k, kc_pick(k, 1, 2, 3), precision, &e);
    one = moe_backend(k, 1, precision, &e);
    e.m.gate = stack_new(k, b, &e.gate, q, n, e.n_ff, e.n_in);
    e.m.up = stack_new(k, b, &e.up, q, n, e.n_ff, e.n_in);
    e.m.down = stack_new(k, b, &e.down, q, n, e.n_in, e.n_ff);
    int      top_k = e.m.top_k;
    int32_t *id = kc_guard((size_t)(rows * top_k) * sizeof *id);
    float   *w = floats(rows * top_k), *x = floats(rows * e.n_in), *y = floats(rows * e.n_in), *want = floats(e.n_in);
    kc_notef(k, "mode %d bits %d precision %d experts %d top %d rows %d in %d ff %d", (int)q.mode, q.bits,
             (int)precision, n, top_k, rows, e.n_in, e.n_ff);
    for (int i = 0; i < rows * e.n_in; i++)
        x[i] = kc_below(k, 500) ? (float)kc_normal(k) : NAN;
    draw_ids(k, id, w, rows, n, top_k);
    struct run    r = {.backend = b, .step = &none}, r1 = {.backend = one, .step = &none};
    struct tensor tx = {x, rows, e.n_in, e.n_in}, ty = {y, rows, e.n_in, e.n_in};
    op_moe(&r, &e.m, tx, (struct tensor){id, rows, top_k, top_k}, (struct tensor){w, rows, top_k, top_k}, ty);
    for (int i = 0; i < rows; i++) {
        plain_row(&r1, &e, x + i * e.n_in, id + i * top_k, w + i * top_k, want);
        kc_same_floats(k, "against one by one", y + i * e.n_in, want, e.n_in);
    }
    kc_unguard(k, id);
    kc_unguard(k, w);
    kc_unguard(k, x);
    kc_unguard(k, y);
    kc_unguard(k, want);
    stack_free(b, e.m.gate, e.gate, n);
    stack_free(b, e.m.up, e.up, n);
    stack_free(b, e.m.down, e.down, n);
    b->free(b);
    one->free(one);
}

static void check_moe(struct kc *k)
{
    static const struct quant forms[] = {{QUANT_NONE, 0, 0, DTYPE_F32},     {QUANT_NONE, 0, 0, DTYPE_BF16},
                                         {QUANT_AFFINE, 4, 32, DTYPE_BF16}, {QUANT_AFFINE, 8, 32, DTYPE_F32},
                                         {QUANT_MXFP4, 4, 32, DTYPE_U8},    {QUANT_MXFP8, 8, 32, DTYPE_U8}};
    for (int c = kc_cases(k, CASES); c; c--)
        check_moe_case(k, forms[(size_t)c % ARRAY_LEN(forms)],
                       c % 4 == 0   ? PRECISION_EXACT
                       : c % 4 == 1 ? PRECISION_HIGH
                                    : PRECISION_DEFAULT);
}

const struct check moe_checks[] = {
    {"softmax", check_softmax, NULL},
    {"route", check_route, NULL},
    {"moe", check_moe, NULL},
    {NULL, NULL, NULL},
};
