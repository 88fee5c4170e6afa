/* The binder: matches the parameter table with a checkpoint, tensor by tensor.
 *
 * A parameter X is stored as X.weight, and is quantized if and only if X.scales exists; then the planes alone decide the mode
 * (quant_from_planes). Needed but in no file: a fault. In a file but claimed by no row: a fault, unless the family ignores it.
 * All faults of the checkpoint go into one report.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "base/num.h"
#include "model/params.h"
#include "model/quant_config.h"

struct binder {
    struct params           *p;
    const struct model_desc *desc;
    struct checkpoint       *c;
    int                      lo, hi;
    const struct param     **by_name; /* [p->n] */
    struct faults            faults;
};

static int compare_rows(const void *a, const void *b)
{
    return strcmp((*(const struct param *const *)a)->name, (*(const struct param *const *)b)->name);
}

static const struct param *find_row(const struct binder *b, const char *name)
{
    struct param         key = {.name = name};
    const struct param  *k = &key;
    const struct param **hit = bsearch(&k, b->by_name, b->p->n, sizeof *b->by_name, compare_rows);
    return hit ? *hit : NULL;
}

static bool in_range(const struct binder *b, const struct param *p)
{
    if (p->layer < 0) /* the embedding also serves as a tied head */
        return b->lo == 0 || (b->hi == b->desc->n_layer && p->role == ROLE_EMBED);
    if (p->layer == b->desc->n_layer)
        return b->hi == b->desc->n_layer;
    return p->layer >= b->lo && p->layer < b->hi;
}

static const struct tensor_view *plane(const struct binder *b, const struct param *p, const char *suffix)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", p->name, suffix);
    return checkpoint_find(b->c, name);
}

static void misfit(struct binder *b, const struct param *p, const struct tensor_view *t)
{
    char found[TENSOR_SHAPE_TEXT], need[TENSOR_SHAPE_TEXT];
    faults_add(&b->faults, ERR_MISFIT, t->name, "%s: %s is %s %s, needed F32, F16 or BF16 %s (%s of config.json)",
               t->file, t->name, dtype_name(t->dtype), tensor_view_shape_text(t, found),
               tensor_shape_text(p->shape, p->n_dim, need), p->why);
}

static bool fits_dense(const struct param *p, const struct tensor_view *t)
{
    if (!dtype_is_float16_32(t->dtype) || t->n_dim != p->n_dim)
        return false;
    for (int i = 0; i < p->n_dim; i++)
        if (t->shape[i] != p->shape[i])
            return false;
    return true;
}

static void missing(struct binder *b, const struct param *p, const char *suffix)
{
    char need[TENSOR_SHAPE_TEXT], name[512];
    snprintf(name, sizeof name, "%s%s", p->name, suffix);
    faults_add(&b->faults, ERR_MISFIT, name, "%s is in no file, needed with shape %s (%s of config.json)", name,
               tensor_shape_text(p->shape, p->n_dim, need), p->why);
}

static void bind_quantized(struct binder *b, struct param *p, const struct tensor_view *w, const struct tensor_view *s)
{
    const struct tensor_view *z = plane(b, p, ".biases");
    struct weight            *dst = p->weight;
    char                      found[TENSOR_SHAPE_TEXT];
    if (p->n_dim != 2) {
        faults_add(&b->faults, ERR_MISFIT, s->name, "%s: %s makes a vector quantized; %s has one dimension", s->file,
                   s->name, p->name);
        return;
    }
    if (quant_from_planes(&p->quant, w, s, z, p->shape[1], &b->faults))
        return;
    if (w->n_dim != 2 || w->shape[0] != p->shape[0]) {
        faults_add(&b->faults, ERR_MISFIT, w->name, "%s: %s is %s %s, needed %lld rows (%s of config.json)", w->file,
                   w->name, dtype_name(w->dtype), tensor_view_shape_text(w, found), (long long)p->shape[0], p->why);
        return;
    }
    dst->quant = p->quant;
    dst->data = w->data;
    dst->scales = s->data;
    dst->biases = z ? z->data : NULL;
    p->dtype = w->dtype;
    p->bytes = w->size + s->size + (z ? z->size : 0);
}

