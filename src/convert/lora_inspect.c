/* `lora inspect`: what an adapter's files hold, whether they fit a model, and how much they change of each layer.
 *
 * Norms are Frobenius norms. That of a pair comes from two small matrices, |s B A|^2 = s^2 sum of (B^T B) * (A A^T), so
 * B A itself is never made. With DoRA the change of row w is f (w + d) - w, f = m / |w + d|, whose square is m^2 - 2 f
 * w.(w + d) + w.w: from inner products of w and d alone.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapt/bind.h"
#include "arch/arch.h"
#include "base/num.h"
#include "convert/lora.h"

/* --- norms ------------------------------------------------------------------------------------------------------ */

/* Sums of squares over the rows of a pair. */
struct squares {
    double delta, weight;
};

static double dot(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* G [rank][rank] of the rows of A, or of the columns of B: a sum over what is not the rank. */
static int gram(const struct adapter_matrix *m, bool columns, double *g, struct error *e)
{
    int64_t rank = columns ? m->n_col : m->n_row, n = columns ? m->n_row : m->n_col;
    float  *v = calloc((size_t)(rank * n + 1), sizeof *v), *row;
    if (!v)
        return error_nomem(e, "an adapter's norms");
    for (int64_t j = 0; j < rank; j++)
        for (int64_t i = 0; i < n; i++)
            v[j * n + i] = columns ? adapter_matrix_at(m, i, j) : adapter_matrix_at(m, j, i);
    for (int64_t j = 0; j < rank; j++) {
        row = v + j * n;
        for (int64_t k = 0; k <= j; k++)
            g[j * rank + k] = g[k * rank + j] = dot(row, v + k * n, n);
    }
    free(v);
    return 0;
}

static int delta_squares(const struct adapter_pair *p, double *sum, struct error *e)
{
    int64_t rank = p->a.n_row;
    double *g = calloc(2 * (size_t)rank, (size_t)rank * sizeof *g), *h = g ? g + rank * rank : NULL;
    int     err = g ? gram(&p->a, false, g, e) : error_nomem(e, "an adapter's norms");
    if (!err)
        err = gram(&p->b, true, h, e);
    for (int64_t i = 0; i < rank * rank && !err; i++)
        *sum += p->scale * p->scale * g[i] * h[i];
    free(g);
    return err;
}

/* Rows one by one: the weight's w and, where the pair is taken by rows, the change d = s B[o] A before DoRA scales
 * it. */
struct rows {
    int64_t n;
    bool    change;
    float  *w, *d, *b, *a; /* [n], [n], [rank], [rank][n] */
};

static int rows_init(struct rows *r, const struct adapter_pair *p, struct error *e)
{
    size_t rank = r->change ? (size_t)p->a.n_row : 0, n = (size_t)p->weight->n_in, size;
    r->n = p->weight->n_in;
    if (!num_mul(rank + 2, n, &size) || !num_add(size, rank + 1, &size) || !(r->w = calloc(size, sizeof *r->w)))
        return error_nomem(e, "an adapter's norms");
    r->d = r->w + n;
    r->b = r->d + n;
    r->a = r->b + rank;
    for (size_t j = 0; j < rank; j++)
        adapter_matrix_row(&p->a, (int64_t)j, r->a + j * n + p->col);
    return 0;
}

/* The square of what row o changes by; its weight is in r->w, of the square ww. */
static double row_change(const struct adapter_pair *p, struct rows *r, int64_t o, double ww)
{
    memset(r->d, 0, (size_t)r->n * sizeof *r->d);
    adapter_matrix_row(&p->b, o, r->b);
    for (int64_t j = 0; j < p->a.n_row; j++)
        for (int64_t i = 0; i < r->n; i++)
            r->d[i] += (float)p->scale * r->b[j] * r->a[j * r->n + i];
    double dd = dot(r->d, r->d, r->n), wd = dot(r->w, r->d, r->n), all = ww + 2 * wd + dd;
    if (!p->magnitude.data || all <= 0)
        return dd;
    double m = (double)adapter_matrix_at(&p->magnitude, o, 0);
    return fabs(m * m - 2 * m / sqrt(all) * (ww + wd) + ww);
}

static int pair_squares(const struct adapter_pair *p, struct squares *out, struct error *e)
{
    int64_t     n_in = p->weight->n_in, n_out = p->b.n_row, rank = p->a.n_row;
    struct rows r = {.change =
                         p->magnitude.data || rank > n_in || rank > n_out}; /* ranks that need no small matrices */
    int         err = rows_init(&r, p, e);
    if (!err && !r.change)
        err = delta_squares(p, &out->delta, e);
    for (int64_t o = 0; o < n_out && !err; o++) {
        weight_row(p->weight, p->row + o, r.w);
        double ww = dot(r.w, r.w, n_in);
        out->weight += ww;
        out->delta += r.change ? row_change(p, &r, o, ww) : 0;
    }
    free(r.w);
    return err;
}

/* --- facts ------------------------------------------------------------------------------------------------------ */

/* "self_attn.q_proj" of a layer's module, else the whole name. */
static const char *target_of(const char *name)
{
    const char *layers = strstr(name, "layers."), *rest = layers ? strchr(layers + strlen("layers."), '.') : NULL;
    return rest ? rest + 1 : name;
}

static json_t *range(double least, double most, bool whole)
{
    return whole ? json_pack("[I, I]", (json_int_t)least, (json_int_t)most) : json_pack("[f, f]", least, most);
}

static void put_targets(json_t *facts, const struct adapter_file *f)
{
    json_t *targets = json_object();
    for (size_t i = 0; i < f->n_module; i++) {
        const char *key = target_of(f->module[i].name);
        json_object_set_new(targets, key, json_integer(json_integer_value(json_object_get(targets, key)) + 1));
    }
    json_object_set_new(facts, "targets", targets);
}

static void put_modules(json_t *facts, const struct adapter_file *f)
{
    json_t *layers = json_array();
    double  rank[2] = {0, 0}, scale[2] = {0, 0};
    for (size_t i = 0; i < f->n_module; i++) {
        const struct adapter_module *m = &f->module[i];
        rank[0] = i ? MIN(rank[0], (double)m->rank) : (double)m->rank;
        rank[1] = MAX(rank[1], (double)m->rank);
        scale[0] = i ? MIN(scale[0], m->scale) : m->scale;
        scale[1] = i ? MAX(scale[1], m->scale) : m->scale;
        json_array_append_new(layers, json_pack("{s:s, s:I, s:f, s:b, s:s}", "name", m->name, "rank",
                                                (json_int_t)m->rank, "scale", m->scale, "dora", m->magnitude != NULL,
                                                "dtype", dtype_name(m->b->dtype)));
    }
    json_object_set_new(facts, "rank", range(rank[0], rank[1], true));
    json_object_set_new(facts, "scale", range(scale[0], scale[1], false));
    json_object_set_new(facts, "layers", layers);
}

static json_t *facts_of(const struct adapter_file *f)
{
    int64_t n = 0;
    json_t *replaced = json_array();
    for (size_t i = 0; f->tensors && i < checkpoint_count(f->tensors); i++)
        n += tensor_view_elements(checkpoint_at(f->tensors, i));
    for (size_t i = 0; i < f->n_replace; i++)
        json_array_append_new(replaced, json_string(f->replace[i].name));
    json_t *path = json_string(f->path); /* NULL: not UTF-8 */
    json_t *facts = json_pack(
        "{s:o, s:s, s:s, s:o, s:I, s:I, s:I, s:o, s:n}", "path", path ? path : json_null(), "format",
        adapter_format_name(f->format), "kind", adapter_kind_name(f->kind), "base_model",
        f->base ? json_string(f->base) : json_null(), "modules", (json_int_t)f->n_module, "parameters", (json_int_t)n,
        "bytes", (json_int_t)(f->tensors ? checkpoint_bytes(f->tensors) : 0), "replaced", replaced, "faults");
    if (facts) {
        put_targets(facts, f);
        put_modules(facts, f);
    }
    return facts;
}

/* --- fit -------------------------------------------------------------------------------------------------------- */

/* The norms of module i over all pairs that it became. */
static int put_norms(json_t *layer, const struct adapter_binding *b, const struct adapter_module *m, struct error *e)
{
    struct squares q = {0, 0};
    bool           any = false;
    int            err = 0;
    for (size_t i = 0; i < b->n_pair && !err; i++)
        if (b->pair[i].module == m) {
            err = pair_squares(&b->pair[i], &q, e);
            any = true;
        }
    if (!err && any)
        json_object_update_new(layer,
                               json_pack("{s:f, s:f, s:f}", "delta_norm", sqrt(q.delta), "weight_norm", sqrt(q.weight),
                                         "relative", q.weight > 0 ? sqrt(q.delta / q.weight) : 0.0));
    return err;
}

static int put_fit(json_t *facts, struct adapter_file *f, const char *dir, struct faults *faults, struct error *e)
{
    struct adapter_binding b = {0};
    struct model          *m = NULL;
    struct model_options   o = {.page_tokens = KV_TILE};
    json_t                *layers = json_object_get(facts, "layers");
    int                    err = model_load(&m, dir, arch_describe, NULL, &o, e);
    if (!err)
        err = adapter_bind(&b, f, m, faults, e);
    for (size_t i = 0; i < f->n_module && !err; i++)
        err = put_norms(json_array_get(layers, i), &b, &f->module[i], e);
    if (!err)
        json_object_set_new(facts, "fits", json_boolean(!faults->n));
    adapter_binding_deinit(&b);
    model_free(m);
    return err;
}

static void put_warnings(json_t *facts, const struct adapter_file *f)
{
    json_t *warnings = json_array();
    for (size_t i = 0; i < f->n_warning; i++)
        json_array_append_new(warnings, json_string(f->warning[i]));
    json_object_set_new(facts, "warnings", warnings);
}

int lora_inspect(const char *path, const char *model, json_t **out, struct error *e)
{
    struct adapter_file *f = NULL;
    struct faults        faults = {0};
    struct error         fault = {0};
    int                  err = adapter_file_open(&f, path, &faults, e);
    *out = !err && f ? facts_of(f) : NULL;
    if (!err && f && !*out)
        err = error_nomem(e, "the adapter's facts");
    if (!err && *out && model && !faults.n)
        err = put_fit(*out, f, model, &faults, e);
    if (!err && *out) /* binding may have added some */
        put_warnings(*out, f);
    if (!err && faults_report(&faults, &fault)) {
        err = fault.code;
        json_object_set_new(*out, "faults", json_string(fault.msg));
        if (e)
            *e = fault;
    }
    faults_deinit(&faults);
    adapter_file_free(f);
    return err;
}
