/* Changed planes: made from the weight's own by all threads, held as long as somebody reads them. */
#include "model/change.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/num.h"
#include "model/planes.h"

struct work {
    const struct param_change *change;
    const struct param        *p;
    const struct weight       *w;
    int64_t                    first; /* of the weight's rows among the parameter's */
    char                      *out;
    atomic_bool                failed;
    struct error               error; /* of the first member that failed */
};

static int make_rows(const struct work *k, int64_t lo, int64_t hi, float *values, struct error *e)
{
    const struct weight *w = k->w;
    size_t               row = (size_t)w->n_in * dtype_size(w->dtype);
    int                  err = 0;
    for (int64_t n; lo < hi && !err && !k->failed; lo += n) {
        n = MIN(hi - lo, (int64_t)CHANGE_ROWS);
        for (int64_t i = 0; i < n; i++)
            weight_row(w, lo + i, values + i * w->n_in);
        err = k->change->rows(k->change->ctx, k->p, k->first + lo, n, w->dtype, values, e);
        if (!err)
            quant_narrow(w->dtype, values, n * w->n_in, k->out + (size_t)lo * row);
    }
    return err;
}

static void member(void *arg, int i, int n)
{
    struct work *k = arg;
    struct error e = {0};
    long         lo, hi;
    pool_share((long)k->w->n_out, 1, i, n, &lo, &hi);
    if (lo == hi)
        return;
    float *values = malloc((size_t)MIN(hi - lo, CHANGE_ROWS) * (size_t)k->w->n_in * sizeof *values);
    int    err = values ? make_rows(k, lo, hi, values, &e) : error_nomem(&e, k->p->name);
    free(values);
    if (err && !atomic_exchange(&k->failed, true))
        k->error = e;
}

int params_change_weight(struct params *params, const struct param_change *change, const struct param *p, int k,
                         struct pool *pool, struct error *e)
{
    struct weight *w = &p->weight[k];
    size_t         size = (size_t)w->n_out * (size_t)w->n_in * dtype_size(w->dtype); /* stored so: no overflow */
    struct weight  changed = *w;
    char          *plane = malloc(MAX(size, (size_t)1));
    if (!plane)
        return error_nomem(e, "a fused weight");
    struct work work = {.change = change, .p = p, .w = w, .first = k * w->n_out, .out = plane};
    if (size)
        pool_run(pool, member, &work);
    if (work.failed) {
        free(plane);
        if (e)
            *e = work.error;
        return work.error.code;
    }
    changed.data = plane;
    return params_hold(params, w, &changed, plane, e);
}
