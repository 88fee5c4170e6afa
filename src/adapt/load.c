/* Loading: the files are read, checked against the model, and turned into the table that operations use
 * (tensor/lora.h). Contracts in adapt.h. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapt/adapt_int.h"
#include "base/num.h"
#include "model/planes.h"

#define ARENA_MAX ((size_t)1 << 30) /* the table: bounded by the file's number of tensors and the model's of weights */

struct loader {
    struct adapter           *a;
    struct adapter_file      *file;
    struct adapter_binding    b;
    struct lora_pair         *pair;  /* [b.n_pair] */
    struct lora_dora         *dora;  /* [a->n_delta] */
    const struct lora_delta **table; /* a->lora.delta */
};

/* --- one weight --------------------------------------------------------------------------------------------------- */

/* What the binding has for one weight. */
struct change {
    const struct adapter_pair     *pair;
    const struct adapter_replaced *replaced;
    size_t                         n_pair, n_replaced;
    const struct weight           *weight;
};

/* The next weight that changes, behind the pairs and parameters that are done. False after the last. */
static bool next_change(const struct adapter_binding *b, size_t *pair, size_t *replaced, struct change *c)
{
    const struct adapter_pair     *p = *pair < b->n_pair ? &b->pair[*pair] : NULL;
    const struct adapter_replaced *r = *replaced < b->n_replaced ? &b->replaced[*replaced] : NULL;
    if (!p && !r)
        return false;
    *c = (struct change){p, r, 0, 0, p && (!r || p->weight->index <= r->weight->index) ? p->weight : r->weight};
    for (; *pair < b->n_pair && b->pair[*pair].weight == c->weight; ++*pair)
        c->n_pair++;
    for (; *replaced < b->n_replaced && b->replaced[*replaced].weight == c->weight; ++*replaced)
        c->n_replaced++;
    return true;
}

/* The weight that stands in the place of the model's, packed like it. planes: where lookups of it read; else NULL. */
static int replace(struct loader *l, const struct adapter_replaced *r, void *planes, struct lora_delta *d,
                   struct error *e)
{
    struct adapter *a = l->a;
    struct weight  *w = &a->replaced[a->n_replaced];
    *w = *r->weight;
    w->quant = (struct quant){0};
    w->dtype = r->dtype;
    w->data = r->data;
    w->scales = w->biases = NULL;
    w->packed = NULL;
    int err = a->backend ? a->backend->prepare(a->backend, w, r->param->uses, e)
                         : error_set(e, ERR_INTERNAL, r->name, "there is no backend to prepare %s", r->name);
    if (err)
        return err;
    a->info.bytes += a->backend->packed_size(a->backend, w, r->param->uses);
    a->n_replaced++;
    d->replace = w;
    if (planes)
        w->data = memcpy(planes, r->data, (size_t)(w->n_out * w->n_in) * dtype_size(w->dtype));
    return 0;
}

static int place_replaced(struct loader *l, const struct change *c, struct lora_delta *d, struct error *e)
{
    struct adapter_values *v = &l->a->values;
    int                    err = 0;
    for (size_t i = 0; i < c->n_replaced && !err; i++) {
        const struct adapter_replaced *r = &c->replaced[i];
        if (!r->bias) {
            void *planes = r->param->uses & WEIGHT_EMBED
                               ? adapter_values_take(v, r->weight->n_out, r->weight->n_in, dtype_size(r->dtype))
                               : NULL;
            err = v->p ? replace(l, r, planes, d, e) : 0;
            continue;
        }
        int64_t n = adapter_replaced_size(r);
        float  *bias = adapter_values_take(v, n, 1, sizeof *bias);
        if (bias)
            quant_widen(r->dtype, r->data, n, bias);
        d->bias = bias;
    }
    return err;
}

static int place_dora(struct loader *l, const struct change *c, struct lora_delta *d, struct lora_dora *dora,
                      struct error *e)
{
    float *v[4];
    if (!c->n_pair || !c->pair->magnitude.data)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(v); i++)
        v[i] = adapter_values_take(&l->a->values, c->weight->n_out, 1, sizeof *v[i]);
    *dora = (struct lora_dora){v[0], v[1], v[2], v[3]};
    d->dora = dora;
    if (!l->a->values.p)
        return 0;
    const struct param *p = c->pair->param;
    struct weight       base = {0};
    void               *memory = NULL;
    int                 err = d->replace ? 0 : planes_open(p, (int)(c->weight - p->weight), &base, &memory, e);
    if (!err)
        err = adapter_dora_fill(d->replace ? d->replace : &base, c->pair, c->n_pair, v, e);
    free(memory);
    return err;
}

