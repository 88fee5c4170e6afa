/* Pairs: from modules to matrices of one orientation at their places in the table. Contracts in bind.h. */
#include "adapt/bind.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapt/bind_int.h"
#include "base/num.h"
#include "base/vec.h"

#define WRAPPERS_MAX 3    /* a module's name has prefixes of fewer wrappers */
#define SIBLINGS_MAX 1000 /* faults from which no more is said than is named: each costs a look at every layer */

float adapter_matrix_at(const struct adapter_matrix *m, int64_t i, int64_t j)
{
    return dtype_load(m->dtype, m->data, i * m->row + j * m->col);
}

void adapter_matrix_row(const struct adapter_matrix *m, int64_t i, float *out)
{
    if (m->col == 1)
        quant_widen(m->dtype, (const char *)m->data + (size_t)(i * m->row) * dtype_size(m->dtype), m->n_col, out);
    else
        for (int64_t j = 0; j < m->n_col; j++)
            out[j] = adapter_matrix_at(m, i, j);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

/* Wrappers of the same language model put it at different places of their module trees. NULL: name has no such
 * prefix. */
static const char *unwrap(const char *name)
{
    static const char *const prefix[] = {"language_model.", "model.language_model."};
    for (size_t i = 0; i < ARRAY_LEN(prefix); i++)
        if (strncmp(name, prefix[i], strlen(prefix[i])) == 0)
            return name + strlen(prefix[i]);
    return NULL;
}

/* By a name, also where the description puts "model." or its prefix before it. */
static bool resolve(const struct model *m, const char *name, struct param_target *t)
{
    const char *const before[] = {"", m->desc.prefix, "model."};
    char              longer[LAYOUT_NAME];
    for (size_t i = 0; i < ARRAY_LEN(before); i++)
        if ((i == 0 || (*before[i] && strncmp(name, before[i], strlen(before[i])) != 0)) &&
            (size_t)snprintf(longer, sizeof longer, "%s%s", before[i], name) < sizeof longer &&
            params_target(&m->params, longer, t))
            return true;
    return false;
}

bool adapter_resolve(const struct model *m, const char *name, struct param_target *t)
{
    char        other[LAYOUT_NAME];
    const char *spelled;
    for (int i = 0; name && i < WRAPPERS_MAX; i++, name = unwrap(name))
        for (int k = 0; (spelled = layout_spelling(&m->desc, name, k, other)); k++)
            if (resolve(m, spelled, t))
                return true;
    return false;
}

bool adapter_set_aside(struct adapter_binder *b, const struct param_target *t)
{
    for (int i = 0; i < t->n; i++)
        if (adapter_is_loaded(&t->segment[i]) || adapter_is_absent(b, t->segment[i].param))
            return false;
    b->b->n_aside++;
    return true;
}

const char *adapter_short_name(const struct tensor_view *t, const char *module)
{
    size_t n = strlen(module);
    return strncmp(t->name, module, n) == 0 && t->name[n] == '.' ? t->name + n + 1 : t->name;
}

/* "X takes 576 input features and produces 1536", as far as X is a layer. */
static const char *describe(const char *name, const struct param_target *t, char *out, size_t size)
{
    if (t->uses & WEIGHT_EMBED)
        snprintf(out, size, "%s holds %" PRId64 " rows of %" PRId64 " features", name, t->n_out, t->n_in);
    else if (t->n_slice > 1)
        snprintf(out, size, "each of the %d experts of %s takes %" PRId64 " input features and produces %" PRId64,
                 t->n_slice, name, t->n_in, t->n_out);
    else
        snprintf(out, size, "%s takes %" PRId64 " input features and produces %" PRId64, name, t->n_in, t->n_out);
    return out;
}

/* The same module of another layer: what a family builds in some layers only, or in more than the model has. */
static bool find_sibling(const struct model *m, const char *name, struct param_target *t, char *sibling, size_t size)
{
    const char *number = strpbrk(name, "0123456789"), *rest = number ? number + strspn(number, "0123456789") : NULL;
    if (!number || number == name || number[-1] != '.' || *rest != '.')
        return false;
    for (int i = 0; i < m->desc.n_layer; i++)
        if ((size_t)snprintf(sibling, size, "%.*s%d%s", (int)(number - name), name, i, rest) < size &&
            adapter_resolve(m, sibling, t))
            return true;
    return false;
}

void adapter_unclaimed(struct adapter_binder *b, const struct tensor_view *t, const char *name)
{
    struct param_target target;
    char                shape[TENSOR_SHAPE_TEXT], sibling[512], text[700] = "", layers[64] = "";
    if (b->faults->n < SIBLINGS_MAX && find_sibling(b->m, name, &target, sibling, sizeof sibling)) {
        describe(sibling, &target, text, sizeof text);
        snprintf(layers, sizeof layers, ", which has layers 0 to %d; ", b->m->desc.n_layer - 1);
    }
    faults_add(b->faults, ERR_MISFIT, t->name, "%s: %s is %s, but %s is no layer of the %s model%s%s", t->file, t->name,
               tensor_view_shape_text(t, shape), name, b->m->desc.model_type, layers, text);
}

/* --- shapes ------------------------------------------------------------------------------------------------------- */

/* The two matrices of a module, one expert's, as A [rank, n_in] and B [n_out, rank]. */
struct halves {
    struct adapter_matrix a, b;
};

static const void *element(const struct tensor_view *t, int64_t i)
{
    return (const char *)t->data + (size_t)i * dtype_size(t->dtype);
}

static struct halves orient(const struct adapter_module *m, bool embedding, int64_t expert)
{
    const struct tensor_view *a = m->a, *b = m->b;
    int64_t                   r = m->rank, n = m->n_expert, in = a->shape[a->n_dim - 1], out = b->shape[b->n_dim - 2];
    struct halves             h = {0};
    switch (m->layout) {
    case ADAPTER_MLX:
        if (embedding) { /* a is the rows' half */
            h.a = (struct adapter_matrix){b->data, b->dtype, r, b->shape[1], b->shape[1], 1};
            h.b = (struct adapter_matrix){a->data, a->dtype, a->shape[0], r, r, 1};
        } else {
            h.a = (struct adapter_matrix){a->data, a->dtype, r, a->shape[0], 1, r};
            h.b = (struct adapter_matrix){b->data, b->dtype, b->shape[1], r, 1, b->shape[1]};
        }
        break;
    case ADAPTER_MLX_SWITCH:
        h.a = (struct adapter_matrix){element(a, expert * r * in), a->dtype, r, in, in, 1};
        h.b = (struct adapter_matrix){element(b, expert * out * r), b->dtype, out, r, r, 1};
        break;
    case ADAPTER_PEFT:
        h.a = (struct adapter_matrix){a->data, a->dtype, r, in, in, 1};
        h.b = (struct adapter_matrix){b->data, b->dtype, out, r, r, 1};
        break;
    case ADAPTER_PEFT_EMBED:
        h.a = (struct adapter_matrix){b->data, b->dtype, r, b->shape[0], 1, r};
        h.b = (struct adapter_matrix){a->data, a->dtype, a->shape[1], r, 1, a->shape[1]};
        break;
    case ADAPTER_PEFT_STACK:
        h.a = (struct adapter_matrix){element(a, expert * r * in), a->dtype, r, in, in, 1};
        h.b = (struct adapter_matrix){element(b, expert), b->dtype, out, r, n * r, n};
        break;
    case ADAPTER_PEFT_STACK_TURNED: /* out: of b, the inputs; in: of a, the outputs */
        h.a = (struct adapter_matrix){element(b, expert), b->dtype, r, out, n, n * r};
        h.b = (struct adapter_matrix){element(a, expert * r * in), a->dtype, in, r, 1, in};
        break;
    }
    return h;
}

void adapter_module_pair(const struct adapter_module *m, bool embedding, int64_t expert, struct adapter_matrix *a,
                         struct adapter_matrix *b)
{
    struct halves h = orient(m, embedding, expert);
    *a = h.a;
    *b = h.b;
}

static void misfit(struct adapter_binder *b, const struct adapter_module *m, const struct param_target *t, bool bad_a,
                   bool bad_b)
{
    char                      text[700], shape[2][TENSOR_SHAPE_TEXT];
    const struct tensor_view *first = bad_a ? m->a : m->b;
    tensor_view_shape_text(first, shape[0]);
    tensor_view_shape_text(m->b, shape[1]);
    describe(m->name, t, text, sizeof text);
    if (bad_a && bad_b)
        faults_add(b->faults, ERR_MISFIT, first->name, "%s: %s; %s is %s and %s %s", first->file, text,
                   adapter_short_name(first, m->name), shape[0], adapter_short_name(m->b, m->name), shape[1]);
    else
        faults_add(b->faults, ERR_MISFIT, first->name, "%s: %s; %s is %s", first->file, text,
                   adapter_short_name(first, m->name), shape[0]);
}

static bool refuse(struct adapter_binder *b, const struct adapter_module *m, int code, const char *what)
{
    faults_add(b->faults, code, m->a->name, "%s: %s %s", m->a->file, m->spelled, what);
    return false;
}

static bool check_kind(struct adapter_binder *b, const struct adapter_module *m, const struct param_target *t)
{
    bool stack =
        m->layout == ADAPTER_MLX_SWITCH || m->layout == ADAPTER_PEFT_STACK || m->layout == ADAPTER_PEFT_STACK_TURNED;
    if (!(t->uses & (WEIGHT_LINEAR | WEIGHT_EMBED)))
        return refuse(b, m, ERR_MISFIT, "is a vector of the model, which takes no pair");
    if (m->layout == ADAPTER_PEFT_EMBED && !(t->uses & WEIGHT_EMBED))
        return refuse(b, m, ERR_MISFIT, "is a linear layer of the model, but has the pair of an embedding");
    if (m->layout == ADAPTER_PEFT && t->uses & WEIGHT_EMBED)
        return refuse(b, m, ERR_MISFIT, "is an embedding of the model, but has the pair of a linear layer");
    if (m->layout == ADAPTER_PEFT_EMBED && m->magnitude)
        return refuse(b, m, ERR_UNSUPPORTED,
                      "has DoRA on an embedding, whose magnitude PEFT keeps by column; that is not supported");
    if (m->magnitude && (stack || t->n_slice > 1))
        return refuse(b, m, ERR_UNSUPPORTED, "has DoRA on a stack of experts, which is not supported");
    for (int i = 0; i < t->n && m->magnitude; i++)
        if (t->segment[i].param->fused)
            return refuse(b, m, ERR_UNSUPPORTED,
                          "has DoRA, which needs the weights' rows, but another adapter is fused into them");
    for (int i = 0; i < t->n && (m->magnitude || m->extra); i++) {
        const struct layout_rule *rule = adapter_arithmetic(b, t->segment[i].param);
        if (rule && rule->scale) /* of its inputs or its outputs */
            return refuse(b, m, ERR_UNSUPPORTED,
                          "has DoRA or a bias on a layer that is stored times the model's factors, which is not "
                          "supported");
    }
    for (int i = 0; i < t->n; i++)
        if (t->segment[i].transposed && (m->magnitude || m->extra))
            return refuse(b, m, ERR_UNSUPPORTED,
                          "has DoRA or a bias on a layer that the model stores head by head, which "
                          "is not supported");
    return true;
}

static bool check_vector(struct adapter_binder *b, const struct adapter_module *m, const struct param_target *t,
                         const struct tensor_view *v)
{
    char text[700], shape[TENSOR_SHAPE_TEXT];
    if (!v || v->shape[0] == t->n_out)
        return true;
    faults_add(b->faults, ERR_MISFIT, v->name, "%s: %s; %s is %s, needed [%" PRId64 "]", v->file,
               describe(m->name, t, text, sizeof text), adapter_short_name(v, m->name),
               tensor_view_shape_text(v, shape), t->n_out);
    return false;
}

static bool check_shapes(struct adapter_binder *b, const struct adapter_module *m, const struct param_target *t)
{
    bool          embedding = t->uses & WEIGHT_EMBED, stack = MAX(m->n_expert, 1) != t->n_slice;
    struct halves h = orient(m, embedding, 0);
    bool          bad_in = stack || h.a.n_col != t->n_in, bad_out = stack || h.b.n_row != t->n_out;
    bool          swapped = embedding || m->layout == ADAPTER_PEFT_STACK_TURNED; /* a has the outputs */
    if (bad_in || bad_out)
        misfit(b, m, t, swapped ? bad_out : bad_in, swapped ? bad_in : bad_out);
    bool magnitude = check_vector(b, m, t, m->magnitude), extra = check_vector(b, m, t, m->extra);
    return !bad_in && !bad_out && magnitude && extra;
}

/* --- pairs -------------------------------------------------------------------------------------------------------- */

static struct adapter_matrix transposed(const struct adapter_matrix *m)
{
    return (struct adapter_matrix){m->data, m->dtype, m->n_col, m->n_row, m->col, m->row};
}

/* Rows from, from + step, ... of m. */
static struct adapter_matrix rows_of(const struct adapter_matrix *m, int64_t from, int64_t step, int64_t n)
{
    struct adapter_matrix s = *m;
    s.data = (const char *)m->data + (size_t)(from * m->row) * dtype_size(m->dtype);
    s.n_row = n;
    s.row = step * m->row;
    return s;
}

static struct adapter_matrix vector_of(const struct tensor_view *t, const struct param_segment *s)
{
    struct adapter_matrix whole = {0};
    if (!t)
        return whole;
    whole = (struct adapter_matrix){t->data, t->dtype, t->shape[0], 1, 1, 1};
    return rows_of(&whole, s->from, s->step, s->n_row);
}

/* The pair of a slice of the target's segment s, whose outputs all have the factor. */
static void add_pair(struct adapter_binder *b, const struct adapter_module *m, const struct param_target *t,
                     const struct param_segment *s, int slice, double factor)
{
    struct adapter_binding *out = b->b;
    struct adapter_pair    *v = vec_room(out->pair, out->n_pair, &b->pair_cap, sizeof *v);
    if (!v) {
        b->nomem = true;
        return;
    }
    struct halves         h = orient(m, t->uses & WEIGHT_EMBED, slice);
    struct adapter_matrix rows = rows_of(&h.b, s->from, s->step, s->n_row);
    out->pair = v;
    v += out->n_pair++;
    *v = (struct adapter_pair){.module = m,
                               .param = s->param,
                               .weight = param_target_weight(t, s, slice),
                               .row = s->transposed ? 0 : s->row,
                               .col = s->transposed ? s->row : 0,
                               .a = s->transposed ? transposed(&rows) : h.a,
                               .b = s->transposed ? transposed(&h.a) : rows,
                               .uses = t->uses,
                               .scale = m->scale * factor,
                               .magnitude = vector_of(m->magnitude, s),
                               .extra = vector_of(m->extra, s)};
}

/* A pair for each run of outputs with one factor. */
static void add_pairs(struct adapter_binder *b, const struct adapter_module *m, const struct param_target *t,
                      const struct param_segment *s, int slice)
{
    const struct layout_rule *rule = adapter_arithmetic(b, s->param);
    if (!rule || !rule->scale) {
        add_pair(b, m, t, s, slice, 1);
        return;
    }
    for (int64_t o = 0, end; o < s->n_row; o = end) {
        struct param_segment run = *s;
        float                factor = layout_factor(rule, s->row + o, &end);
        end = MIN(end - s->row, s->n_row);
        run.from += o * s->step;
        run.row += o;
        run.n_row = end - o;
        add_pair(b, m, t, &run, slice, (double)factor);
    }
}

static void bind_module(struct adapter_binder *b, const struct adapter_module *m)
{
    struct param_target t;
    if (!adapter_resolve(b->m, m->name, &t)) {
        adapter_unclaimed(b, m->a, m->name);
        return;
    }
    if (adapter_set_aside(b, &t) || !check_kind(b, m, &t) || !check_shapes(b, m, &t))
        return;
    for (int k = 0; k < t.n; k++)
        for (int i = 0; i < t.n_slice && adapter_is_loaded(&t.segment[k]); i++)
            add_pairs(b, m, &t, &t.segment[k], i);
}

/* --- order -------------------------------------------------------------------------------------------------------- */

static int compare_pairs(const void *pa, const void *pb)
{
    const struct adapter_pair *a = pa, *b = pb;
    if (a->weight->index != b->weight->index)
        return a->weight->index < b->weight->index ? -1 : 1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return a->col != b->col ? (a->col < b->col ? -1 : 1) : strcmp(a->module->name, b->module->name);
}

static int compare_replaced(const void *pa, const void *pb)
{
    const struct adapter_replaced *a = pa, *b = pb;
    if (a->weight->index != b->weight->index)
        return a->weight->index < b->weight->index ? -1 : 1;
    return a->bias != b->bias ? a->bias - b->bias : strcmp(a->name, b->name);
}

/* A pair before pair i at the same place whose module means the same to the model; NULL if there is none. */
static const struct adapter_pair *other_spelling(const struct adapter_binder *b, size_t i, const struct param_target *t)
{
    const struct adapter_pair *v = b->b->pair;
    struct param_target        other;
    for (size_t k = i; k-- > 0 && adapter_same_place(&v[k], &v[i]);)
        if (adapter_resolve(b->m, v[k].module->name, &other) && other.segment == t->segment && other.slice == t->slice)
            return &v[k];
    return NULL;
}

/* Names that only a wrapper's prefix tells apart are one module, which has one pair. */
static void check_spellings(struct adapter_binder *b)
{
    for (size_t i = 1; i < b->b->n_pair; i++) {
        const struct adapter_pair *p = &b->b->pair[i], *other = NULL;
        struct param_target        t;
        if (adapter_same_place(p - 1, p) && adapter_resolve(b->m, p->module->name, &t) &&
            p->weight == param_target_weight(&t, t.segment, 0)) /* said once for a stack */
            other = other_spelling(b, i, &t);
        if (other)
            faults_add(b->faults, ERR_MISFIT, p->module->a->name, "%s: %s and %s are both for %s", p->module->a->file,
                       other->module->a->name, p->module->a->name, p->module->name);
    }
}

/* Two magnitudes for one row of a weight would scale it twice. */
static void check_magnitudes(struct adapter_binder *b)
{
    const struct adapter_pair *last = NULL;
    for (size_t i = 0; i < b->b->n_pair; i++) {
        const struct adapter_pair *p = &b->b->pair[i];
        if (!p->magnitude.data)
            continue;
        if (last && last->weight == p->weight && p->row < last->row + last->b.n_row)
            faults_add(b->faults, ERR_UNSUPPORTED, p->module->magnitude->name,
                       "%s: %s and %s are both DoRA for the same rows of %s, which cannot be scaled twice",
                       p->module->magnitude->file, last->module->magnitude->name, p->module->magnitude->name,
                       p->param->name);
        if (!last || last->weight != p->weight || p->row + p->b.n_row > last->row + last->b.n_row)
            last = p;
    }
}

static void check_replaced(struct adapter_binder *b)
{
    for (size_t i = 1; i < b->b->n_replaced; i++) {
        const struct adapter_replaced *p = &b->b->replaced[i - 1], *q = &b->b->replaced[i];
        if (p->weight == q->weight && p->bias == q->bias)
            faults_add(b->faults, ERR_MISFIT, q->name, "%s and %s both replace %s", p->name, q->name, q->param->name);
    }
}

int adapter_bind(struct adapter_binding *out, struct adapter_file *f, const struct model *m, struct faults *faults,
                 struct error *e)
{
    struct adapter_binder b = {.b = out, .f = f, .m = m, .faults = faults};
    *out = (struct adapter_binding){0};
    adapter_settle_stacks(&b);
    for (size_t i = 0; i < f->n_module; i++)
        bind_module(&b, &f->module[i]);
    for (size_t i = 0; i < f->n_replace; i++)
        adapter_bind_replaced(&b, &f->replace[i]);
    for (size_t i = 0; i < f->n_copy; i++)
        adapter_bind_copy(&b, &f->copy[i]);
    if (out->n_pair)
        qsort(out->pair, out->n_pair, sizeof *out->pair, compare_pairs);
    if (out->n_replaced)
        qsort(out->replaced, out->n_replaced, sizeof *out->replaced, compare_replaced);
    adapter_part_tied(&b);
    adapter_warn_of_tied(&b);
    check_spellings(&b);
    check_magnitudes(&b);
    check_replaced(&b);
    if (!b.nomem)
        return 0;
    adapter_binding_deinit(out);
    return error_nomem(e, "the adapter's pairs");
}

void adapter_binding_deinit(struct adapter_binding *b)
{
    free(b->pair);
    free(b->replaced);
    adapter_free_made(b);
    *b = (struct adapter_binding){0};
}
