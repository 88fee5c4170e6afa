/* The binder: matches the parameter table with a checkpoint, tensor by tensor.
 *
 * A parameter X is stored as X.weight, and is quantized if and only if X.scales exists; then the planes alone decide the mode
 * (quant_from_planes). Needed but in no file: a fault. In a file but claimed by no row: a fault, unless the family ignores it.
 * All faults of the checkpoint go into one report. When a file could not be read, what is missing may be there: then only
 * what is wrong whatever it holds is a fault.
 */
#include <stdio.h>
#include <string.h>

#include "base/glob.h"
#include "base/num.h"
#include "model/params.h"

struct binder {
    struct params           *p;
    const struct model_desc *desc;
    struct checkpoint       *c;
    int                      lo, hi;
    bool                     whole; /* all files could be read */
    size_t                   n_missing;
    struct faults           *faults;
};

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
    bool codes = t->dtype == DTYPE_U32 && param_is_matrix(p);
    faults_add(b->faults, ERR_MISFIT, t->name, "%s: %s is %s %s%s, needed F32, F16 or BF16 %s%s (%s of config.json)",
               t->file, t->name, dtype_name(t->dtype), tensor_view_shape_text(t, found),
               codes ? " without a scales plane" : "", tensor_shape_text(p->shape, p->n_dim, need),
               codes ? " or also scales" : "", p->why);
}

/* Whether the tensor has the row's dimensions and the first n of them are as long. */
static bool same_shape(const struct param *p, const struct tensor_view *t, int n)
{
    if (t->n_dim != p->n_dim)
        return false;
    for (int i = 0; i < n; i++)
        if (t->shape[i] != p->shape[i])
            return false;
    return true;
}

/* Likewise but for dimensions of 1. */
static bool same_values(const struct param *p, const struct tensor_view *t)
{
    int i = 0, k = 0;
    for (;; i++, k++) {
        while (i < p->n_dim && p->shape[i] == 1)
            i++;
        while (k < t->n_dim && t->shape[k] == 1)
            k++;
        if (i == p->n_dim || k == t->n_dim)
            return i == p->n_dim && k == t->n_dim;
        if (p->shape[i] != t->shape[k])
            return false;
    }
}

static bool fits_dense(const struct param *p, const struct tensor_view *t)
{
    return dtype_is_float16_32(t->dtype) && (p->role == ROLE_VECTOR ? same_values(p, t) : same_shape(p, t, p->n_dim));
}

/* What of a plane belongs to the i-th matrix of a row's n; NULL while headers alone are read. */
static const void *slice(const struct tensor_view *t, int i, int n)
{
    return t && t->data ? (const char *)t->data + t->size / (size_t)n * (size_t)i : NULL;
}

