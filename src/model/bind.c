/* The binder: matches the parameter table with a checkpoint, tensor by tensor.
 *
 * Where the planes of a parameter are, layout.c has found. A parameter is quantized if and only if it has a plane of scales;
 * then the planes alone decide the mode (quant_from_planes). Needed but in no file: a fault. In a file but claimed by no row:
 * a fault, unless the family ignores it. All faults of the checkpoint go into one report. When a file could not be read, what
 * is missing may be there: then only what is wrong whatever it holds is a fault.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "base/num.h"
#include "model/planes.h"

struct binder {
    struct params           *p;
    const struct model_desc *desc;
    struct checkpoint       *c;
    int                      lo, hi;
    bool                     whole; /* all files could be read */
    size_t                   n_missing;
    unsigned char           *uses; /* layout_resolve */
    struct faults           *faults;
    bool                     told_unmarked;
};

static bool in_range(const struct binder *b, const struct param *p)
{
    if (p->layer < 0) /* the embedding also serves as a tied head */
        return b->lo == 0 || (b->hi == b->desc->n_layer && p->role == ROLE_EMBED);
    if (p->layer == b->desc->n_layer)
        return b->hi == b->desc->n_layer;
    return p->layer >= b->lo && p->layer < b->hi;
}

/* The first tensor of a plane; NULL without one. */
static const struct tensor_view *plane(const struct param *p, enum plane plane)
{
    const struct param_source *s = &p->source;
    for (int i = 0; s->plane[plane] && i < s->n; i++)
        if (s->plane[plane][i])
            return s->plane[plane][i];
    return NULL;
}

