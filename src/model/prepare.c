/* From bound planes to weights that operations take: packing by the backend, biases as float32, source pages given back. */
#include <stdio.h>

#include "base/num.h"
#include "model/params.h"

struct prepare {
    struct params             *p;
    struct checkpoint         *c;
    struct backend            *backend;
    const struct param_change *change; /* NULL: none */
    struct pool               *pool;   /* of the change */
};

/* A bias, or those of a stack, is widened to float32 once, in the model's arena. */
static int prepare_bias(const struct prepare *k, const struct param *row, struct error *e)
{
    const struct tensor_view *t = checkpoint_find(k->c, row->name);
    int64_t                   n = param_elements(row), n_stack = row->n_dim == 2 ? row->shape[0] : 1;
    float                    *v = arena_calloc(k->p->arena, (size_t)n, sizeof *v);
    if (!v)
        return error_nomem(e, "the model's biases");
    quant_widen(t->dtype, t->data, n, v);
    for (int64_t i = 0; i < n_stack; i++)
        row->weight[i].bias = v + i * (n / n_stack);
    return row->fused ? k->change->rows(k->change->ctx, row, 0, 1, t->dtype, v, e) : 0;
}

#define READ_AHEAD ((size_t)128 << 20) /* bytes of planes that the system reads while others are packed */

/* Calls f for every plane of a weight that is bound. */
static void for_planes(const struct param *row, struct checkpoint *c, void (*f)(const struct tensor_view *t))
{
    const char *const suffix[] = {row->suffix, row->weight->quant.mode == QUANT_FP8 ? PLANE_FP8_SCALES : ".scales",
                                  ".biases"};
    char              name[512];
    for (size_t i = 0; i < ARRAY_LEN(suffix) && row->bytes; i++) {
        snprintf(name, sizeof name, "%s%s", row->name, suffix[i]);
        const struct tensor_view *t = checkpoint_find(c, name);
        if (t)
            f(t);
    }
}

static int prepare_weight(const struct prepare *k, const struct param *row, int i, struct error *e)
{
    struct weight *w = &row->weight[i];
    int            err = row->fused ? params_change_weight(k->p, k->change, row, i, k->pool, e) : 0;
    if (!err)
        err = k->backend->prepare(k->backend, w, row->uses, e);
    if (!err && row->fused && w->packed && !(row->uses & WEIGHT_EMBED)) /* lookups read the plane */
        params_drop_changed(k->p);
    return err;
}

static int prepare_row(const struct prepare *k, struct param *row, struct error *e)
{
    int err = 0;
    row->fused = k->change && k->change->touches(k->change->ctx, row);
    if (row->fused)
        err = k->change->open(k->change->ctx, row, e);
    if (!err && row->role == ROLE_BIAS)
        err = prepare_bias(k, row, e);
    for (int i = 0; row->role != ROLE_BIAS && i < param_stack(row) && !err; i++)
        err = prepare_weight(k, row, i, e);
    if (row->fused)
        k->change->close(k->change->ctx);
    return err;
}

static int prepare_rows(const struct prepare *k, struct error *e)
{
    size_t next = 0, ahead = 0; /* rows before `next` are being read, `ahead` bytes of them not yet prepared */
    for (size_t i = 0; i < k->p->n; i++) {
        struct param *row = &k->p->v[i];
        for (; next < k->p->n && ahead < READ_AHEAD; next++) {
            for_planes(&k->p->v[next], k->c, checkpoint_prefetch);
            ahead += k->p->v[next].bytes;
        }
        if (row->bytes == 0) /* not bound */
            continue;
        int err = prepare_row(k, row, e);
        if (err)
            return err;
        for_planes(row, k->c, checkpoint_release);
        ahead -= row->bytes;
    }
    return 0;
}

int params_prepare(struct params *p, struct checkpoint *c, struct backend *backend, const struct param_change *change,
                   struct error *e)
{
    struct prepare k = {p, c, backend, change, NULL};
    int            err = change ? pool_new(&k.pool, change->threads ? change->threads : pool_default_size(), e) : 0;
    if (!err)
        err = prepare_rows(&k, e);
    pool_free(k.pool);
    return err;
}

void params_release(struct params *p, struct backend *backend)
{
    for (size_t i = 0; i < p->n; i++)
        for (int k = 0; p->v[i].role != ROLE_BIAS && k < param_stack(&p->v[i]); k++)
            backend->release(backend, &p->v[i].weight[k]);
}
