/* Products for check_linear.c. */
#include "linear_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

void *need(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (!p)
        exit(2);
    return p;
}

static void plant_extremes(float *x, int64_t n_in)
{
    int64_t b = MIN(n_in, (int64_t)LINEAR_BLOCK);
    for (int64_t i = 0; i < n_in; i++) {
        x[0 * n_in + i] = 0;
        x[1 * n_in + i] *= i < b ? 1e-38f : 1e-30f;
        x[2 * n_in + i] *= i % 3 ? 1e30f : 1e-3f;
        x[3 * n_in + i] = i % 2 ? 1 : -1; /* every code at its bound */
        x[4 * n_in + i] = (float)(i % 255) - 127;
        x[8 * n_in + i] = (float)(257 + 2 * (i % 127));                     /* half way between two bfloat16 numbers */
        x[9 * n_in + i] = i % LINEAR_BLOCK ? (float)(i % 64) - 31.5f : 127; /* ties: a step is 1 */
    }
    x[5 * n_in + n_in / 2] = NAN;
    x[6 * n_in + n_in - 1] = INFINITY;
    x[7 * n_in] = -INFINITY;
}

/* The planes of p->dense, which becomes what they hold. */
static void encode(struct product *p)
{
    int64_t n_in = p->w.n_in;
    int     group = p->w.quant.group;
    size_t  row = quant_row_bytes(&p->w.quant, n_in), srow = quant_scale_row_bytes(&p->w.quant, n_in);
    p->scales = need(srow * (size_t)p->w.n_out);
    p->biases = need(srow * (size_t)p->w.n_out);
    for (int64_t o = 0; o < p->w.n_out; o++) {
        char *c = (char *)p->codes + (size_t)o * row, *s = (char *)p->scales + (size_t)o * srow;
        char *b = (char *)p->biases + (size_t)o * srow;
        for (int64_t i = 0; i < n_in && o % 5 == 1; i++) /* all codes but one of a group at the end of their range */
            p->dense[o * n_in + i] = i % group ? 1.0f : -1.5f;
        for (int64_t i = 0; i < n_in && o % 5 == 2; i++) /* groups of very different sizes */
            p->dense[o * n_in + i] *= i / group % 2 ? 1e-3f : 20;
        quant_encode_row(&p->w.quant, p->dense + o * n_in, n_in, c, s, b);
        if (o % 5 == 3 && p->w.quant.scale_dtype == DTYPE_U8 && group == 32)
            s[0] = 0; /* the least E8M0, 2^-127, which is subnormal */
        quant_decode_row(&p->w.quant, c, s, b, n_in, p->dense + o * n_in);
    }
    p->w.scales = p->scales;
    p->w.biases = p->w.quant.mode == QUANT_AFFINE ? p->biases : NULL;
}

void product_init(struct kc *k, struct product *p, struct quant q, int64_t n_out, int64_t n_in)
{
    size_t n = (size_t)(n_out * n_in);
    *p = (struct product){.w = {.name = "w", .n_out = n_out, .n_in = n_in, .quant = q, .dtype = q.scale_dtype}};
    p->dense = need(n * 4);
    p->codes = need(n * 4);
    p->x = need((size_t)(ROWS * n_in) * 4);
    p->bias = need((size_t)n_out * 4);
    for (size_t i = 0; i < n; i++)
        p->dense[i] = (float)kc_normal(k);
    for (int64_t i = 0; i < ROWS * n_in; i++)
        p->x[i] = (float)kc_normal(k);
    plant_extremes(p->x, n_in);
    for (int64_t i = 0; i < n_out; i++)
        p->bias[i] = (float)kc_normal(k);
    p->w.bias = kc_below(k, 2) ? p->bias : NULL;
    p->w.data = p->codes;
    if (q.mode != QUANT_NONE) {
        encode(p);
        return;
    }
    for (size_t i = 0; i < n; i++) /* subnormal weights */
        p->dense[i] *= i / (size_t)n_in % 5 == 3 ? 1e-38f : 1;
    quant_narrow(q.scale_dtype, p->dense, (int64_t)n, p->codes);
    quant_widen(q.scale_dtype, p->codes, (int64_t)n, p->dense);
}

void product_deinit(struct product *p)
{
    free(p->dense);
    free(p->x);
    free(p->bias);
    free(p->codes);
    free(p->scales);
    free(p->biases);
}

struct backend *backend_new(enum cpu_level level, int threads, enum precision precision, int64_t n_row, int64_t n_in)
{
    struct backend    *b = NULL;
    struct cpu_options o = {.threads = threads, .level = (int)level, .precision = precision};
    struct run_limits  lim = {.n_row = n_row, .n_in = n_in, .n_head = 1, .n_kv_head = 1, .head_dim = 64, .n_key = 64};
    if (cpu_backend_new(&b, &o, NULL) || b->reserve(b, &lim, NULL))
        exit(2);
    return b;
}

void prepare(struct backend *b, struct weight *w)
{
    if (b->prepare(b, w, WEIGHT_LINEAR, NULL))
        exit(2);
}

void compute(struct kc *k, struct backend *b, const struct product *p, int64_t n, float *y)
{
    struct step none = {0};
    struct run  r = {.backend = b, .step = &none};
    int64_t     n_in = p->w.n_in, n_out = p->w.n_out;
    for (int64_t at = 0; at < ROWS; at += n) {
        int64_t       m = MIN(n, ROWS - at);
        size_t        x_size = (size_t)(m * n_in) * 4, y_size = (size_t)(m * n_out) * 4;
        struct tensor x = {kc_guard(x_size), m, n_in, n_in}, t = {kc_guard(y_size), m, n_out, n_out};
        memcpy(x.data, p->x + at * n_in, x_size);
        op_linear(&r, &p->w, x, t);
        memcpy(y + at * n_out, t.data, y_size);
        kc_unguard(k, x.data);
        kc_unguard(k, t.data);
    }
}