/* The fields of config.json that its shape follows from. */
static const char *why(const struct param *p)
{
    const struct layout_rule *rule = p->source.rule;
    return rule && rule->why ? rule->why : p->why;
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

static void misfit(struct binder *b, const struct param *p, const struct tensor_view *t)
{
    char    found[TENSOR_SHAPE_TEXT], need[TENSOR_SHAPE_TEXT];
    int64_t shape[PARAM_DIMS];
    int     n_dim = layout_shape(p, shape);
    bool    codes = t->dtype == DTYPE_U32 && param_is_matrix(p) && !plane(p, PLANE_SCALES);
    faults_add(b->faults, ERR_MISFIT, t->name, "%s: %s is %s %s%s, needed F32, F16 or BF16 %s%s (%s of config.json)",
               t->file, t->name, dtype_name(t->dtype), tensor_view_shape_text(t, found),
               codes ? " without a scales plane" : "", tensor_shape_text(shape, n_dim, need),
               codes ? " or also scales" : "", why(p));
}

/* The name of tensor i of a plane that is not there, or where none is the name in the MLX layout. */
static const char *absent_name(const struct param *p, enum plane plane, int i, char out[LAYOUT_NAME])
{
    const struct param_source *s = &p->source;
    const char                *name = s->name ? s->name : p->name, *mark = s->apart ? strchr(name, '#') : NULL;
    const char                *suffix = s->suffix[plane] ? s->suffix[plane] : p->suffix;
    if (mark)
        snprintf(out, LAYOUT_NAME, "%.*s%d%s%s", (int)(mark - name), name, i, mark + 1, suffix);
    else
        snprintf(out, LAYOUT_NAME, "%s%s", name, suffix);
    return out;
}

static void missing(struct binder *b, const struct param *p, enum plane plane, int i)
{
    char        need[TENSOR_SHAPE_TEXT], name[LAYOUT_NAME], other[LAYOUT_NAME];
    int64_t     shape[PARAM_DIMS];
    int         n_dim = layout_shape(p, shape);
    const char *also = p->source.name ? NULL : layout_other_name(b->desc, p, other);
    if (!b->whole || (p->optional && !p->source.name))
        return;
    b->n_missing++;
    absent_name(p, plane, i, name);
    faults_add(b->faults, ERR_MISFIT, name, "%s is in no file%s%s%s, needed %s%s%s (%s of config.json)", name,
               also ? " (nor is " : "", also ? also : "", also ? ")" : "",
               plane == PLANE_WEIGHT ? "with shape " : "beside the others",
               plane == PLANE_WEIGHT ? tensor_shape_text(shape, n_dim, need) : "", "", why(p));
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
    char    found[TENSOR_SHAPE_TEXT], stack[64] = "";
    int64_t need[PARAM_DIMS];
    int     n_dim = layout_shape(p, need);
    if (n_dim == 3)
        snprintf(stack, sizeof stack, "%lld matrices of ", (long long)need[0]);
    faults_add(b->faults, ERR_MISFIT, w->name, "%s: %s is %s %s, needed %s%lld rows (%s of config.json)", w->file,
               w->name, dtype_name(w->dtype), tensor_view_shape_text(w, found), stack, (long long)need[n_dim - 2],
               why(p));
}

/* --- shapes ------------------------------------------------------------------------------------------------------- */

/* Whether the first n of a tensor's dimensions are those that the row needs, and it has as many. */
static bool same_shape(const struct param *p, const struct tensor_view *t, int less)
{
    int64_t need[PARAM_DIMS];
    int     n_dim = layout_shape(p, need);
    if (t->n_dim != n_dim)
        return false;
    for (int i = 0; i < n_dim - less; i++)
        if (t->shape[i] != need[i])
            return false;
    return true;
}

static bool fits_dense(const struct param *p, const struct tensor_view *t)
{
    return dtype_is_float16_32(t->dtype) && (p->role == ROLE_VECTOR ? param_vector_fits(p, t) : same_shape(p, t, 0));
}

static bool same_form(const struct tensor_view *a, const struct tensor_view *b)
{
    return a->dtype == b->dtype && a->n_dim == b->n_dim &&
           memcmp(a->shape, b->shape, (size_t)a->n_dim * sizeof *a->shape) == 0;
}

/* Tensors that are one plane together are there and alike. */
static bool check_alike(struct binder *b, const struct param *p)
{
    const struct param_source *s = &p->source;
    char                       found[TENSOR_SHAPE_TEXT], shape[TENSOR_SHAPE_TEXT];
    size_t                     before = b->faults->n, missed = b->n_missing;
    bool                       gaps = false;
    for (int k = 0; k < PLANES; k++)
        for (int i = 0; s->plane[k] && i < s->n; i++) {
            const struct tensor_view *t = s->plane[k][i], *first = plane(p, (enum plane)k);
            if (!t) {
                missing(b, p, (enum plane)k, i);
                gaps = true;
            } else if (!same_form(t, first)) {
                faults_add(b->faults, ERR_MISFIT, t->name, "%s: %s is %s %s, but %s is %s %s; needed alike", t->file,
                           t->name, dtype_name(t->dtype), tensor_view_shape_text(t, found), first->name,
                           dtype_name(first->dtype), tensor_view_shape_text(first, shape));
            }
        }
    return !gaps && b->faults->n == before && b->n_missing == missed;
}

/* --- binding ------------------------------------------------------------------------------------------------------ */

static size_t source_bytes(const struct param_source *s)
{
    size_t n = 0;
    for (int k = 0; k < PLANES; k++)
        for (int i = 0; s->plane[k] && i < s->n; i++)
            n += s->plane[k][i]->size;
    if (s->rule && s->rule->parts)
        n /= (size_t)s->rule->parts;
    return s->pitch > s->n_row ? n / (size_t)s->pitch * (size_t)s->n_row : n;
}

static void bound(struct param *p, const struct quant *quant, enum dtype dtype)
{
    p->source.quant = *quant;
    p->source.dtype = dtype;
    p->bytes = source_bytes(&p->source);
    planes_bind(p);
}

/* Planes that are decoded may be in any form; others cannot be transposed while they are quantized. */
static bool can_be_quantized(const struct param *p)
{
    return !p->source.transposed || p->source.rule->below || p->source.rule->above;
}

/* mxfp4 as gpt-oss has it, [.., groups, 16] bytes: as words [.., groups * 4]. */
static struct tensor_view as_codes(const struct param *p, const struct tensor_view *w)
{
    struct tensor_view t = *w;
    if (!p->source.suffix[PLANE_WEIGHT] || strcmp(p->source.suffix[PLANE_WEIGHT], "_blocks") || t.dtype != DTYPE_U8 ||
        t.n_dim < 2 || t.shape[t.n_dim - 1] != 16)
        return t;
    t.dtype = DTYPE_U32;
    t.n_dim--;
    t.shape[t.n_dim - 1] *= 4;
    return t;
}

static void bind_quantized(struct binder *b, struct param *p, const struct tensor_view *w, const struct tensor_view *s)
{
    const struct tensor_view *z = plane(p, PLANE_BIASES);
    const struct tensor_view  codes = as_codes(p, w);
    struct quant              quant;
    if (!param_is_matrix(p)) {
        lone_plane(b, s, w, "none, since a vector is never quantized");
        return;
    }
    if (!z && !b->whole && s->dtype != DTYPE_U8)
        return; /* the biases may be in a file that could not be read */
    if (!can_be_quantized(p)) {
        misfit(b, p, w);
        return;
    }
    if (quant_from_planes(&quant, &codes, s, z, p->source.n_col, b->faults))
        return;
    if (!same_shape(p, &codes, 1))
        wrong_rows(b, p, w);
    else
        bound(p, &quant, w->dtype);
}

/* What compressed-tensors packs: words I32 of 8 codes of 4 bits less 8, with one scale for each group. */
static void bind_packed(struct binder *b, struct param *p, const struct tensor_view *w, const struct tensor_view *s)
{
    char         found[TENSOR_SHAPE_TEXT], scales[TENSOR_SHAPE_TEXT];
    int64_t      width = p->source.n_col, groups = s && s->n_dim ? s->shape[s->n_dim - 1] : 0;
    struct quant q = {QUANT_AFFINE, 4, groups > 0 ? (int)(width / groups) : 0, s ? s->dtype : DTYPE_NONE};
    bool         fits = w->dtype == DTYPE_I32 && w->n_dim && w->shape[w->n_dim - 1] * 8 == width && same_shape(p, w, 1);
    if (!s && !b->whole)
        return;
    if (fits && s && dtype_is_float16_32(s->dtype) && same_shape(p, s, 1) && groups * q.group == width &&
        !quant_check(&q, NULL) && !p->source.transposed && !(p->source.rule && p->source.rule->scale)) {
        bound(p, &q, w->dtype);
        return;
    }
    faults_add(
        b->faults, ERR_MISFIT, w->name,
        "%s: %s is %s %s with scales %s %s, needed words I32 of 8 codes each for %lld rows of %lld, and F32, F16 or "
        "BF16 scales of groups of 32, 64 or 128 (%s of config.json)",
        w->file, w->name, dtype_name(w->dtype), tensor_view_shape_text(w, found), s ? dtype_name(s->dtype) : "none",
        s ? tensor_view_shape_text(s, scales) : "", (long long)p->source.n_row, (long long)width, why(p));
}

/* Hugging Face's FP8. */
static void bind_fp8(struct binder *b, struct param *p, const struct tensor_view *w)
{
    const struct tensor_view *s = plane(p, PLANE_TILES);
    char                      found[TENSOR_SHAPE_TEXT], shape[TENSOR_SHAPE_TEXT], need[TENSOR_SHAPE_TEXT];
    int64_t                   tiles[PARAM_DIMS];
    int                       n_dim = layout_shape(p, tiles);
    for (int i = MAX(n_dim - 2, 0); i < n_dim; i++)
        tiles[i] = (tiles[i] + QUANT_FP8_TILE - 1) / QUANT_FP8_TILE;
    if (!param_is_matrix(p) || !can_be_quantized(p) || !same_shape(p, w, 0)) {
        misfit(b, p, w);
        return;
    }
    if (!s && !b->whole)
        return;
    if (!s) {
        faults_add(b->faults, ERR_MISFIT, w->name, "%s: %s is F8_E4M3 %s without %s%s, needed F32, F16 or BF16 %s",
                   w->file, w->name, tensor_view_shape_text(w, found), p->source.name, PLANE_FP8_SCALES,
                   tensor_shape_text(tiles, n_dim, need));
        return;
    }
    if (dtype_is_float16_32(s->dtype) && n_dim == 2 && tensor_view_elements(s) == 1 && s->n_dim < 2) {
        p->source.one_scale = true;
    } else if (!dtype_is_float16_32(s->dtype) || s->n_dim != n_dim ||
               memcmp(s->shape, tiles, (size_t)n_dim * sizeof *tiles) != 0) {
        faults_add(b->faults, ERR_MISFIT, s->name, "%s: %s is %s %s beside %s F8_E4M3 %s, needed F32, F16 or BF16 %s",
                   s->file, s->name, dtype_name(s->dtype), tensor_view_shape_text(s, shape), w->name,
                   tensor_view_shape_text(w, found), tensor_shape_text(tiles, n_dim, need));
        return;
    }
    bound(p, &(struct quant){QUANT_FP8, 8, QUANT_FP8_TILE, s->dtype}, w->dtype);
}

static void bind_dense(struct binder *b, struct param *p, const struct tensor_view *w)
{
    if (!fits_dense(p, w))
        misfit(b, p, w);
    else
        bound(p, &(struct quant){0}, w->dtype);
}

/* Nothing in the files tells whether the row's values are the original's or the MLX layout's: said of the first such row. */
static void unmarked(struct binder *b, const struct param *p)
{
    const struct tensor_view *w = plane(p, PLANE_WEIGHT);
    if (b->told_unmarked || !w)
        return;
    faults_add(b->faults, ERR_MISFIT, w->name,
               "%s: whether %s and its like hold the original model's values or those that MLX stores is told by the "
               "shape of tensors called %s, [channels, 1, width] or [channels, width, 1]: %s is in the files",
               w->file, w->name, p->source.unmarked, p->source.mixed ? "each of the two" : "no such tensor");
    b->told_unmarked = true;
}

static void bind_weight(struct binder *b, struct param *p)
{
    const struct tensor_view *w = plane(p, PLANE_WEIGHT), *s = plane(p, PLANE_SCALES), *z = plane(p, PLANE_BIASES);
    const struct tensor_view *inv = plane(p, PLANE_TILES);
    if (p->source.unmarked && b->whole)
        unmarked(b, p);
    if (w && !check_alike(b, p))
        return;
    if (!w)
        missing(b, p, PLANE_WEIGHT, 0);
    else if (plane(p, PLANE_NOTE) && !p->source.packed && !inv)
        lone_plane(b, plane(p, PLANE_NOTE), w, "none");
    else if (inv && (s || w->dtype != DTYPE_F8_E4M3))
        lone_plane(b, inv, w, "a weight of type F8_E4M3 without other scales");
    else if (p->source.packed)
        bind_packed(b, p, w, s);
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

/* --- what nobody claims ------------------------------------------------------------------------------------------- */

/* A plane of a head of its own where the embedding is the head, in whatever layout: some files hold both. */
static bool is_redundant_head(const struct model_desc *m, const char *name)
{
    size_t n = strlen(m->prefix), k = strlen(m->name[NAME_HEAD]);
    return m->tie == TIE_YES && strncmp(name, m->prefix, n) == 0 && strncmp(name + n, m->name[NAME_HEAD], k) == 0 &&
           layout_is_plane(name + n + k);
}

static bool ignored(const struct binder *b, const char *name)
{
    char        other[LAYOUT_NAME];
    const char *spelled;
    for (int k = 0; (spelled = layout_spelling(b->desc, name, k, other)); k++) {
        if (is_redundant_head(b->desc, spelled))
            return true;
        for (const char *const *g = b->desc->ignore; g && *g; g++)
            if (glob_match(*g, spelled))
                return true;
        if (b->desc->ignore_further_layers && layout_layer(b->desc, spelled) >= b->desc->n_layer)
            return true;
    }
    return false;
}

static void find_unclaimed(struct binder *b)
{
    char shape[TENSOR_SHAPE_TEXT];
    for (size_t i = 0; i < checkpoint_count(b->c); i++) {
        const struct tensor_view *t = checkpoint_at(b->c, i);
        if (!b->uses[i] && !ignored(b, t->name))
            faults_add(b->faults, ERR_MISFIT, t->name,
                       "%s: %s (%s %s) is not a parameter of the %s model that config.json describes", t->file, t->name,
                       dtype_name(t->dtype), tensor_view_shape_text(t, shape), b->desc->model_type);
    }
}

/* A tensor of several parameters, of which some are also stored under their own names. */
static void find_halves(struct binder *b)
{
    for (size_t i = 0; i < b->p->n && b->whole; i++) {
        const struct param       *p = &b->p->v[i];
        const struct layout_rule *rule = p->source.rule;
        const struct tensor_view *t = rule && rule->parts ? plane(p, PLANE_WEIGHT) : NULL;
        unsigned char            *uses = t ? &b->uses[t - checkpoint_at(b->c, 0)] : NULL;
        if (!t || *uses >= rule->parts)
            continue;
        faults_add(b->faults, ERR_MISFIT, t->name,
                   "%s: %s holds %d parameters, of which only %s is not also stored under its own name", t->file,
                   t->name, rule->parts, p->name);
        *uses = LAYOUT_WHOLE;
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
    b.uses = calloc(checkpoint_count(c) + 1, sizeof *b.uses);
    if (!b.uses || !layout_resolve(p, m, c, b.uses, &p->leftover)) {
        free(b.uses);
        faults_add(f, ERR_NOMEM, "weights", "out of memory for the places of the weights");
        return;
    }
    for (size_t i = 0; i < p->n; i++)
        if (in_range(&b, &p->v[i]))
            bind_weight(&b, &p->v[i]);
    find_unclaimed(&b);
    find_halves(&b);
    name_absent(&b);
    free(b.uses);
}
