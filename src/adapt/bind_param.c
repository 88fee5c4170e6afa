/* Whole parameters of an adapter: those that it puts in the place of the model's, and copies of the base's own that
 * PEFT leaves in its files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapt/bind_int.h"
#include "base/num.h"
#include "base/vec.h"
#include "model/planes.h"

/* Relative errors, in squares, that a copy may have: what quantization made of the base, and what rounding to bfloat16 made
 * of values that the MLX layout holds times factors. */
#define QUANT_ERROR 0.25
#define ROUND_ERROR 1e-5

/* The module of "X.weight" or "X.bias"; false when it has another ending. */
static bool split(const char *name, char *module, size_t size, bool *bias)
{
    const char *dot = strrchr(name, '.');
    size_t      n = dot ? (size_t)(dot - name) : size;
    if (n >= size)
        return false;
    memcpy(module, name, n);
    module[n] = '\0';
    *bias = strcmp(dot, ".bias") == 0;
    return *bias || strcmp(dot, ".weight") == 0;
}

/* A bias has a row of its own in the table. */
static const struct param *bias_row(const struct model *m, const struct param_segment *s)
{
    char name[512];
    snprintf(name, sizeof name, "%s.bias", s->param->name);
    const struct param *row = params_find(&m->params, name);
    return row && row->role == ROLE_BIAS ? row : NULL;
}

static void refuse(struct adapter_binder *b, const struct tensor_view *t, int code, const char *what)
{
    faults_add(b->faults, code, t->name, "%s: %s %s", t->file, t->name, what);
}

