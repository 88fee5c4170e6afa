/* See planes.h. */
#include "model/planes.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

#define BLOCK 32 /* rows of a transposed matrix at once, so that what is written of a row of the result lies together */

/* --- as stored ---------------------------------------------------------------------------------------------------- */

/* The stored matrix that a parameter's is made of: rows [row, row + n_row) of w. */
struct origin {
    struct weight w;
    int64_t       row;
};

static size_t row_bytes(const struct weight *w)
{
    return w->quant.mode == QUANT_NONE ? (size_t)w->n_in * dtype_size(w->dtype) : quant_row_bytes(&w->quant, w->n_in);
}

static size_t scale_row_bytes(const struct weight *w)
{
    return w->quant.mode == QUANT_NONE ? 0 : quant_scale_row_bytes(&w->quant, w->n_in);
}

static const void *bytes_at(const void *p, size_t n)
{
    return p ? (const char *)p + n : NULL;
}

/* w from a row on with which its scales begin, too. */
static struct weight from_row(struct weight w, int64_t row)
{
    size_t scales = (size_t)(row / quant_scale_rows(&w.quant)) * scale_row_bytes(&w);
    w.data = bytes_at(w.data, (size_t)row * row_bytes(&w));
    w.scales = bytes_at(w.scales, scales);
    w.biases = bytes_at(w.biases, scales);
    return w;
}

static const void *data_of(const struct param_source *s, int plane, int i)
{
    const struct tensor_view *t = s->plane[plane] ? s->plane[plane][s->apart ? i : 0] : NULL;
    return t ? t->data : NULL;
}

static bool has_heads(const struct param_source *s)
{
    return s->rule && (s->rule->below || s->rule->above);
}

static struct origin origin_of(const struct param *p, int i)
{
    const struct param_source *s = &p->source;
    bool                       fp8 = s->quant.mode == QUANT_FP8;
    int64_t                    per = quant_scale_rows(&s->quant), whole = (s->pitch + per - 1) / per * per;
    struct origin              o = {.w = {.name = p->name, .n_in = s->n_col, .quant = s->quant}};
    o.w.dtype = s->quant.mode == QUANT_NONE ? s->dtype : DTYPE_NONE;
    o.w.data = data_of(s, PLANE_WEIGHT, i);
    o.w.scales = data_of(s, fp8 ? PLANE_TILES : PLANE_SCALES, i);
    o.w.biases = data_of(s, PLANE_BIASES, i);
    if (has_heads(s)) {
        o.row = i * s->pitch + s->lead;
    } else if (!s->apart) { /* each matrix of a stack has tiles of its own */
        const void *data = bytes_at(o.w.data, (size_t)(i * s->pitch) * row_bytes(&o.w));
        o.w = from_row(o.w, i * whole);
        o.w.data = data;
    }
    o.w.n_out = o.row + s->n_row;
    return o;
}

/* --- the form in use ---------------------------------------------------------------------------------------------- */

static bool has_arithmetic(const struct param_source *s)
{
    return s->rule && layout_has_arithmetic(s->rule);
}

/* Whether a matrix begins within a tile of scales. */
static bool cuts_tiles(const struct param *p)
{
    const struct param_source *s = &p->source;
    int                        per = quant_scale_rows(&s->quant);
    return per > 1 && (s->step != 1 || s->first % per || (has_heads(s) && (s->pitch % per || s->lead % per)));
}

/* Whether values have to be looked at, rather than bytes moved. */
static bool is_computed(const struct param *p)
{
    return p->source.transposed || has_arithmetic(&p->source) || cuts_tiles(p) || p->source.one_scale;
}

static enum dtype dtype_in_use(const struct param *p)
{
    const struct param_source *s = &p->source;
    if (s->quant.mode == QUANT_NONE)
        return has_arithmetic(s) ? DTYPE_F32 : s->dtype;
    if (p->quant.mode == QUANT_NONE) /* FP8's values are bfloat16 */
        return s->quant.mode == QUANT_FP8 && !has_arithmetic(s) ? DTYPE_BF16 : DTYPE_F32;
    return p->quant.mode == QUANT_FP8 ? DTYPE_F8_E4M3 : DTYPE_U32;
}

void planes_bind(struct param *p)
{
    struct param_source *s = &p->source;
    bool                 computed = is_computed(p);
    s->made = computed || s->step != 1 || s->packed;
    p->quant = computed ? (struct quant){0} : s->quant;
    p->dtype = dtype_in_use(p);
    for (int i = 0; p->role != ROLE_BIAS && i < param_stack(p); i++) {
        struct weight      *w = &p->weight[i];
        const struct origin o = origin_of(p, i);
        const struct weight from = s->made ? (struct weight){0} : from_row(o.w, o.row + s->first);
        w->quant = p->quant;
        w->dtype = p->quant.mode == QUANT_NONE ? p->dtype : DTYPE_NONE;
        w->data = from.data;
        w->scales = from.scales;
        w->biases = from.biases;
    }
}