/* Lays out all weights that change; without memory it only counts. */
static int place_all(struct loader *l, struct error *e)
{
    struct adapter *a = l->a;
    size_t          pair = 0, replaced = 0;
    struct change   c;
    int             err = 0;
    for (size_t n = 0; !err && next_change(&l->b, &pair, &replaced, &c); n++) {
        struct lora_delta *d = &a->delta[n];
        int64_t            rank = 0;
        *d = (struct lora_delta){.n_pair = (int)c.n_pair, .pair = &l->pair[pair - c.n_pair]};
        for (size_t i = 0; i < c.n_pair; i++) {
            adapter_place_pair(&a->values, &c.pair[i], &l->pair[pair - c.n_pair + i]);
            rank += c.pair[i].a.n_row;
            a->scale = MAX(a->scale, fabsf((float)c.pair[i].scale));
        }
        if (rank > INT_MAX)
            return error_set(e, ERR_LIMIT, c.weight->name, "the ranks of all pairs of %s are %" PRId64 " together",
                             c.weight->name, rank);
        a->lora.rank = MAX(a->lora.rank, (int)rank);
        a->weight[n] = c.weight;
        l->table[c.weight->index] = d;
        err = place_replaced(l, &c, d, e);
        if (!err)
            err = place_dora(l, &c, d, &l->dora[n], e);
        if (d->replace && !(c.replaced->param->uses & WEIGHT_EMBED))
            a->replaced[a->n_replaced - 1].data = NULL; /* the file's, which goes; what is packed is enough */
    }
    return err;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static int make_table(struct loader *l, const struct model *m, struct error *e)
{
    struct adapter *a = l->a;
    size_t          pair = 0, replaced = 0, weights = (size_t)m->params.n_weight;
    struct change   c;
    while (next_change(&l->b, &pair, &replaced, &c))
        a->n_delta++;
    l->pair = arena_calloc(&a->arena, l->b.n_pair + 1, sizeof *l->pair);
    l->dora = arena_calloc(&a->arena, a->n_delta + 1, sizeof *l->dora);
    a->delta = arena_calloc(&a->arena, a->n_delta + 1, sizeof *a->delta);
    a->weight = arena_calloc(&a->arena, a->n_delta + 1, sizeof *a->weight);
    a->replaced = arena_calloc(&a->arena, l->b.n_replaced + 1, sizeof *a->replaced);
    a->lora.n_weight = m->params.n_weight;
    a->lora.delta = l->table = arena_calloc(&a->arena, weights + 1, sizeof *l->table);
    if (!l->pair || !l->dora || !a->delta || !a->weight || !a->replaced || !a->lora.delta)
        return error_nomem(e, "the adapter");
    int    err = place_all(l, e); /* counts */
    size_t bytes = a->values.used;
    if (!err)
        err = adapter_values_alloc(&a->values, e);
    if (!err)
        err = place_all(l, e);
    a->info.bytes += bytes + a->arena.used + sizeof *a;
    return err;
}

static int fill_info(struct adapter *a, const struct adapter_file *f, struct error *e)
{
    struct adapter_info *i = &a->info;
    i->path = arena_strdup(&a->arena, f->path, strlen(f->path));
    if (!i->path)
        return error_nomem(e, "the adapter");
    i->format = adapter_format_name(f->format);
    i->kind = adapter_kind_name(f->kind);
    i->n_module = (int)f->n_module;
    for (size_t k = 0; k < f->n_module; k++) {
        int rank = (int)f->module[k].rank;
        i->rank_min = k ? MIN(i->rank_min, rank) : rank;
        i->rank_max = MAX(i->rank_max, rank);
    }
    for (size_t k = 0; k < checkpoint_count(f->tensors); k++)
        i->n_parameter += tensor_view_elements(checkpoint_at(f->tensors, k));
    memcpy(i->hash, f->hash, sizeof i->hash);
    return 0;
}

/* Reads and binds; every fault of both is in one report. */
static int open_and_bind(struct loader *l, const char *path, const struct model *m, const struct log *log,
                         struct error *e)
{
    struct faults faults = {0};
    int           err = adapter_file_read(&l->file, path, &faults, e);
    if (!err && l->file)
        err = adapter_bind(&l->b, l->file, m, &faults, e);
    if (!err)
        err = faults_report(&faults, e);
    if (!err)
        adapter_file_warn(l->file, log);
    faults_deinit(&faults);
    return err;
}

int adapter_load(struct adapter **out, const char *path, const struct model *m, struct backend *prepare,
                 const struct log *log, struct error *e)
{
    struct loader l = {.a = calloc(1, sizeof *l.a)};
    if (!l.a)
        return error_nomem(e, "the adapter");
    arena_init(&l.a->arena, ARENA_MAX);
    atomic_init(&l.a->refs, 1);
    l.a->backend = prepare;
    int err = open_and_bind(&l, path, m, log, e);
    if (!err)
        err = fill_info(l.a, l.file, e);
    if (!err)
        err = make_table(&l, m, e);
    adapter_binding_deinit(&l.b);
    adapter_file_free(l.file); /* all is copied */
    if (err)
        adapter_unref(l.a);
    else
        *out = l.a;
    return err;
}

void adapter_ref(struct adapter *a)
{
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
}

void adapter_unref(struct adapter *a)
{
    if (!a || atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < a->n_replaced; i++)
        a->backend->release(a->backend, &a->replaced[i]);
    adapter_values_free(&a->values);
    arena_deinit(&a->arena);
    free(a);
}

void adapter_get_info(const struct adapter *a, struct adapter_info *info)
{
    *info = a->info;
}

const struct lora *adapter_lora(const struct adapter *a)
{
    return &a->lora;
}
