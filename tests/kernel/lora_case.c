/* Adapters for check_lora.c. */
#include "lora_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};

void *adapter_buffer(struct adapter *a, size_t bytes)
{
    if (a->n_buffer == BUFFERS_MAX)
        exit(2);
    return a->buffer[a->n_buffer++] = memset(kc_guard(bytes), 0, bytes);
}

static float *vector(struct kc *k, struct adapter *a, int64_t n)
{
    float *v = adapter_buffer(a, (size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)kc_normal(k);
    return v;
}

/* rows x cols values at rows of `padded`, narrowed into a buffer of the adapter. */
static void *matrix(struct kc *k, struct adapter *a, enum dtype type, int64_t rows, int64_t lo, int64_t hi,
                    int64_t padded)
{
    size_t elem = dtype_size(type);
    char  *to = adapter_buffer(a, (size_t)(rows * padded) * elem);
    float *row = need((size_t)padded * sizeof *row);
    for (int64_t r = 0; r < rows && hi > lo; r++) {
        kc_fill(k, row + lo, hi - lo, 30);
        quant_narrow(type, row, padded, to + (size_t)(r * padded) * elem);
    }
    free(row);
    return to;
}

static int64_t first_tile(const struct lora_pair *p)
{
    return p->row / LORA_LANES;
}

void pair_init(struct kc *k, struct adapter *a, struct lora_pair *p, int64_t n_in, int64_t row, int64_t n_out,
               int64_t rank)
{
    *p = (struct lora_pair){.n_in = n_in, .n_out = n_out, .rank = rank, .row = row, .uses = WEIGHT_LINEAR};
    int64_t tiles = (row + n_out + LORA_LANES - 1) / LORA_LANES - first_tile(p),
            padded = (n_in + LORA_LANES - 1) & -LORA_LANES;
    p->a_type = types[kc_below(k, 3)];
    p->b_type = types[kc_below(k, 3)];
    p->scale = (float)kc_normal(k);
    p->a = matrix(k, a, p->a_type, rank, 0, n_in, padded);
    size_t elem = dtype_size(p->b_type), tile = (size_t)(rank * LORA_LANES) * elem;
    char  *b = adapter_buffer(a, (size_t)tiles * tile);
    for (int64_t t = 0; t < tiles; t++) {
        int64_t o = (first_tile(p) + t) * LORA_LANES;
        void   *v = matrix(k, a, p->b_type, rank, MAX(row - o, 0), MIN(row + n_out - o, LORA_LANES), LORA_LANES);
        memcpy(b + (size_t)t * tile, v, tile);
        kc_unguard(NULL, v);
        a->n_buffer--;
    }
    p->b = b;
}

float pair_a(const struct lora_pair *p, int64_t j, int64_t i)
{
    return dtype_load(p->a_type, p->a, j * lora_a_row(p) + i);
}

float pair_b(const struct lora_pair *p, int64_t o, int64_t j)
{
    if (o < p->row || o >= p->row + p->n_out)
        return 0;
    return dtype_load(p->b_type, p->b, ((o / LORA_LANES - first_tile(p)) * p->rank + j) * LORA_LANES + o % LORA_LANES);
}

/* (B A)[o][i] of all pairs of a delta. */
static double delta_at(const struct lora_delta *d, int64_t o, int64_t i)
{
    double sum = 0;
    for (int p = 0; p < d->n_pair; p++)
        for (int64_t j = 0; j < d->pair[p].rank; j++)
            sum += (double)pair_b(d->pair + p, o, j) * pair_a(d->pair + p, j, i);
    return sum;
}

/* Norms of the rows of W + s B A; pairs have one scale. */
static void dora_init(struct kc *k, struct adapter *a, struct lora_dora *v, const struct lora_delta *d,
                      const struct product *w)
{
    int64_t n = w->w.n_out;
    float  *m = vector(k, a, n), *ww = vector(k, a, n), *wd = vector(k, a, n), *dd = vector(k, a, n);
    for (int64_t o = 0; o < n; o++) {
        double s[3] = {0}, scale = d->pair[0].scale;
        for (int64_t i = 0; i < w->w.n_in; i++) {
            double x = w->dense[o * w->w.n_in + i], y = scale * delta_at(d, o, i);
            s[0] += x * x;
            s[1] += x * y;
            s[2] += y * y;
        }
        ww[o] = (float)s[0] + 1;
        wd[o] = (float)s[1];
        dd[o] = (float)s[2];
    }
    *v = (struct lora_dora){m, ww, wd, dd};
}

static void weight_delta(struct kc *k, struct adapter *a, int i, const struct product *w, int64_t rank, unsigned what,
                         unsigned uses, struct backend *b)
{
    struct lora_delta *d = a->delta + i;
    int64_t            n_out = w->w.n_out, n_in = w->w.n_in, row = what & LORA_PARTS ? MIN(5, n_out - 1) : 0;
    *d = (struct lora_delta){.n_pair = 1, .pair = a->pair[i]};
    pair_init(k, a, a->pair[i], n_in, row, row ? (n_out - row + 1) / 2 : n_out, rank);
    if (row && n_out > 20) { /* a second part, apart from the first */
        pair_init(k, a, a->pair[i] + 1, n_in, n_out - 4, 3, (rank + 1) / 2);
        a->pair[i][1].scale = a->pair[i][0].scale;
        d->n_pair = 2;
    }
    for (int p = 0; p < d->n_pair; p++) {
        a->pair[i][p].uses = uses;
        a->pair[i][p].extra = what & LORA_EXTRA ? vector(k, a, a->pair[i][p].n_out) : NULL;
    }
    if (what & LORA_DORA) {
        dora_init(k, a, a->dora + i, d, w);
        d->dora = a->dora + i;
    }
    if (what & LORA_BIAS)
        d->bias = vector(k, a, n_out);
    if (what & LORA_REPLACE) {
        enum dtype t = types[kc_below(k, 3)];
        product_init(k, a->replace + i, (struct quant){QUANT_NONE, 0, 0, t}, n_out, n_in);
        prepare(b, &a->replace[i].w);
        d->replace = &a->replace[i].w;
    }
}

void adapter_init(struct kc *k, struct adapter *a, int n, const struct product *w, int64_t rank, unsigned what,
                  unsigned uses, struct backend *b)
{
    memset(a, 0, sizeof *a);
    for (int i = 0; i < n; i++) {
        if (n > 1 && kc_below(k, 4) == 0) /* not every adapter changes every weight */
            continue;
        weight_delta(k, a, i, w + i, rank, what, uses, b);
        a->table[i] = a->delta + i;
    }
    a->lora = (struct lora){.n_weight = n, .delta = a->table, .rank = (int)(2 * rank)};
}

void adapter_deinit(struct kc *k, struct adapter *a, struct backend *b)
{
    for (int i = 0; i < WEIGHTS_MAX; i++) {
        if (!a->delta[i].replace)
            continue;
        b->release(b, &a->replace[i].w);
        product_deinit(a->replace + i);
    }
    while (a->n_buffer > 0)
        kc_unguard(k, a->buffer[--a->n_buffer]);
}

/* --- truth ----------------------------------------------------------------------------------------------------------
 */

static void add_product(const struct lora_pair *p, double s, const float *x, double *y, double *mag)
{
    for (int64_t j = 0; j < p->rank; j++) {
        double z = 0, size = 0;
        for (int64_t i = 0; i < p->n_in; i++) {
            z += (double)pair_a(p, j, i) * x[i];
            size += fabs((double)pair_a(p, j, i) * x[i]);
        }
        for (int64_t o = p->row; o < p->row + p->n_out; o++) {
            y[o] += s * z * pair_b(p, o, j);
            mag[o] += fabs(s * size * pair_b(p, o, j));
        }
    }
}

static void add_lookup(const struct lora_pair *p, double s, int64_t token, double *y, double *mag)
{
    for (int64_t j = 0; j < p->rank; j++)
        for (int64_t i = 0; i < p->n_in; i++) {
            double v = s * pair_b(p, token, j) * pair_a(p, j, i);
            y[i] += v;
            mag[i] += fabs(v);
        }
}

static double dora_at(const struct lora_dora *v, double s, int64_t o)
{
    return v->m[o] / sqrt(v->ww[o] + 2 * s * v->wd[o] + s * s * v->dd[o]);
}

/* How much larger the terms of the norm are than their sum. */
static double dora_condition(const struct lora_dora *v, double s, int64_t o)
{
    double sum = v->ww[o] + 2 * s * v->wd[o] + s * s * v->dd[o];
    return (v->ww[o] + 2 * fabs(s * v->wd[o]) + s * s * v->dd[o]) / sum;
}

/* Adapters with DoRA, or those without; token -1: products. */
static void add_adapters(const struct lora_set *set, const struct weight *w, bool dora, const float *x, int64_t token,
                         double *y, double *mag)
{
    unsigned use = token < 0 ? WEIGHT_LINEAR : WEIGHT_EMBED;
    for (int i = 0; i < set->n; i++) {
        const struct lora_delta *d = lora_delta_of(set, i, w);
        double                   scale = set->use[i].scale;
        if (!d || (d->dora != NULL) != dora || !(d->pair->uses & use))
            continue;
        for (int p = 0; p < d->n_pair; p++) {
            if (token < 0)
                add_product(d->pair + p, scale * d->pair[p].scale, x, y, mag);
            else
                add_lookup(d->pair + p, scale * d->pair[p].scale, token, y, mag);
        }
        for (int64_t o = 0; dora && o < (token < 0 ? w->n_out : w->n_in); o++) {
            int64_t row = token < 0 ? o : token;
            double  f = dora_at(d->dora, scale, row);
            y[o] *= f;
            mag[o] *= fabs(f) * dora_condition(d->dora, scale, row);
        }
    }
}

void adapted_row(const struct lora_set *set, const struct weight *w, const float *x, double *y, double *mag)
{
    const float *bias = w->bias;
    for (int dora = 1; set && dora >= 0; dora--)
        add_adapters(set, w, dora, x, -1, y, mag);
    for (int i = 0; set && i < set->n; i++) {
        const struct lora_delta *d = lora_delta_of(set, i, w);
        if (d && d->bias)
            bias = d->bias;
        for (int p = 0; d && p < d->n_pair; p++)
            for (int64_t o = 0; d->pair[p].extra && o < d->pair[p].n_out; o++) {
                double v = (double)set->use[i].scale * d->pair[p].scale * d->pair[p].extra[o];
                y[d->pair[p].row + o] += v;
                mag[d->pair[p].row + o] += fabs(v);
            }
    }
    for (int64_t o = 0; bias && o < w->n_out; o++) {
        y[o] += bias[o];
        mag[o] += fabs(bias[o]);
    }
}

void adapted_lookup(const struct lora_set *set, const struct weight *w, int64_t token, double *y, double *mag)
{
    for (int dora = 1; set && dora >= 0; dora--)
        add_adapters(set, w, dora, NULL, token, y, mag);
}
