/* DoRA's three vectors. For row o of W + s B A with w = W[o], d = (B A)[o] = sum over j of B[o][j] A[j]:
 *
 *     |w + s d|^2 = w.w + 2 s w.d + s^2 d.d      w.d = sum over j of B[o][j] (A[j].w)
 *                                                d.d = B[o] G B[o]^T, G = A A^T [rank, rank]
 *
 * so that B A itself is never made. Products are summed in float32 over short runs and in double over runs. The pair's
 * own scale is multiplied into w.d and d.d here, so lora_dora.scale is 1 and parts of one weight may differ in it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapt/adapt_int.h"
#include "base/num.h"

#define RUN 256 /* elements that are summed in float32 */

typedef float v4 __attribute__((vector_size(16)));

static double dot(const float *a, const float *b, int64_t n)
{
    double  sum = 0;
    int64_t i = 0;
    for (; i + 16 <= n;) {
        int64_t end = MIN(i + RUN, n - 15);
        v4      acc[4] = {0};
        for (; i < end; i += 16)
            for (int k = 0; k < 4; k++) {
                v4 x, y;
                memcpy(&x, a + i + 4 * k, sizeof x);
                memcpy(&y, b + i + 4 * k, sizeof y);
                acc[k] += x * y;
            }
        v4 all = (acc[0] + acc[1]) + (acc[2] + acc[3]);
        sum += ((double)all[0] + (double)all[1]) + ((double)all[2] + (double)all[3]);
    }
    for (; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

struct scratch {
    float  *a;     /* [rank][n_in] */
    float  *w, *b; /* [n_in], [rank] */
    double *g;     /* [rank][rank] */
};

static void gram(const struct adapter_pair *p, int64_t n_in, const struct scratch *s)
{
    int64_t r = p->a.n_row;
    for (int64_t j = 0; j < r; j++)
        adapter_matrix_row(&p->a, j, s->a + j * n_in);
    for (int64_t j = 0; j < r; j++)
        for (int64_t k = 0; k <= j; k++)
            s->g[j * r + k] = s->g[k * r + j] = dot(s->a + j * n_in, s->a + k * n_in, n_in);
}

static bool fill_pair(const struct weight *base, const struct adapter_pair *p, const struct scratch *s, float *m,
                      float *ww, float *wd, float *dd)
{
    int64_t r = p->a.n_row, n_in = base->n_in;
    gram(p, n_in, s);
    for (int64_t o = 0; o < p->b.n_row; o++) {
        double w2, wx = 0, d2 = 0;
        weight_row(base, p->row + o, s->w);
        adapter_matrix_row(&p->b, o, s->b);
        w2 = dot(s->w, s->w, n_in);
        for (int64_t j = 0; j < r; j++) {
            double g = 0;
            for (int64_t k = 0; k < r; k++)
                g += s->g[j * r + k] * (double)s->b[k];
            d2 += (double)s->b[j] * g;
            wx += (double)s->b[j] * dot(s->a + j * n_in, s->w, n_in);
        }
        if (w2 == 0 && d2 == 0) /* a row of zeros stays one, at any length */
            continue;
        m[o] = adapter_matrix_at(&p->magnitude, o, 0);
        ww[o] = (float)w2;
        wd[o] = (float)(p->scale * wx);
        dd[o] = (float)(p->scale * p->scale * MAX(d2, 0.0));
        if (!isfinite(ww[o]) || !isfinite(wd[o]) || !isfinite(dd[o]))
            return false;
    }
    return true;
}

int adapter_dora_fill(const struct weight *base, const struct adapter_pair *pair, size_t n, float *v[4],
                      struct error *e)
{
    int64_t        n_in = base->n_in, rank = 1;
    struct scratch s = {0};
    size_t         floats;
    int            err = 0;
    for (size_t i = 0; i < n; i++)
        rank = MAX(rank, pair[i].a.n_row);
    if (num_add(rank, 1, &floats) && num_mul(floats, (size_t)n_in, &floats) && num_add(floats, (size_t)rank, &floats))
        s.a = calloc(floats, sizeof *s.a);
    s.g = calloc((size_t)rank, (size_t)rank * sizeof *s.g);
    if (!s.a || !s.g)
        err = error_nomem(e, "DoRA's norms");
    s.w = s.a ? s.a + rank * n_in : NULL;
    s.b = s.w ? s.w + n_in : NULL;
    for (int64_t o = 0; o < base->n_out; o++) {
        v[0][o] = v[1][o] = 1;
        v[2][o] = v[3][o] = 0;
    }
    for (size_t i = 0; i < n && !err; i++)
        if (!fill_pair(base, &pair[i], &s, v[0] + pair[i].row, v[1] + pair[i].row, v[2] + pair[i].row,
                       v[3] + pair[i].row))
            err = error_set(e, ERR_MISFIT, pair[i].module->a->name,
                            "%s: the norms that DoRA needs of %s with this adapter are beyond float32",
                            pair[i].module->a->file, pair[i].module->name);
    free(s.a);
    free(s.g);
    return err;
}
