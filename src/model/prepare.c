/* From bound planes to weights that operations take: packing by the backend, biases as float32, source pages given back. */
#include "base/num.h"
#include "model/planes.h"

struct prepare {
    struct params             *p;
    struct backend            *backend;
    const struct param_change *change; /* NULL: none */
    struct pool               *pool;   /* of the change */
};

/* A bias, or those of a stack, is widened to float32 once, in the model's arena. */
static int prepare_bias(const struct prepare *k, const struct param *row, struct error *e)
{
    int64_t n = param_elements(row), n_stack = row->n_dim == 2 ? row->shape[0] : 1;
    float  *v = arena_calloc(k->p->arena, (size_t)n, sizeof *v);
    if (!v)
        return error_nomem(e, "the model's biases");
    for (int64_t i = 0; i < n_stack; i++) {
        planes_vector(row, (int)i, v + i * (n / n_stack));
        row->weight[i].bias = v + i * (n / n_stack);
    }
    return row->fused ? k->change->rows(k->change->ctx, row, 0, 1, row->dtype, v, e) : 0;
}

#define READ_AHEAD ((size_t)128 << 20) /* bytes of planes that the system reads while others are packed */

/* Puts planes in memory in the place of the weight's own where those are none or change; *n counts what is held. */
static int hold_planes(const struct prepare *k, const struct param *row, int i, int *n, struct error *e)
{
    struct weight planes;
    void         *memory;
    int           err = planes_open(row, i, &planes, &memory, e);
    *n = 0;
    if (!err && memory) {
        err = params_hold(k->p, &row->weight[i], &planes, memory, e);
        *n += !err;
    }
    if (!err && row->fused) {
        err = params_change_weight(k->p, k->change, row, i, k->pool, e);
        *n += !err;
    }
    return err;
}

static int prepare_weight(const struct prepare *k, const struct param *row, int i, struct error *e)
{
    struct weight *w = &row->weight[i];
    int            n_held, err = hold_planes(k, row, i, &n_held, e);
    if (!err)
        err = k->backend->prepare(k->backend, w, row->uses, e);
    for (; !err && n_held && w->packed && !(row->uses & WEIGHT_EMBED); n_held--) /* lookups read the plane */
        params_drop(k->p);
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
    for (int i = 0; row->role != ROLE_BIAS && i < param_stack(row) && !err; i++) {
        err = prepare_weight(k, row, i, e);
        planes_of_matrix(row, i, checkpoint_release);
    }
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
            planes_tensors(&k->p->v[next], checkpoint_prefetch);
            ahead += k->p->v[next].bytes;
        }
        if (row->bytes == 0) /* not bound */
            continue;
        int err = prepare_row(k, row, e);
        if (err)
            return err;
        planes_tensors(row, checkpoint_release);
        ahead -= row->bytes;
    }
    return 0;
}

int params_prepare(struct params *p, struct backend *backend, const struct param_change *change, struct error *e)
{
    struct prepare k = {p, backend, change, NULL};
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
