/* The binder: matches the parameter table with a checkpoint, tensor by tensor.
 *
 * A parameter X is stored as X.weight, and is quantized if and only if X.scales exists; then the planes alone decide the mode
 * (quant_from_planes). Needed but in no file: a fault. In a file but claimed by no row: a fault, unless the family ignores it.
 * All faults of the checkpoint go into one report. When a file could not be read, what is missing may be there: then only
 * what is wrong whatever it holds is a fault.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "base/num.h"
#include "model/params.h"

struct binder {
    struct params           *p;
    const struct model_desc *desc;
    struct checkpoint       *c;
    int                      lo, hi;
    const struct param     **by_name; /* [p->n] */
    bool                     whole;   /* all files could be read */
    size_t                   n_missing;
    struct faults           *faults;
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
    bool codes = t->dtype == DTYPE_U32 && p->n_dim == 2;
    faults_add(b->faults, ERR_MISFIT, t->name, "%s: %s is %s %s%s, needed F32, F16 or BF16 %s%s (%s of config.json)",
               t->file, t->name, dtype_name(t->dtype), tensor_view_shape_text(t, found),
               codes ? " without a scales plane" : "", tensor_shape_text(p->shape, p->n_dim, need),
               codes ? " or also scales" : "", p->why);
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
    if (!b->whole)
        return;
    b->n_missing++;
    snprintf(name, sizeof name, "%s%s", p->name, suffix);
    faults_add(b->faults, ERR_MISFIT, name, "%s is in no file, needed with shape %s (%s of config.json)", name,
               tensor_shape_text(p->shape, p->n_dim, need), p->why);
}

/* A plane beside X.weight that does not go with it. */
static void lone_plane(struct binder *b, const struct tensor_view *t, const struct tensor_view *w, const char *needed)
{
    char found[TENSOR_SHAPE_TEXT], shape[TENSOR_SHAPE_TEXT];
    faults_add(b->faults, ERR_MISFIT, t->name, "%s: %s is %s %s beside %s %s %s, needed %s", t->file, t->name,
               dtype_name(t->dtype), tensor_view_shape_text(t, found), w->name, dtype_name(w->dtype),
               tensor_view_shape_text(w, shape), needed);
}

