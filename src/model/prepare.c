/* From bound planes to weights that operations take: packing by the backend, biases as float32, source pages given back. */
#include <stdio.h>

#include "base/num.h"
#include "model/params.h"

/* A bias, or those of a stack, is widened to float32 once, in the model's arena. */
static int prepare_bias(const struct params *p, const struct param *row, const struct checkpoint *c, struct error *e)
{
    const struct tensor_view *t = checkpoint_find(c, row->name);
    int64_t                   n = param_elements(row), n_stack = row->n_dim == 2 ? row->shape[0] : 1;
    float                    *v = arena_calloc(p->arena, (size_t)n, sizeof *v);
    if (!v)
        return error_nomem(e, "the model's biases");
    quant_widen(t->dtype, t->data, n, v);
    for (int64_t i = 0; i < n_stack; i++)
        row->weight[i].bias = v + i * (n / n_stack);
    return 0;
}

#define READ_AHEAD ((size_t)128 << 20) /* bytes of planes that the system reads while others are packed */

/* Calls f for every plane of a weight that is bound. */
static void for_planes(const struct param *row, struct checkpoint *c, void (*f)(const struct tensor_view *t))
{
    const char *const suffix[] = {".weight", row->weight->quant.mode == QUANT_FP8 ? PLANE_FP8_SCALES : ".scales",
                                  ".biases"};
    char              name[512];
    for (size_t i = 0; i < ARRAY_LEN(suffix) && row->bytes; i++) {
        snprintf(name, sizeof name, "%s%s", row->name, suffix[i]);
        const struct tensor_view *t = checkpoint_find(c, name);
        if (t)
            f(t);
    }
}

static int prepare_weights(const struct param *row, struct backend *backend, struct error *e)
{
    int err = 0;
    for (int i = 0; i < param_stack(row) && !err; i++)
        err = backend->prepare(backend, &row->weight[i], row->uses, e);
    return err;
}

int params_prepare(struct params *p, struct checkpoint *c, struct backend *backend, struct error *e)
{
    size_t next = 0, ahead = 0; /* rows before `next` are being read, `ahead` bytes of them not yet prepared */
    for (size_t i = 0; i < p->n; i++) {
        const struct param *row = &p->v[i];
        for (; next < p->n && ahead < READ_AHEAD; next++) {
            for_planes(&p->v[next], c, checkpoint_prefetch);
            ahead += p->v[next].bytes;
        }
        if (row->bytes == 0) /* not bound */
            continue;
        int err = row->role == ROLE_BIAS ? prepare_bias(p, row, c, e) : prepare_weights(row, backend, e);
        if (err)
            return err;
        for_planes(row, c, checkpoint_release);
        ahead -= row->bytes;
    }
    return 0;
}

void params_release(struct params *p, struct backend *backend)
{
    for (size_t i = 0; i < p->n; i++)
        for (int k = 0; p->v[i].role != ROLE_BIAS && k < param_stack(&p->v[i]); k++)
            backend->release(backend, &p->v[i].weight[k]);
}
