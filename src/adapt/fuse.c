/* Fused adapters, from their paths to what changes about which parameter; contracts in fuse.h. */
#include "adapt/fuse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapt/fuse_int.h"
#include "base/vec.h"

/* --- what cannot be fused --------------------------------------------------------------------------------------- */

static void refuse_quantized(const struct fuse *f, const struct param *p, struct faults *faults)
{
    char                text[QUANT_TEXT];
    const struct quant *stored = &p->source.quant; /* what is in use may be decoded */
    if (param_is_matrix(p) && stored->mode != QUANT_NONE && !f->o.decode)
        faults_add(faults, ERR_UNSUPPORTED, p->name, "%s is quantized (%s): run the adapter beside it with --lora%s",
                   p->name, quant_text(stored, text), f->o.remedy ? f->o.remedy : "");
}

static void refuse_half(const struct adapter_pair *pair, struct faults *faults)
{
    if (pair->uses != pair->param->uses)
        faults_add(faults, ERR_UNSUPPORTED, pair->module->spelled,
                   "%s changes %s only as the %s, but the matrix is also the %s: run the adapter beside it with --lora",
                   pair->module->spelled, pair->param->name, pair->uses & WEIGHT_EMBED ? "embedding" : "head",
                   pair->uses & WEIGHT_EMBED ? "head" : "embedding");
}

/* The first term of another adapter behind term i that is its rival. */
static const struct fuse_term *find_rival(const struct fuse *f, size_t i)
{
    const struct fuse_term *a = &f->term[i];
    for (const struct fuse_term *b = a + 1; b < f->term + f->n_term && b->param == a->param && b->kind <= FUSE_DORA;
         b++)
        if (a->adapter != b->adapter &&
            (a->kind != b->kind || (a->first < b->first + b->n && b->first < a->first + a->n)))
            return b;
    return NULL;
}

/* Two adapters that cannot both have the last word about a parameter: as at run time, also one with DoRA for what
 * another replaces, since its norms are the base's. Terms are sorted. */
static void refuse_rivals(const struct fuse *f, struct faults *faults)
{
    for (size_t i = 0; i < f->n_term; i++) {
        const struct fuse_term *a = &f->term[i], *b = find_rival(f, i);
        if (b)
            faults_add(faults, ERR_INVALID, a->param->name, "%s: %s and %s %s it; one of them at most can be fused",
                       a->param->name, f->source[a->adapter].file->path, f->source[b->adapter].file->path,
                       a->kind == FUSE_DORA   ? "both have DoRA for"
                       : b->kind == FUSE_DORA ? "replaces, and has DoRA for,"
                                              : "both replace");
    }
}

/* --- terms ------------------------------------------------------------------------------------------------------ */

static int add_term(struct fuse *f, struct fuse_term t, struct error *e)
{
    struct fuse_term *v = vec_room(f->term, f->n_term, &f->cap_term, sizeof *v);
    if (!v)
        return error_nomem(e, "the adapter's terms");
    f->term = v;
    f->term[f->n_term++] = t;
    return 0;
}

/* The row of the table that holds the biases of p's weights. */
static const struct param *bias_of(const struct model *m, const struct param *p)
{
    for (size_t i = 0; i < m->params.n; i++) {
        const struct param *b = &m->params.v[i];
        if (b->role == ROLE_BIAS && b->weight == p->weight && b->bytes)
            return b;
    }
    return NULL;
}

static int add_extra(struct fuse *f, const struct model *m, struct fuse_term t, struct faults *faults, struct error *e)
{
    const struct param *bias = bias_of(m, t.param);
    if (!bias) {
        faults_add(faults, ERR_UNSUPPORTED, t.pair->module->spelled,
                   "%s brings a bias, but %s has none that it could be added to: run the adapter with --lora",
                   t.pair->module->spelled, t.param->name);
        return 0;
    }
    t.param = bias;
    t.kind = FUSE_EXTRA;
    return add_term(f, t, e);
}

static int add_pair(struct fuse *f, const struct model *m, size_t i, const struct adapter_pair *pair,
                    struct faults *faults, struct error *e)
{
    struct fuse_term t = {.param = pair->param,
                          .kind = pair->magnitude.data ? FUSE_DORA : FUSE_PAIR,
                          .adapter = i,
                          .scale = (float)(pair->scale * (double)f->source[i].scale),
                          .pair = pair,
                          .first = (pair->weight - pair->param->weight) * pair->weight->n_out + pair->row,
                          .n = pair->b.n_row};
    if (!isfinite(t.scale))
        faults_add(faults, ERR_INVALID, pair->module->spelled, "%s: the scale of %s is %g, beyond float32",
                   f->source[i].file->path, pair->module->spelled, (double)t.scale);
    refuse_quantized(f, pair->param, faults);
    refuse_half(pair, faults);
    int err = add_term(f, t, e);
    return err || !pair->extra.data ? err : add_extra(f, m, t, faults, e);
}