/* Whether the tensor has the shape of what the name means: rows of one matrix or several, a vector, a stack. */
static bool has_shape(struct adapter_binder *b, const struct tensor_view *t, const struct param_target *target,
                      const struct param *row)
{
    const struct param *p = row ? row : target->segment->param;
    int64_t             need[PARAM_DIMS] = {target->n_slice, target->n_out, target->n_in};
    char                found[TENSOR_SHAPE_TEXT], needed[TENSOR_SHAPE_TEXT];
    int                 skip = target->n_slice > 1 ? 0 : 1, n_dim = 3 - skip;
    if (row || !param_is_matrix(p)) { /* as declared */
        memcpy(need, p->shape, sizeof need);
        skip = 0;
        n_dim = p->n_dim;
    }
    if (adapter_is_absent(b, p)) {
        refuse(b, t, ERR_MISFIT, "replaces a parameter that the model's files are without");
        return false;
    }
    bool fits = p->role == ROLE_VECTOR ? param_vector_fits(p, t) : t->n_dim == n_dim;
    for (int i = 0; p->role != ROLE_VECTOR && fits && i < n_dim; i++)
        fits = t->shape[i] == need[skip + i];
    if (!fits)
        faults_add(b->faults, ERR_MISFIT, t->name, "%s: %s is %s, but %s%s is %s", t->file, t->name,
                   tensor_view_shape_text(t, found), p->name, row ? "" : p->suffix,
                   tensor_shape_text(need + skip, n_dim, needed));
    return fits;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

struct adapter_made {
    struct adapter_made *next;
    float                v[];
};

void adapter_free_made(struct adapter_binding *b)
{
    for (struct adapter_made *k = b->made, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    b->made = NULL;
}

/* Room for r's values, of which the file holds others, which *r has from now on; NULL when out of memory. */
static float *make_room(struct adapter_binder *b, struct adapter_replaced *r)
{
    struct adapter_made *k = malloc(sizeof *k + (size_t)adapter_replaced_size(r) * sizeof *k->v);
    if (!k) {
        b->nomem = true;
        return NULL;
    }
    k->next = b->b->made;
    b->b->made = k;
    r->data = k->v;
    r->dtype = DTYPE_F32;
    return k->v;
}

/* The values of r, changed by the rule. */
static void make_values(struct adapter_binder *b, const struct layout_rule *rule, struct adapter_replaced *r)
{
    bool                    matrix = param_is_matrix(r->param);
    int64_t                 width = matrix ? r->weight->n_in : 1, n = adapter_replaced_size(r);
    struct adapter_replaced file = *r;
    float                  *v = make_room(b, r);
    if (!v)
        return;
    quant_widen(file.dtype, file.data, n, v);
    for (int64_t o = 0; o < n / width; o++)
        layout_values(rule, o, v + o * width, width);
}

/* The matrix of r, of which the tensor (rows of `width`, r's first the first) holds every step-th row, or the columns. */
static void make_matrix(struct adapter_binder *b, const struct param_segment *s, int64_t width,
                        struct adapter_replaced *r)
{
    struct adapter_replaced file = *r;
    int64_t                 n_in = r->weight->n_in, row = s->step * width;
    float                  *v = make_room(b, r);
    for (int64_t i = 0; v && i < r->weight->n_out * n_in; i++) {
        int64_t o = i / n_in, k = i % n_in;
        v[i] = dtype_load(file.dtype, file.data, s->transposed ? k * row + o : o * row + k);
    }
}

/* s: the segment of a matrix, whose rows are as wide as the tensor's; NULL: values as they stand. */
static void add(struct adapter_binder *b, const struct param *p, struct weight *w, const struct tensor_view *t,
                int64_t at, bool bias, const struct param_segment *s)
{
    struct adapter_binding  *out = b->b;
    struct adapter_replaced *v = vec_room(out->replaced, out->n_replaced, &b->replaced_cap, sizeof *v);
    if (!v) {
        b->nomem = true;
        return;
    }
    out->replaced = v;
    v += out->n_replaced++;
    *v = (struct adapter_replaced){p,        w,   t->name, (const char *)t->data + (size_t)at * dtype_size(t->dtype),
                                   t->dtype, bias};
    const struct layout_rule *rule = adapter_arithmetic(b, p);
    if (s && (s->transposed || s->step != 1))
        make_matrix(b, s, t->shape[t->n_dim - 1], v);
    if (rule)
        make_values(b, rule, v);
}

/* --- what can be replaced ----------------------------------------------------------------------------------------- */

static bool same_values(const struct tensor_view *a, const struct tensor_view *b)
{
    return a->dtype == b->dtype && a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

/* Whether the tensor holds the model's values: exactly, or as far as its quantization left them. */
static bool is_copy(struct adapter_binder *b, const struct tensor_view *t, const struct param_segment *s)
{
    struct weight w = *s->weight;
    void         *memory = NULL;
    float        *v = malloc(2 * (size_t)w.n_in * sizeof *v), *own = v ? v + w.n_in : NULL;
    if (!v || planes_open(s->param, (int)(s->weight - s->param->weight), &w, &memory, NULL)) {
        b->nomem = true;
        free(v);
        return true;
    }
    const struct layout_rule *rule = adapter_arithmetic(b, s->param);
    double                    error = 0, sum = 0;
    double                    allowed = s->param->source.quant.mode ? QUANT_ERROR : rule ? ROUND_ERROR : 0;
    for (int64_t i = 0; i < w.n_out; i++) {
        weight_row(&w, i, v);
        quant_widen(t->dtype, (const char *)t->data + (size_t)(i * w.n_in) * dtype_size(t->dtype), w.n_in, own);
        if (rule)
            layout_values(rule, i, own, w.n_in);
        for (int64_t k = 0; k < w.n_in; k++) {
            double d = (double)v[k] - (double)own[k];
            error += d * d;
            sum += (double)own[k] * (double)own[k];
        }
    }
    free(memory);
    free(v);
    return error <= allowed * sum;
}

/* A head that is tied cannot be replaced alone. A copy of what the embedding is, or becomes, changes nothing. */
static void bind_tied(struct adapter_binder *b, const struct adapter_param *p, const struct param_segment *s)
{
    for (size_t i = 0; i < b->f->n_replace; i++) {
        const struct adapter_param *other = &b->f->replace[i];
        struct param_target         t;
        char                        module[512];
        bool                        bias;
        if (!split(other->name, module, sizeof module, &bias) || bias || !adapter_resolve(b->m, module, &t) ||
            !(t.uses & WEIGHT_EMBED) || t.segment->weight != s->weight)
            continue;
        if (!same_values(other->tensor, p->tensor))
            refuse(b, p->tensor, ERR_UNSUPPORTED,
                   "differs from the embedding that the adapter brings along, but the model's head is tied to it");
        return;
    }
    if (planes_are_there(s->param) && !is_copy(b, p->tensor, s))
        refuse(b, p->tensor, ERR_UNSUPPORTED, "replaces the head alone, which this model ties to its embedding");
}

static bool refuse_storage(struct adapter_binder *b, const struct tensor_view *t, const struct param_segment *s)
{
    char text[QUANT_TEXT];
    if (s->row || s->n_row != (s->transposed ? s->weight->n_in : s->weight->n_out)) {
        refuse(b, t, ERR_UNSUPPORTED,
               "replaces a part of a parameter that the model stores as one, which is not supported");
        return true;
    }
    if (s->param->source.quant.mode) {
        faults_add(
            b->faults, ERR_UNSUPPORTED, t->name,
            "%s: %s replaces %s.weight, which is quantized (%s) in this model; use the adapter over the model before "
            "it was quantized, or over a dense copy (mlxcel dequantize)",
            t->file, t->name, s->param->name, quant_text(&s->param->source.quant, text));
        return true;
    }
    if (b->f->fan_in_fan_out && !s->transposed && s->param->role == ROLE_LINEAR &&
        s->weight->n_in == s->weight->n_out) {
        refuse(b, t, ERR_UNSUPPORTED,
               "is square, and with fan_in_fan_out nothing tells which of its dimensions is the input");
        return true;
    }
    return false;
}

/* Where the original model has a matrix as [in, out], so have PEFT's files: what they hold is its transpose. */
static void turn(const struct adapter_binder *b, struct param_target *t, struct param_segment *s)
{
    *s = *t->segment;
    if (b->f->format != ADAPTER_FORMAT_PEFT || t->n != 1 || t->n_slice != 1 || s->transposed ||
        s->n_row != s->weight->n_out || !layout_is_transposed(&b->m->desc, s->param))
        return;
    s->transposed = true;
    s->n_row = s->weight->n_in;
    t->n_in = s->weight->n_out;
    t->n_out = s->weight->n_in;
    t->segment = s;
}

static void bind_weight(struct adapter_binder *b, const struct adapter_param *p, const struct param_target *as_named)
{
    struct param_segment turned;
    struct param_target  as_saved = *as_named, *t = &as_saved;
    turn(b, t, &turned);
    for (int k = 0; k < t->n; k++)
        if (adapter_is_loaded(&t->segment[k]) && refuse_storage(b, p->tensor, &t->segment[k]))
            return;
    if (!has_shape(b, p->tensor, t, NULL))
        return;
    if (t->segment->param->role == ROLE_EMBED && !(t->uses & WEIGHT_EMBED)) {
        bind_tied(b, p, t->segment);
        return;
    }
    for (int k = 0; k < t->n; k++) {
        const struct param_segment *s = &t->segment[k];
        for (int i = 0; i < t->n_slice && adapter_is_loaded(s); i++)
            add(b, s->param, param_target_weight(t, s, i), p->tensor, (i * t->n_out + s->from) * t->n_in, false,
                param_is_matrix(s->param) ? s : NULL);
    }
}

static void bind_bias(struct adapter_binder *b, const struct adapter_param *p, const struct param_target *t)
{
    const struct param *row = bias_row(b->m, t->segment);
    if (!row)
        refuse(b, p->tensor, ERR_MISFIT, "is a bias, but the model's layer has none");
    else if (t->n != 1 || t->segment->n_row != t->segment->weight->n_out)
        refuse(b, p->tensor, ERR_UNSUPPORTED,
               "replaces a bias that the model stores in parts, or as a part of another, which is not supported");
    else if (has_shape(b, p->tensor, t, row))
        for (int i = 0; i < t->n_slice; i++)
            add(b, row, param_target_weight(t, t->segment, i), p->tensor, i * t->n_out, true, NULL);
}

/* A tensor that is called by its name alone: sinks, A_log, dt_bias. */
static bool is_bare(const struct model *m, const char *name, struct param_target *t)
{
    return adapter_resolve(m, name, t) && !*t->segment->param->suffix;
}

void adapter_bind_replaced(struct adapter_binder *b, const struct adapter_param *p)
{
    struct param_target t;
    char                module[512];
    bool                bias = false;
    if (is_bare(b->m, p->name, &t)) {
        if (!adapter_set_aside(b, &t))
            bind_weight(b, p, &t);
        return;
    }
    if (!split(p->name, module, sizeof module, &bias))
        refuse(b, p->tensor, ERR_MISFIT, "is no weight and no bias, and no other tensor of the model is called so");
    else if (!adapter_resolve(b->m, module, &t))
        adapter_unclaimed(b, p->tensor, module);
    else if (!adapter_set_aside(b, &t))
        (bias ? bind_bias : bind_weight)(b, p, &t);
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

void adapter_bind_copy(struct adapter_binder *b, const struct adapter_param *p)
{
    struct param_target t;
    char                module[512];
    bool                bias;
    if (!split(p->name, module, sizeof module, &bias) || !adapter_resolve(b->m, module, &t)) {
        adapter_unclaimed(b, p->tensor, p->name);
        return;
    }
    const struct param_segment *s = t.segment;
    if (adapter_set_aside(b, &t))
        return;
    if (bias || t.n != 1 || t.n_slice != 1 || s->transposed || s->n_row != s->weight->n_out) {
        refuse(b, p->tensor, ERR_UNSUPPORTED,
               "is a copy of a parameter of the base that cannot be compared with the model's");
        return;
    }
    if (has_shape(b, p->tensor, &t, NULL) && planes_are_there(s->param) && !is_copy(b, p->tensor, s))
        refuse(b, p->tensor, ERR_MISFIT,
               "is a copy of the base's weight, but this model's differs: the adapter was trained over another base");
}