/* The scales of Hugging Face's FP8 weights. */
#define FP8_SCALES ".weight_scale_inv"
#define FP8_TILE 128

static void bind_fp8(struct binder *b, struct param *p, const struct tensor_view *w)
{
    const struct tensor_view *s = plane(b, p, FP8_SCALES);
    char                      found[TENSOR_SHAPE_TEXT], shape[TENSOR_SHAPE_TEXT], need[TENSOR_SHAPE_TEXT];
    int64_t tiles[2] = {(p->shape[0] + FP8_TILE - 1) / FP8_TILE, (p->shape[1] + FP8_TILE - 1) / FP8_TILE};
    if (p->n_dim != 2 || w->n_dim != 2 || w->shape[0] != p->shape[0] || w->shape[1] != p->shape[1]) {
        misfit(b, p, w);
        return;
    }
    if (!s || !dtype_is_float16_32(s->dtype) || s->n_dim != 2 || s->shape[0] != tiles[0] || s->shape[1] != tiles[1]) {
        faults_add(&b->faults, ERR_MISFIT, w->name, "%s: %s is F8_E4M3 %s with %s%s%s%s, needed F32, F16 or BF16 %s",
                   w->file, w->name, tensor_view_shape_text(w, found), s ? s->name : "no " FP8_SCALES " beside it",
                   s ? " " : "", s ? dtype_name(s->dtype) : "", s ? tensor_view_shape_text(s, shape) : "",
                   tensor_shape_text(tiles, 2, need));
        return;
    }
    p->quant = p->weight->quant = (struct quant){QUANT_FP8, 8, FP8_TILE, s->dtype};
    p->weight->data = w->data;
    p->weight->scales = s->data;
    p->dtype = w->dtype;
    p->bytes = w->size + s->size;
}

static void bind_weight(struct binder *b, struct param *p)
{
    const struct tensor_view *w = plane(b, p, ".weight"), *s = plane(b, p, ".scales"), *z;
    if (!w) {
        missing(b, p, ".weight");
        return;
    }
    if (s) {
        bind_quantized(b, p, w, s);
        return;
    }
    z = plane(b, p, ".biases");
    if (z) {
        faults_add(&b->faults, ERR_MISFIT, z->name, "%s: %s has no %s.scales beside it", z->file, z->name, p->name);
        return;
    }
    if (w->dtype == DTYPE_F8_E4M3) {
        bind_fp8(b, p, w);
        return;
    }
    if (!fits_dense(p, w)) {
        misfit(b, p, w);
        return;
    }
    p->dtype = p->weight->dtype = w->dtype;
    p->weight->data = w->data;
    p->bytes = w->size;
}

/* A bias is widened to float32 once, in the model's arena. */
static void bind_bias(struct binder *b, struct param *p)
{
    const struct tensor_view *t = checkpoint_find(b->c, p->name);
    if (!t) {
        missing(b, p, "");
        return;
    }
    if (!fits_dense(p, t)) {
        misfit(b, p, t);
        return;
    }
    float *v = arena_calloc(b->p->arena, (size_t)p->shape[0], sizeof *v);
    if (!v) {
        b->p->failed = true;
        return;
    }
    for (int64_t i = 0; i < p->shape[0]; i++)
        v[i] = dtype_load(t->dtype, t->data, i);
    p->weight->bias = v;
    p->dtype = t->dtype;
    p->bytes = t->size;
}

static bool claimed(const struct binder *b, const char *name)
{
    static const char *const suffixes[] = {".weight", ".scales", ".biases", FP8_SCALES};
    char                     base[512];
    const struct param      *p = find_row(b, name);
    if (p && p->role == ROLE_BIAS)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        size_t n = strlen(name), k = strlen(suffixes[i]);
        if (n <= k || n - k >= sizeof base || strcmp(name + n - k, suffixes[i]))
            continue;
        memcpy(base, name, n - k);
        base[n - k] = '\0';
        p = find_row(b, base);
        if (p && p->role != ROLE_BIAS)
            return true;
    }
    for (const char *const *g = b->desc->ignore; g && *g; g++)
        if (glob_match(*g, name))
            return true;
    return false;
}

