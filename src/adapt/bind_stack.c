/* Which way round the pairs of PEFT's stacks are.
 *
 * A stack's parameter is [E, X, Y], of which some models have the inputs as X and most as Y. Since 0.19.1 A reads the inputs
 * and B makes the outputs, whatever the parameter's order is. Before, A always read X and B made Y (0.19.0 the other way
 * round where the inputs are X), so that for most models the two halves have changed places: delta is (B A)^T. What the
 * shapes leave open for all of a file's stacks, since they are square, its peft_version tells. */
#include "adapt/bind_int.h"

#define STRAIGHT_SINCE ADAPTER_PEFT_VERSION(0, 19, 1)

struct evidence {
    size_t straight, turned, square;
};

static bool is_stack(const struct adapter_module *m)
{
    return m->layout == ADAPTER_PEFT_STACK || m->layout == ADAPTER_PEFT_STACK_TURNED;
}

static void look_at(const struct adapter_module *m, const struct param_target *t, struct evidence *v)
{
    int64_t a = m->a->shape[1], b = m->b->shape[0];
    bool    straight = a == t->n_in && b == t->n_out, turned = a == t->n_out && b == t->n_in;
    v->square += straight && turned;
    v->straight += straight && !turned;
    v->turned += turned && !straight;
}

/* Whether a square stack's halves have changed places. Before 0.18 no version was written, and the models with stacks had their
 * inputs first. */
static bool by_version(const struct adapter_binder *b, const struct param_target *t)
{
    int64_t version = b->f->peft_version;
    if (!version || version >= STRAIGHT_SINCE)
        return false;
    return version >= ADAPTER_PEFT_VERSION(0, 19, 0) || !layout_is_transposed(&b->m->desc, t->segment->param);
}

void adapter_settle_stacks(struct adapter_binder *b)
{
    struct evidence     v = {0};
    struct param_target t;
    for (size_t i = 0; i < b->f->n_module; i++)
        if (is_stack(&b->f->module[i]) && adapter_resolve(b->m, b->f->module[i].name, &t))
            look_at(&b->f->module[i], &t, &v);
    for (size_t i = 0; i < b->f->n_module; i++) {
        struct adapter_module *m = &b->f->module[i];
        bool                   turned = v.turned > v.straight;
        if (!is_stack(m))
            continue;
        if (v.square && !v.turned && !v.straight && adapter_resolve(b->m, m->name, &t))
            turned = by_version(b, &t);
        m->layout = turned ? ADAPTER_PEFT_STACK_TURNED : ADAPTER_PEFT_STACK;
    }
}

bool adapter_stacks_need_model(const struct adapter_file *f)
{
    for (size_t i = 0; i < f->n_module; i++)
        if (is_stack(&f->module[i]))
            return f->peft_version && f->peft_version < STRAIGHT_SINCE;
    return false;
}
