/* DoRA's three vectors. For row o of W + s B A with w = W[o], d = (B A)[o] = sum over j of B[o][j] A[j]:
 *
 *     |w + s d|^2 = w.w + 2 s w.d + s^2 d.d      w.d = sum over j of B[o][j] (A[j].w)
 *                                                d.d = B[o] G B[o]^T, G = A A^T [rank, rank]
 *
 * so that B A itself is never made, but for a rank beyond the width, where d costs less than G. Products are summed in
 * float32 over short runs and in double over runs. Each pair's own scale is multiplied into w.d and d.d here,
 * since parts of one weight may differ in it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapt/adapt_int.h"
#include "base/num.h"

#define RUN 256 /* elements that are summed in float32 */
#define ROWS 4  /* of a weight that go through A together */

typedef float v4 __attribute__((vector_size(16)));

static inline v4 load(const float *p)
{
    v4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline double sum_of(v4 a, v4 b)
{
    v4 v = a + b;
    return ((double)v[0] + (double)v[1]) + ((double)v[2] + (double)v[3]);
}

/* sum[k] = a . w[k] for ROWS rows of n elements, each in the same order of operations. */
static void dots(const float *a, const float *w, int64_t n, double sum[ROWS])
{
    int64_t      whole = n & ~(int64_t)7;
    const float *w0 = w, *w1 = w + n, *w2 = w + 2 * n, *w3 = w + 3 * n;
    memset(sum, 0, ROWS * sizeof *sum);
    for (int64_t from = 0, i; from < whole; from += RUN) {
        v4 p0 = {0}, p1 = {0}, p2 = {0}, p3 = {0}, q0 = {0}, q1 = {0}, q2 = {0}, q3 = {0};
        for (i = from; i < MIN(from + RUN, whole); i += 8) {
            v4 x = load(a + i), y = load(a + i + 4);
            p0 += x * load(w0 + i);
            q0 += y * load(w0 + i + 4);
            p1 += x * load(w1 + i);
            q1 += y * load(w1 + i + 4);
            p2 += x * load(w2 + i);
            q2 += y * load(w2 + i + 4);
            p3 += x * load(w3 + i);
            q3 += y * load(w3 + i + 4);
        }
        sum[0] += sum_of(p0, q0);
        sum[1] += sum_of(p1, q1);
        sum[2] += sum_of(p2, q2);
        sum[3] += sum_of(p3, q3);
    }
    for (int k = 0; k < ROWS; k++)
        for (int64_t i = whole; i < n; i++)
            sum[k] += (double)a[i] * (double)w[k * n + i];
}

static double dot(const float *a, const float *b, int64_t n)
{
    double  sum = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        sum += sum_of(load(a + i) * load(b + i), load(a + i + 4) * load(b + i + 4));
    for (; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

struct scratch {
    float  *a;     /* [rank][n_in] */
    float  *w, *b; /* [ROWS][n_in], [rank] */
    double *wa;    /* [rank][ROWS]: A[j].w */
    double *g;     /* [rank][rank], of ranks up to n_in */
    double *d;     /* [n_in], of ranks beyond */
};

static void gram(int64_t r, int64_t n_in, const struct scratch *s)
{
    for (int64_t j = 0; j < r; j++)
        for (int64_t k = 0; k <= j; k++)
            s->g[j * r + k] = s->g[k * r + j] = dot(s->a + j * n_in, s->a + k * n_in, n_in);
}

/* w.d and d.d by G, b being the row of B and w row k of the scratch. */
static void by_gram(int64_t r, int k, const struct scratch *s, double *wd, double *dd)
{
    for (int64_t j = 0; j < r; j++) {
        double g = 0;
        for (int64_t i = 0; i < r; i++)
            g += s->g[j * r + i] * (double)s->b[i];
        *dd += (double)s->b[j] * g;
        *wd += (double)s->b[j] * s->wa[j * ROWS + k];
    }
}

/* The same by d. */
static void by_row(int64_t r, int k, int64_t n_in, const struct scratch *s, double *wd, double *dd)
{
    memset(s->d, 0, (size_t)n_in * sizeof *s->d);
    for (int64_t j = 0; j < r; j++)
        for (int64_t i = 0; i < n_in; i++)
            s->d[i] += (double)s->b[j] * (double)s->a[j * n_in + i];
    for (int64_t i = 0; i < n_in; i++) {
        *dd += s->d[i] * s->d[i];
        *wd += s->d[i] * (double)s->w[k * n_in + i];
    }
}

/* What row o of the pair makes of v; w is row k of the scratch. */
static bool fill_row(const struct adapter_pair *p, int64_t o, int k, int64_t n_in, const struct scratch *s, float *v[4])
{
    int64_t r = p->a.n_row, at = p->row + o;
    double  ww = dot(s->w + k * n_in, s->w + k * n_in, n_in), wd = 0, dd = 0;
    adapter_matrix_row(&p->b, o, s->b);
    if (r > n_in)
        by_row(r, k, n_in, s, &wd, &dd);
    else
        by_gram(r, k, s, &wd, &dd);
    if (ww == 0 && dd == 0) /* a row of zeros stays one, at any length */
        return true;
    v[0][at] = adapter_matrix_at(&p->magnitude, o, 0);
    v[1][at] = (float)ww;
    v[2][at] = (float)(p->scale * wd);
    v[3][at] = (float)(p->scale * p->scale * MAX(dd, 0.0));
    return isfinite(v[1][at]) && isfinite(v[2][at]) && isfinite(v[3][at]);
}

static bool fill_pair(const struct weight *base, const struct adapter_pair *p, const struct scratch *s, float *v[4])
{
    int64_t n_in = base->n_in, r = p->a.n_row, in_gram = r > n_in ? 0 : r;
    bool    finite = true;
    for (int64_t j = 0; j < r; j++)
        adapter_matrix_row(&p->a, j, s->a + j * n_in);
    gram(in_gram, n_in, s);
    for (int64_t o = 0; o < p->b.n_row && finite; o += ROWS) {
        int n = (int)MIN(ROWS, p->b.n_row - o);
        for (int k = 0; k < n; k++)
            weight_row(base, p->row + o + k, s->w + k * n_in);
        for (int64_t j = 0; j < in_gram; j++)
            dots(s->a + j * n_in, s->w, n_in, s->wa + j * ROWS);
        for (int k = 0; k < n && finite; k++)
            finite = fill_row(p, o + k, k, n_in, s, v);
    }
    return finite;
}

static bool scratch_init(struct scratch *s, int64_t rank, int64_t n_in)
{
    size_t floats, in_gram = (size_t)MIN(rank, n_in);
    *s = (struct scratch){0};
    if (!num_add(rank, ROWS, &floats) || !num_mul(floats, (size_t)n_in, &floats) ||
        !num_add(floats, (size_t)rank, &floats))
        return false;
    s->a = calloc(floats, sizeof *s->a);
    s->wa = calloc(in_gram, ROWS * sizeof *s->wa);
    s->g = calloc(in_gram, in_gram * sizeof *s->g);
    s->d = calloc((size_t)n_in, sizeof *s->d);
    if (!s->a || !s->wa || !s->g || !s->d)
        return false;
    s->w = s->a + rank * n_in;
    s->b = s->w + ROWS * n_in;
    return true;
}

int adapter_dora_fill(const struct weight *base, const struct adapter_pair *pair, size_t n, float *v[4],
                      struct error *e)
{
    struct scratch s;
    int64_t        rank = 1;
    int            err = 0;
    for (size_t i = 0; i < n; i++)
        rank = MAX(rank, pair[i].a.n_row);
    if (!scratch_init(&s, rank, base->n_in))
        err = error_nomem(e, "DoRA's norms");
    for (int64_t o = 0; o < base->n_out; o++) {
        v[0][o] = v[1][o] = 1;
        v[2][o] = v[3][o] = 0;
    }
    for (size_t i = 0; i < n && !err; i++)
        if (!fill_pair(base, &pair[i], &s, v))
            err = error_set(e, ERR_MISFIT, pair[i].module->a->name,
                            "%s: the norms that DoRA needs of %s with this adapter are beyond float32",
                            pair[i].module->a->file, pair[i].module->name);
    free(s.a);
    free(s.wa);
    free(s.g);
    free(s.d);
    return err;
}