static int add_replaced(struct fuse *f, size_t i, const struct adapter_replaced *r, struct faults *faults,
                        struct error *e)
{
    struct fuse_term t = {.param = r->param, .kind = FUSE_REPLACE, .adapter = i, .replaced = r};
    t.n = adapter_replaced_size(r);
    t.first = (r->weight - r->param->weight) * t.n;
    refuse_quantized(f, r->param, faults);
    return add_term(f, t, e);
}

static int term_order(const void *a, const void *b)
{
    const struct fuse_term *x = a, *y = b;
    if (x->param != y->param)
        return x->param < y->param ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->adapter != y->adapter)
        return x->adapter < y->adapter ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* What is wrong with one of several adapters, whose files have the same names, is told behind its path. */
static int take_faults(const char *path, struct faults *own, struct faults *all, struct error *e)
{
    struct error fault = {0};
    int          err = faults_report(own, &fault);
    faults_deinit(own);
    if (err == ERR_NOMEM)
        return error_nomem(e, "the list of faults");
    if (err)
        faults_add(all, err, path, "%s: %s", path, fault.msg);
    return 0;
}

static int bind(struct fuse *f, const struct model *m, size_t i, struct faults *faults, struct error *e)
{
    struct fuse_source           *s = &f->source[i];
    const struct adapter_binding *b = &s->binding;
    struct faults                 own = {0};
    int                           err = adapter_bind(&s->binding, s->file, m, f->o.n > 1 ? &own : faults, e);
    if (!err)
        err = take_faults(s->file->path, &own, faults, e);
    faults_deinit(&own);
    adapter_file_warn(s->file, f->o.log);
    for (size_t k = 0; k < b->n_pair && !err && s->scale != 0; k++)
        err = add_pair(f, m, i, &b->pair[k], faults, e);
    for (size_t k = 0; k < b->n_replaced && !err && s->scale != 0; k++)
        err = add_replaced(f, i, &b->replaced[k], faults, e);
    return err;
}

/* --- the change ------------------------------------------------------------------------------------------------- */

static int source_order(const void *a, const void *b)
{
    const struct fuse_source *x = a, *y = b;
    return adapter_order(x->file->hash, x->scale, y->file->hash, y->scale);
}

/* Reading has touched every page of the tensors, to check and to hash them. */
static void release(const struct adapter_file *f)
{
    for (size_t i = 0; f && f->tensors && i < checkpoint_count(f->tensors); i++)
        checkpoint_release(checkpoint_at(f->tensors, i));
}

/* Opens the files and puts the adapters into the order that counts, if all of them can be. */
static int open_files(struct fuse *f, struct faults *faults, struct error *e)
{
    bool all = true;
    for (size_t i = 0; i < f->o.n; i++) {
        struct fuse_source *s = &f->source[i];
        struct faults       own = {0}, *to = f->o.n > 1 ? &own : faults;
        int                 err = adapter_file_open(&s->file, f->o.adapter[i].path, to, e);
        s->scale = (float)f->o.adapter[i].scale;
        s->good = !err && s->file && !to->n && !to->nomem;
        all = all && s->good;
        if (!err)
            err = take_faults(f->o.adapter[i].path, &own, faults, e);
        faults_deinit(&own);
        if (err)
            return err;
        release(s->file);
    }
    if (all)
        qsort(f->source, f->o.n, sizeof *f->source, source_order);
    return 0;
}

static int begin(void *ctx, const struct model *m, struct error *e)
{
    struct fuse  *f = ctx;
    struct faults faults = {0};
    int           err = open_files(f, &faults, e);
    for (size_t i = 0; i < f->o.n && !err; i++)
        if (f->source[i].good)
            err = bind(f, m, i, &faults, e);
    if (f->n_term)
        qsort(f->term, f->n_term, sizeof *f->term, term_order);
    refuse_rivals(f, &faults);
    if (!err)
        err = faults_report(&faults, e);
    faults_deinit(&faults);
    return err;
}

static bool touches(const void *ctx, const struct param *p)
{
    size_t n;
    return fuse_terms(ctx, p, &n) != NULL;
}

int fuse_new(struct fuse **out, const struct fuse_options *o, struct error *e)
{
    struct fuse *f = calloc(1, sizeof *f);
    if (!f)
        return error_nomem(e, "fused adapters");
    f->source = calloc(o->n + 1, sizeof *f->source);
    if (!f->source) {
        free(f);
        return error_nomem(e, "fused adapters");
    }
    f->o = *o;
    f->change = (struct param_change){f, o->threads, begin, touches, fuse_open, fuse_close, fuse_rows};
    *out = f;
    return 0;
}

const struct param_change *fuse_change(const struct fuse *f)
{
    return &f->change;
}

void fuse_free(struct fuse *f)
{
    if (!f)
        return;
    fuse_close(f);
    for (size_t i = 0; i < f->o.n; i++) {
        adapter_binding_deinit(&f->source[i].binding);
        adapter_file_free(f->source[i].file);
    }
    free(f->source);
    free(f->term);
    free(f);
}