bool planes_are_there(const struct param *p)
{
    return p->bytes && data_of(&p->source, PLANE_WEIGHT, 0);
}

void planes_tensors(const struct param *p, void (*f)(const struct tensor_view *t))
{
    for (int k = 0; k < PLANES && p->bytes; k++)
        for (int i = 0; p->source.plane[k] && i < p->source.n; i++)
            f(p->source.plane[k][i]);
}

void planes_of_matrix(const struct param *p, int i, void (*f)(const struct tensor_view *t))
{
    const struct param_source *s = &p->source;
    for (int k = 0; k < PLANES && p->bytes; k++) {
        const struct tensor_view *t = s->plane[k] ? s->plane[k][s->apart ? i : 0] : NULL;
        struct tensor_view        part = t ? *t : (struct tensor_view){0};
        if (t && !s->apart) {
            part.size /= (size_t)param_stack(p);
            part.data = bytes_at(t->data, (size_t)i * part.size);
        }
        if (t)
            f(&part);
    }
}

/* --- making ------------------------------------------------------------------------------------------------------- */

void planes_vector(const struct param *p, int i, float *out)
{
    const struct param_source *s = &p->source;
    const struct origin        from = origin_of(p, i);
    int64_t                    n = p->role == ROLE_BIAS && p->n_dim == 2 ? p->shape[1] : param_elements(p);
    size_t                     size = dtype_size(s->dtype);
    if (s->step == 1)
        quant_widen(s->dtype, (const char *)from.w.data + (size_t)s->first * size, n, out);
    for (int64_t o = 0; o < n && s->step != 1; o++)
        quant_widen(s->dtype, (const char *)from.w.data + (size_t)(s->first + o * s->step) * size, 1, &out[o]);
    for (int64_t o = 0; o < n && has_arithmetic(s); o++)
        layout_values(s->rule, o, &out[o], 1);
}

/* Rows that take turns, as they are stored. */
static void gather_rows(const struct param_source *s, const struct origin *from, const struct weight *to)
{
    const void *const source[] = {from->w.data, from->w.scales, from->w.biases};
    const void *const made[] = {to->data, to->scales, to->biases};
    const size_t      bytes[] = {row_bytes(to), scale_row_bytes(to), scale_row_bytes(to)};
    for (size_t k = 0; k < ARRAY_LEN(source); k++)
        for (int64_t o = 0; source[k] && o < to->n_out; o++)
            memcpy((char *)made[k] + (size_t)o * bytes[k],
                   (const char *)source[k] + (size_t)(from->row + s->first + o * s->step) * bytes[k], bytes[k]);
}

/* biases = -8 scales: what makes affine codes of those that stand for less 8. */
static void put_biases(const struct weight *w)
{
    int64_t n = w->n_out * (w->n_in / w->quant.group);
    size_t  size = dtype_size(w->quant.scale_dtype);
    for (int64_t i = 0; i < n; i++) {
        float x;
        quant_widen(w->quant.scale_dtype, (const char *)w->scales + (size_t)i * size, 1, &x);
        x *= -8;
        quant_narrow(w->quant.scale_dtype, &x, 1, (char *)w->biases + (size_t)i * size);
    }
}

/* As many copies of FP8's one scale as the matrix has tiles; NULL when out of memory. */
static void *spread_scale(const struct origin *from)
{
    size_t per = QUANT_FP8_TILE, size = dtype_size(from->w.quant.scale_dtype);
    size_t n = ((size_t)from->w.n_out + per - 1) / per * (((size_t)from->w.n_in + per - 1) / per);
    char  *tiles = calloc(n + 1, size);
    for (size_t i = 0; tiles && i < n; i++)
        memcpy(tiles + i * size, from->w.scales, size);
    return tiles;
}

static void compute_rows(const struct param_source *s, const struct origin *from, const struct weight *to, float *row)
{
    for (int64_t o = 0; o < to->n_out; o++) {
        weight_row(&from->w, from->row + s->first + o * s->step, row);
        if (has_arithmetic(s))
            layout_values(s->rule, o, row, to->n_in);
        quant_narrow(to->dtype, row, to->n_in, (char *)to->data + (size_t)o * row_bytes(to));
    }
}

/* row: BLOCK rows of the stored matrix, then BLOCK values. */
static void compute_columns(const struct param_source *s, const struct origin *from, const struct weight *to,
                            float *row)
{
    int64_t width = from->w.n_in;
    float  *line = row + BLOCK * width;
    for (int64_t k = 0; k < to->n_in; k += BLOCK) {
        int64_t n = MIN(to->n_in - k, BLOCK);
        for (int64_t i = 0; i < n; i++)
            weight_row(&from->w, from->row + k + i, row + i * width);
        for (int64_t o = 0; o < to->n_out; o++) {
            for (int64_t i = 0; i < n; i++)
                line[i] = row[i * width + s->first + o * s->step];
            if (has_arithmetic(s))
                layout_values(s->rule, o, line, n);
            quant_narrow(to->dtype, line, n, (char *)to->data + (size_t)(o * to->n_in + k) * dtype_size(to->dtype));
        }
    }
}