static void bind_quantized(struct binder *b, struct param *p, const struct tensor_view *w, const struct tensor_view *s)
{
    const struct tensor_view *z = plane(b, p, ".biases");
    struct weight            *dst = p->weight;
    char                      found[TENSOR_SHAPE_TEXT];
    if (p->n_dim != 2) {
        lone_plane(b, s, w, "none, since a vector is never quantized");
        return;
    }
    if (!z && !b->whole && s->dtype != DTYPE_U8)
        return; /* the biases may be in a file that could not be read */
    if (quant_from_planes(&p->quant, w, s, z, p->shape[1], b->faults))
        return;
    if (w->n_dim != 2 || w->shape[0] != p->shape[0]) {
        faults_add(b->faults, ERR_MISFIT, w->name, "%s: %s is %s %s, needed %lld rows (%s of config.json)", w->file,
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

static void bind_fp8(struct binder *b, struct param *p, const struct tensor_view *w)
{
    const struct tensor_view *s = plane(b, p, FP8_SCALES);
    char                      found[TENSOR_SHAPE_TEXT], shape[TENSOR_SHAPE_TEXT], need[TENSOR_SHAPE_TEXT];
    int64_t                   tiles[2] = {(p->shape[0] + QUANT_FP8_TILE - 1) / QUANT_FP8_TILE,
                                          (p->shape[1] + QUANT_FP8_TILE - 1) / QUANT_FP8_TILE};
    if (p->n_dim != 2 || w->n_dim != 2 || w->shape[0] != p->shape[0] || w->shape[1] != p->shape[1]) {
        misfit(b, p, w);
        return;
    }
    if (!s && !b->whole)
        return;
    if (!s) {
        faults_add(b->faults, ERR_MISFIT, w->name, "%s: %s is F8_E4M3 %s without %s%s, needed F32, F16 or BF16 %s",
                   w->file, w->name, tensor_view_shape_text(w, found), p->name, FP8_SCALES,
                   tensor_shape_text(tiles, 2, need));
        return;
    }
    if (!dtype_is_float16_32(s->dtype) || s->n_dim != 2 || s->shape[0] != tiles[0] || s->shape[1] != tiles[1]) {
        faults_add(b->faults, ERR_MISFIT, s->name, "%s: %s is %s %s beside %s F8_E4M3 %s, needed F32, F16 or BF16 %s",
                   s->file, s->name, dtype_name(s->dtype), tensor_view_shape_text(s, shape), w->name,
                   tensor_view_shape_text(w, found), tensor_shape_text(tiles, 2, need));
        return;
    }
    p->quant = p->weight->quant = (struct quant){QUANT_FP8, 8, QUANT_FP8_TILE, s->dtype};
    p->weight->data = w->data;
    p->weight->scales = s->data;
    p->dtype = w->dtype;
    p->bytes = w->size + s->size;
}

static void bind_dense(struct binder *b, struct param *p, const struct tensor_view *w)
{
    if (!fits_dense(p, w)) {
        misfit(b, p, w);
        return;
    }
    p->dtype = p->weight->dtype = w->dtype;
    p->weight->data = w->data;
    p->bytes = w->size;
}

static void bind_weight(struct binder *b, struct param *p)
{
    const struct tensor_view *w = plane(b, p, ".weight"), *s = plane(b, p, ".scales"), *z = plane(b, p, ".biases");
    const struct tensor_view *inv = plane(b, p, FP8_SCALES);
    if (!w)
        missing(b, p, ".weight");
    else if (inv && (s || w->dtype != DTYPE_F8_E4M3))
        lone_plane(b, inv, w, "a weight of type F8_E4M3 without other scales");
    else if (s)
        bind_quantized(b, p, w, s);
    else if (!b->whole && (z || w->dtype == DTYPE_U32))
        return; /* the scales may be in a file that could not be read */
    else if (z)
        lone_plane(b, z, w, "also a scales plane");
    else if (w->dtype == DTYPE_F8_E4M3)
        bind_fp8(b, p, w);
    else
        bind_dense(b, p, w);
}

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
            faults_add(b->faults, ERR_MISFIT, t->name,
                       "%s: %s (%s %s) is not a parameter of the %s model that config.json describes", t->file, t->name,
                       dtype_name(t->dtype), tensor_view_shape_text(t, shape), b->desc->model_type);
    }
}

/* The files that only the index names, when something is missing. */
static void name_absent(struct binder *b)
{
    size_t             n;
    const char *const *absent = checkpoint_absent(b->c, &n);
    for (size_t i = 0; b->n_missing && i < n; i++)
        faults_add(b->faults, ERR_NOT_FOUND, absent[i], "%s is absent, though the index of the weights names it",
                   absent[i]);
}

int params_bind(struct params *p, const struct model_desc *m, struct checkpoint *c, int lo, int hi, struct faults *f,
                struct error *e)
{
    struct binder b = {.p = p, .desc = m, .c = c, .lo = lo, .hi = hi, .whole = checkpoint_is_whole(c), .faults = f};
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
    name_absent(&b);
    free(b.by_name);
    return 0;
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

/* A bias is widened to float32 once, in the model's arena. */
static int prepare_bias(const struct params *p, const struct param *row, const struct checkpoint *c, struct error *e)
{
    const struct tensor_view *t = checkpoint_find(c, row->name);
    float                    *v = arena_calloc(p->arena, (size_t)row->shape[0], sizeof *v);
    if (!v)
        return error_nomem(e, "the model's biases");
    quant_widen(t->dtype, t->data, row->shape[0], v);
    row->weight->bias = v;
    return 0;
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

#define READ_AHEAD ((size_t)128 << 20) /* bytes of planes that the system reads while others are packed */

/* Calls f for every plane of a weight that is bound. */
static void for_planes(const struct param *row, struct checkpoint *c, void (*f)(const struct tensor_view *t))
{
    const char *const suffix[] = {".weight", row->weight->quant.mode == QUANT_FP8 ? FP8_SCALES : ".scales", ".biases"};
    char              name[512];
    for (size_t i = 0; i < ARRAY_LEN(suffix) && row->bytes; i++) {
        snprintf(name, sizeof name, "%s%s", row->name, suffix[i]);
        const struct tensor_view *t = checkpoint_find(c, name);
        if (t)
            f(t);
    }
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
        int err = row->role == ROLE_BIAS ? prepare_bias(p, row, c, e)
                                         : backend->prepare(backend, row->weight, uses_of(p, row), e);
        if (err)
            return err;
        for_planes(row, c, checkpoint_release);
        ahead -= row->bytes;
    }
    return 0;
}