/* Points the row's weight, or the weights of its stack, into the planes. */
static void bind_planes(struct param *p, const struct tensor_view *w, const struct tensor_view *s,
                        const struct tensor_view *z)
{
    int n = param_stack(p);
    for (int i = 0; i < n; i++) {
        p->weight[i].quant = p->quant;
        p->weight[i].dtype = p->quant.mode == QUANT_NONE ? w->dtype : DTYPE_NONE;
        p->weight[i].data = slice(w, i, n);
        p->weight[i].scales = slice(s, i, n);
        p->weight[i].biases = slice(z, i, n);
    }
    p->dtype = w->dtype;
    p->bytes = w->size + (s ? s->size : 0) + (z ? z->size : 0);
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

/* The codes' shape but for the packed width. */
static void wrong_rows(struct binder *b, const struct param *p, const struct tensor_view *w)
{
    char found[TENSOR_SHAPE_TEXT], stack[64] = "";
    if (p->n_dim == 3)
        snprintf(stack, sizeof stack, "%lld matrices of ", (long long)p->shape[0]);
    faults_add(b->faults, ERR_MISFIT, w->name, "%s: %s is %s %s, needed %s%lld rows (%s of config.json)", w->file,
               w->name, dtype_name(w->dtype), tensor_view_shape_text(w, found), stack,
               (long long)p->shape[p->n_dim - 2], p->why);
}

static void bind_quantized(struct binder *b, struct param *p, const struct tensor_view *w, const struct tensor_view *s)
{
    const struct tensor_view *z = plane(b, p, ".biases");
    if (!param_is_matrix(p)) {
        lone_plane(b, s, w, "none, since a vector is never quantized");
        return;
    }
    if (!z && !b->whole && s->dtype != DTYPE_U8)
        return; /* the biases may be in a file that could not be read */
    struct quant quant;
    if (quant_from_planes(&quant, w, s, z, p->shape[p->n_dim - 1], b->faults))
        return;
    if (!same_shape(p, w, p->n_dim - 1)) {
        wrong_rows(b, p, w);
        return;
    }
    p->quant = quant;
    bind_planes(p, w, s, z);
}

/* Hugging Face's FP8. */
static void bind_fp8(struct binder *b, struct param *p, const struct tensor_view *w)
{
    const struct tensor_view *s = plane(b, p, PLANE_FP8_SCALES);
    char                      found[TENSOR_SHAPE_TEXT], shape[TENSOR_SHAPE_TEXT], need[TENSOR_SHAPE_TEXT];
    int64_t                   tiles[2] = {(p->shape[0] + QUANT_FP8_TILE - 1) / QUANT_FP8_TILE,
                                          (p->shape[1] + QUANT_FP8_TILE - 1) / QUANT_FP8_TILE};
    if (p->n_dim != 2 || !same_shape(p, w, 2)) {
        misfit(b, p, w);
        return;
    }
    if (!s && !b->whole)
        return;
    if (!s) {
        faults_add(b->faults, ERR_MISFIT, w->name, "%s: %s is F8_E4M3 %s without %s%s, needed F32, F16 or BF16 %s",
                   w->file, w->name, tensor_view_shape_text(w, found), p->name, PLANE_FP8_SCALES,
                   tensor_shape_text(tiles, 2, need));
        return;
    }
    if (!dtype_is_float16_32(s->dtype) || s->n_dim != 2 || s->shape[0] != tiles[0] || s->shape[1] != tiles[1]) {
        faults_add(b->faults, ERR_MISFIT, s->name, "%s: %s is %s %s beside %s F8_E4M3 %s, needed F32, F16 or BF16 %s",
                   s->file, s->name, dtype_name(s->dtype), tensor_view_shape_text(s, shape), w->name,
                   tensor_view_shape_text(w, found), tensor_shape_text(tiles, 2, need));
        return;
    }
    p->quant = (struct quant){QUANT_FP8, 8, QUANT_FP8_TILE, s->dtype};
    bind_planes(p, w, s, NULL);
}

static void bind_dense(struct binder *b, struct param *p, const struct tensor_view *w)
{
    if (!fits_dense(p, w)) {
        misfit(b, p, w);
        return;
    }
    bind_planes(p, w, NULL, NULL);
}

static void bind_weight(struct binder *b, struct param *p)
{
    const struct tensor_view *w = plane(b, p, p->suffix), *s = plane(b, p, ".scales"), *z = plane(b, p, ".biases");
    const struct tensor_view *inv = plane(b, p, PLANE_FP8_SCALES);
    if (!w)
        missing(b, p, p->suffix);
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
    static const char *const suffixes[] = {".weight", ".scales", ".biases", PLANE_FP8_SCALES};
    char                     base[512];
    const struct param      *p = params_find(b->p, name);
    if (p && !*p->suffix)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        size_t n = strlen(name), k = strlen(suffixes[i]);
        if (n <= k || n - k >= sizeof base || strcmp(name + n - k, suffixes[i]))
            continue;
        memcpy(base, name, n - k);
        base[n - k] = '\0';
        p = params_find(b->p, base);
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

void params_bind(struct params *p, const struct model_desc *m, struct checkpoint *c, int lo, int hi, struct faults *f)
{
    struct binder b = {.p = p, .desc = m, .c = c, .lo = lo, .hi = hi, .whole = checkpoint_is_whole(c), .faults = f};
    for (size_t i = 0; i < p->n; i++) {
        struct param *row = &p->v[i];
        if (in_range(&b, row))
            (row->role == ROLE_BIAS ? bind_bias : bind_weight)(&b, row);
    }
    find_unclaimed(&b);
    name_absent(&b);
}