static void find_unclaimed(struct binder *b)
{
    char shape[TENSOR_SHAPE_TEXT];
    for (size_t i = 0; i < checkpoint_count(b->c); i++) {
        const struct tensor_view *t = checkpoint_at(b->c, i);
        if (!claimed(b, t->name))
            faults_add(&b->faults, ERR_MISFIT, t->name,
                       "%s: %s (%s %s) is not a parameter of the %s model that config.json describes", t->file, t->name,
                       dtype_name(t->dtype), tensor_view_shape_text(t, shape), b->desc->model_type);
    }
}

int params_bind(struct params *p, const struct model_desc *m, struct checkpoint *c, struct config *config, int lo,
                int hi, const struct log *log, struct error *e)
{
    struct binder b = {.p = p, .desc = m, .c = c, .lo = lo, .hi = hi};
    int           err = quant_config_check(config, e);
    if (err)
        return err;
    b.by_name = calloc(p->n, sizeof *b.by_name);
    if (!b.by_name)
        return error_nomem(e, "the parameter table");
    for (size_t i = 0; i < p->n; i++)
        b.by_name[i] = &p->v[i];
    qsort(b.by_name, p->n, sizeof *b.by_name, compare_rows);
    for (size_t i = 0; i < p->n; i++) {
        struct param *row = &p->v[i];
        if (in_range(&b, row))
            (row->role == ROLE_BIAS ? bind_bias : bind_weight)(&b, row);
    }
    find_unclaimed(&b);
    err = faults_report(&b.faults, e);
    if (!err && p->failed)
        err = error_nomem(e, "the model's biases");
    if (!err) {
        quant_config_compare(config, p, log);
        err = config_report(config, e); /* a field of `quantization` of the wrong type */
    }
    faults_deinit(&b.faults);
    free(b.by_name);
    return err;
}

static unsigned uses_of(const struct params *p, const struct param *row)
{
    switch (row->role) {
    case ROLE_EMBED: /* without a head of its own the embedding is the head, too */
        return params_find(p, "lm_head") ? WEIGHT_EMBED : WEIGHT_EMBED | WEIGHT_LINEAR;
    case ROLE_NORM:
        return WEIGHT_VECTOR;
    default:
        return WEIGHT_LINEAR;
    }
}

/* Points at aligned data (a copy where the file is not aligned), prepares, and gives the pages back. */
static int prepare_row(const struct params *p, const struct param *row, struct checkpoint *c, struct backend *backend,
                       struct error *e)
{
    struct weight    *w = row->weight;
    const char *const suffix[] = {".weight", w->quant.mode == QUANT_FP8 ? FP8_SCALES : ".scales", ".biases"};
    const void      **slot[] = {&w->data, &w->scales, &w->biases};
    unsigned          uses = uses_of(p, row);
    char              name[512];
    int               err = 0;
    for (int i = 0; i < 3 && !err; i++) {
        if (!*slot[i])
            continue;
        snprintf(name, sizeof name, "%s%s", row->name, suffix[i]);
        *slot[i] = checkpoint_data(c, checkpoint_find(c, name), e);
        err = *slot[i] ? 0 : ERR_NOMEM;
    }
    if (!err)
        err = backend->prepare(backend, w, uses, e);
    for (int i = 0; i < 3 && !err; i++) {
        snprintf(name, sizeof name, "%s%s", row->name, suffix[i]);
        const struct tensor_view *t = *slot[i] ? checkpoint_find(c, name) : NULL;
        if (t && (!(uses & WEIGHT_EMBED) || *slot[i] == t->data))
            checkpoint_release(c, t); /* an embedding keeps its copy: rows are read from it */
    }
    return err;
}

int params_prepare(struct params *p, struct checkpoint *c, struct backend *backend, struct error *e)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct param *row = &p->v[i];
        if (row->role == ROLE_BIAS || !row->weight->data)
            continue;
        int err = prepare_row(p, row, c, backend, e);
        if (err)
            return err;
    }
    return 0;
}