/* Points w's planes into the memory, if there is some; returns how many bytes they take. */
static size_t lay_out(struct weight *w, char *memory)
{
    bool   quantized = w->quant.mode != QUANT_NONE, biases = w->quant.mode == QUANT_AFFINE;
    size_t codes = (size_t)w->n_out * row_bytes(w), scales = quantized ? (size_t)w->n_out * scale_row_bytes(w) : 0;
    w->data = memory;
    w->scales = quantized ? bytes_at(memory, codes) : NULL;
    w->biases = biases ? bytes_at(memory, codes + scales) : NULL;
    return codes + scales + (biases ? scales : 0);
}

static int make_matrix(const struct param *p, int i, const struct weight *to, struct error *e)
{
    const struct param_source *s = &p->source;
    struct origin              from = origin_of(p, i);
    int64_t                    rows = s->transposed ? BLOCK : 1;
    if (!is_computed(p)) {
        gather_rows(s, &from, to);
        if (s->packed)
            put_biases(to);
        return 0;
    }
    float *row = malloc((size_t)(rows * MAX(s->n_col, to->n_in) + BLOCK) * sizeof *row);
    void  *tiles = s->one_scale ? spread_scale(&from) : NULL;
    if (tiles)
        from.w.scales = tiles;
    bool ok = row && (tiles || !s->one_scale);
    if (ok)
        (s->transposed ? compute_columns : compute_rows)(s, &from, to, row);
    free(tiles);
    free(row);
    return ok ? 0 : error_nomem(e, p->name);
}

static int make_vector(const struct param *p, const struct weight *to, struct error *e)
{
    float *v = malloc((size_t)MAX(to->n_in, 1) * sizeof *v);
    if (!v)
        return error_nomem(e, p->name);
    planes_vector(p, 0, v);
    quant_narrow(to->dtype, v, to->n_in, (void *)to->data);
    free(v);
    return 0;
}

/* All values of a bias, or of those of a stack. */
static int make_bias(const struct param *p, struct weight *w, struct error *e)
{
    int64_t n = param_elements(p), n_stack = p->n_dim == 2 ? p->shape[0] : 1;
    float  *v = malloc((size_t)MAX(n, 1) * sizeof *v);
    if (!v)
        return error_nomem(e, p->name);
    for (int64_t i = 0; i < n_stack; i++)
        planes_vector(p, (int)i, v + i * (n / n_stack));
    quant_narrow(p->dtype, v, n, v);
    *w = (struct weight){.name = p->name, .n_out = 1, .n_in = n, .dtype = p->dtype, .data = v};
    return 0;
}

int planes_open(const struct param *p, int i, struct weight *w, void **memory, struct error *e)
{
    int err = 0;
    *memory = NULL;
    if (p->role == ROLE_BIAS) {
        err = make_bias(p, w, e);
        *memory = err ? NULL : (void *)w->data;
        return err;
    }
    *w = p->weight[i];
    if (!p->source.made || w->data) /* held */
        return 0;
    *memory = malloc(MAX(lay_out(w, NULL), (size_t)1));
    if (!*memory)
        return error_nomem(e, p->name);
    lay_out(w, *memory);
    err = param_is_matrix(p) ? make_matrix(p, i, w, e) : make_vector(p, w, e);
    if (err) {
        free(*memory);
        *memory = NULL;
    }
    return err;
}

/* --- held --------------------------------------------------------------------------------------------------------- */

struct held_planes {
    struct held_planes *next;
    struct weight      *weight;
    const void         *data, *scales, *biases; /* what its planes were */
    void               *memory;
};

int params_hold(struct params *p, struct weight *w, const struct weight *planes, void *memory, struct error *e)
{
    struct held_planes *h = malloc(sizeof *h);
    if (!h) {
        free(memory);
        return error_nomem(e, w->name);
    }
    *h = (struct held_planes){p->held, w, w->data, w->scales, w->biases, memory};
    w->data = planes->data;
    w->scales = planes->scales;
    w->biases = planes->biases;
    p->held = h;
    return 0;
}

void params_drop(struct params *p)
{
    struct held_planes *h = p->held;
    p->held = h->next;
    h->weight->data = h->data;
    h->weight->scales = h->scales;
    h->weight->biases = h->biases;
    free(h->memory);
    free(h);
}

void params_drop_all(struct params *p)
{
    while (p->held)
        params_drop(p);
}
