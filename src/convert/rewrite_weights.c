/* Writing the planes: every parameter's rows are widened, rounded to the output's type and encoded by all threads, which
 * put what they made at its place in the file. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "base/pool.h"
#include "convert/rewrite.h"
#include "formats/safetensors.h"

#define SHARD_BYTES ((size_t)5 << 30) /* as mlx-lm: a shard holds no more, but one parameter at least */
#define CHUNK_BYTES ((size_t)1 << 20) /* of output that a thread puts at once */

static const char *const plane_suffix[REWRITE_PLANES] = {".weight", ".scales", ".biases"};

/* --- what the planes are ---------------------------------------------------------------------------------------- */

static int plane_count(const struct rewrite_param *v)
{
    return v->form.mode == QUANT_NONE ? 1 : v->form.mode == QUANT_AFFINE ? 3 : 2;
}

static size_t plane_row_bytes(const struct rewrite_param *v, int plane)
{
    const struct quant *q = &v->form;
    if (q->mode == QUANT_NONE)
        return (size_t)v->source.n_in * dtype_size(v->as_is ? v->p->dtype : v->dtype);
    return plane == REWRITE_WEIGHT ? quant_row_bytes(q, v->source.n_in) : quant_scale_row_bytes(q, v->source.n_in);
}

static const char *plane_name(struct rewrite *r, const struct rewrite_param *v, int plane)
{
    return v->p->role == ROLE_BIAS ? v->p->name : arena_printf(&r->arena, "%s%s", v->p->name, plane_suffix[plane]);
}

/* The planes of a row of the plan, without data. Returns how many, -1 when out of memory. */
static int plane_views(struct rewrite *r, const struct rewrite_param *v, struct tensor_view views[REWRITE_PLANES])
{
    const struct quant *q = &v->form;
    int                 n = plane_count(v);
    for (int i = 0; i < n; i++) {
        struct tensor_view t = {.name = plane_name(r, v, i), .n_dim = v->p->n_dim};
        t.dtype = q->mode == QUANT_NONE ? (v->as_is ? v->p->dtype : v->dtype) : i ? q->scale_dtype : DTYPE_U32;
        t.size = plane_row_bytes(v, i) * (size_t)v->source.n_out;
        memcpy(t.shape, v->p->shape, sizeof v->p->shape);
        if (q->mode != QUANT_NONE)
            t.shape[t.n_dim - 1] = i ? v->source.n_in / q->group : v->source.n_in * q->bits / 32;
        if (!t.name)
            return -1;
        views[i] = t;
    }
    return n;
}

/* --- one parameter ---------------------------------------------------------------------------------------------- */

struct work {
    const struct rewrite_param *v;
    const char                 *file; /* of the source, for messages */
    struct safetensors_writer  *w;
    int                         planes;
    size_t                      row[REWRITE_PLANES]; /* bytes */
    atomic_bool                 failed;
    struct error                error; /* of the first member that failed */
};

/* What a thread needs: a row of floats, and rows of each plane. */
struct buffers {
    float  *values;
    char   *plane[REWRITE_PLANES];
    int64_t rows; /* that the planes hold */
};

static int buffers_init(struct buffers *b, const struct work *k, struct error *e)
{
    size_t all = 0, size = 0;
    for (int i = 0; i < k->planes; i++)
        all += k->row[i];
    b->rows = (int64_t)MAX(CHUNK_BYTES / MAX(all, (size_t)1), (size_t)1);
    b->rows = MIN(b->rows, k->v->source.n_out);
    b->values = malloc((size_t)k->v->source.n_in * sizeof(float) + all * (size_t)b->rows);
    if (!b->values)
        return error_nomem(e, k->v->p->name);
    for (int i = 0; i < k->planes; i++) {
        b->plane[i] = (char *)(b->values + k->v->source.n_in) + size;
        size += k->row[i] * (size_t)b->rows;
    }
    return 0;
}

static int bad_value(const struct work *k, int64_t row, int64_t col, float f, const char *why, struct error *e)
{
    return error_set(e, ERR_FORMAT, k->v->p->name, "%s: %s has %g in row %lld, column %lld, %s", k->file, k->v->p->name,
                     (double)f, (long long)row, (long long)col, why);
}

/* Rounds the row to the output's type, in float32. Only a dense value may be infinite or NaN, and only if it was so. */
static int round_row(const struct work *k, float *x, int64_t row, struct error *e)
{
    const struct rewrite_param *v = k->v;
    for (int64_t i = 0; i < v->source.n_in; i++) {
        float f = x[i];
        if (v->form.mode != QUANT_NONE && !isfinite(f))
            return bad_value(k, row, i, f, "which cannot be quantized; finite values are needed", e);
        if (v->dtype == DTYPE_F16)
            x[i] = f16_to_f32(f32_to_f16(f));
        if (v->dtype == DTYPE_BF16)
            x[i] = bf16_to_f32(f32_to_bf16(f));
        if (isfinite(f) && !isfinite(x[i]))
            return bad_value(k, row, i, f, "beyond the range of the output's type; choose a wider one with --dtype", e);
    }
    return 0;
}

static int make_row(const struct work *k, const struct buffers *b, int64_t row, int64_t slot, struct error *e)
{
    const struct rewrite_param *v = k->v;
    char                       *out[REWRITE_PLANES];
    const void                 *planes[] = {v->source.data, v->source.scales, v->source.biases};
    for (int i = 0; i < REWRITE_PLANES; i++)
        out[i] = i < k->planes ? b->plane[i] + (size_t)slot * k->row[i] : NULL;
    if (v->as_is) {
        for (int i = 0; i < REWRITE_PLANES; i++)
            if (out[i])
                memcpy(out[i], (const char *)planes[i] + (size_t)row * k->row[i], k->row[i]);
        return 0;
    }
    weight_row(&v->source, row, b->values);
    int err = round_row(k, b->values, row, e);
    if (!err && v->form.mode == QUANT_NONE)
        quant_narrow(v->dtype, b->values, v->source.n_in, out[0]);
    else if (!err)
        quant_encode_row(&v->form, b->values, v->source.n_in, out[0], out[1], out[2]);
    return err;
}

static int make_rows(struct work *k, const struct buffers *b, int64_t lo, int64_t hi, struct error *e)
{
    int err = 0;
    while (lo < hi && !err && !k->failed) {
        int64_t n = MIN(hi - lo, b->rows);
        for (int64_t i = 0; i < n && !err; i++)
            err = make_row(k, b, lo + i, i, e);
        for (int i = 0; i < k->planes && !err; i++)
            err = safetensors_writer_put(k->w, k->v->at[i] + (size_t)lo * k->row[i], b->plane[i], (size_t)n * k->row[i],
                                         e);
        lo += n;
    }
    return err;
}

static void member(void *arg, int i, int n)
{
    struct work   *k = arg;
    struct buffers b = {0};
    struct error   e = {0};
    long           lo, hi;
    pool_share((long)k->v->source.n_out, 1, i, n, &lo, &hi);
    if (lo == hi)
        return;
    if (!buffers_init(&b, k, &e))
        make_rows(k, &b, lo, hi, &e);
    free(b.values);
    if (e.code && !atomic_exchange(&k->failed, true))
        k->error = e;
}

static const struct tensor_view *source_plane(const struct rewrite *r, const struct rewrite_param *v, int plane)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", v->p->name, v->p->role == ROLE_BIAS ? "" : plane_suffix[plane]);
    return checkpoint_find(r->model->checkpoint, name);
}

static const char *file_of(const struct rewrite *r, const struct rewrite_param *v)
{
    const struct tensor_view *t = source_plane(r, v, REWRITE_WEIGHT);
    return t ? t->file : r->dir;
}

static int write_param(struct rewrite *r, const struct rewrite_param *v, struct safetensors_writer *w,
                       struct pool *pool, struct error *e)
{
    struct work k = {.v = v, .file = file_of(r, v), .w = w, .planes = plane_count(v)};
    for (int i = 0; i < k.planes; i++)
        k.row[i] = plane_row_bytes(v, i);
    if (v->source.n_out > 0 && v->source.n_in > 0)
        pool_run(pool, member, &k);
    if (k.failed && e)
        *e = k.error;
    return k.failed ? k.error.code : 0;
}

static void release(const struct rewrite *r, const struct rewrite_param *v)
{
    for (int i = 0; i < REWRITE_PLANES; i++) {
        const struct tensor_view *t = source_plane(r, v, i);
        if (t)
            checkpoint_release(t);
    }
}

/* --- shards ----------------------------------------------------------------------------------------------------- */

static void assign_shards(struct rewrite *r)
{
    size_t used = 0;
    r->n_shards = 1;
    for (size_t i = 0; i < r->n; i++) {
        struct rewrite_param *v = &r->v[i];
        size_t                size = 0;
        for (int k = 0; k < plane_count(v); k++)
            size += plane_row_bytes(v, k) * (size_t)v->source.n_out;
        if (used && used + size > SHARD_BYTES) {
            r->n_shards++;
            used = 0;
        }
        v->shard = r->n_shards - 1;
        used += size;
        r->bytes += size;
    }
}

static const char *shard_name(const struct rewrite *r, int shard, char out[64])
{
    if (r->n_shards == 1)
        snprintf(out, 64, "model.safetensors");
    else
        snprintf(out, 64, "model-%05d-of-%05d.safetensors", shard + 1, r->n_shards);
    return out;
}

struct entry { /* a plane of the shard */
    struct tensor_view    view;
    struct rewrite_param *v;
    int                   plane;
};

/* Wide types first, so that every plane is aligned to its type; then by name. */
static int entry_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    size_t              p = dtype_size(x->view.dtype), q = dtype_size(y->view.dtype);
    return p != q ? (p < q ? 1 : -1) : strcmp(x->view.name, y->view.name);
}

/* The planes of a shard in their order, with their places. */
static int list_shard(struct rewrite *r, int shard, struct entry **out, size_t *n, struct error *e)
{
    struct entry *list = malloc(r->n * REWRITE_PLANES * sizeof *list);
    size_t        at = 0;
    *n = 0;
    if (!list)
        return error_nomem(e, "the list of tensors");
    for (size_t i = 0; i < r->n; i++) {
        struct tensor_view views[REWRITE_PLANES];
        int                planes = r->v[i].shard == shard ? plane_views(r, &r->v[i], views) : 0;
        if (planes < 0) {
            free(list);
            return error_nomem(e, "the list of tensors");
        }
        for (int k = 0; k < planes; k++)
            list[(*n)++] = (struct entry){views[k], &r->v[i], k};
    }
    qsort(list, *n, sizeof *list, entry_order);
    for (size_t i = 0; i < *n; i++) {
        list[i].v->at[list[i].plane] = at;
        at += list[i].view.size;
    }
    *out = list;
    return 0;
}

static int begin_shard(struct rewrite *r, int shard, const struct dir_out *out, struct safetensors_writer **w,
                       json_t *weight_map, struct error *e)
{
    static const char *const metadata[] = {"format", "mlx", NULL};
    struct entry            *list = NULL;
    struct tensor_view      *views = NULL;
    size_t                   n;
    char                     name[64], path[PATH_MAX];
    int                      err = list_shard(r, shard, &list, &n, e);
    if (err)
        return err;
    shard_name(r, shard, name);
    views = malloc(MAX(n, (size_t)1) * sizeof *views);
    for (size_t i = 0; views && i < n; i++) {
        views[i] = list[i].view;
        json_object_set_new(weight_map, list[i].view.name, json_string(name));
    }
    err = views ? dir_out_file(out, name, path, e) : error_nomem(e, "the list of tensors");
    if (!err)
        err = safetensors_writer_begin(w, path, views, n, metadata, false, e);
    free(views);
    free(list);
    return err;
}

static int write_shard(struct rewrite *r, int shard, const struct dir_out *out, struct pool *pool, json_t *weight_map,
                       size_t *done, struct error *e)
{
    struct safetensors_writer *w = NULL;
    int                        err = begin_shard(r, shard, out, &w, weight_map, e);
    for (size_t i = 0; i < r->n && !err; i++) {
        struct rewrite_param *v = &r->v[i];
        if (v->shard != shard)
            continue;
        err = write_param(r, v, w, pool, e);
        release(r, v);
        *done += v->p->bytes;
        if (!err && r->o->progress && !r->o->progress(r->o->ctx, *done, checkpoint_bytes(r->model->checkpoint)))
            err = error_set(e, ERR_CANCELLED, NULL, "interrupted");
    }
    if (!err)
        return safetensors_writer_finish(w, e);
    safetensors_writer_abort(w);
    return err;
}

static int write_index(const struct rewrite *r, const struct dir_out *out, json_t *weight_map, struct error *e)
{
    json_t *index = json_pack("{s:{s:I, s:I}, s:O}", "metadata", "total_size", (json_int_t)r->bytes, "total_parameters",
                              (json_int_t)r->model->n_parameter, "weight_map", weight_map);
    char   *text = index ? json_dumps(index, JSON_INDENT(4) | JSON_SORT_KEYS) : NULL;
    int     err = text ? dir_out_write(out, "model.safetensors.index.json", text, strlen(text), e)
                       : error_nomem(e, "the index of the weights");
    free(text);
    json_decref(index);
    return err;
}

int rewrite_weights(struct rewrite *r, const struct dir_out *out, struct error *e)
{
    struct pool *pool = NULL;
    json_t      *weight_map = json_object();
    size_t       done = 0;
    int          err = weight_map ? 0 : error_nomem(e, "the index of the weights");
    assign_shards(r);
    if (!err)
        err = pool_new(&pool, r->o->threads ? r->o->threads : pool_default_size(), e);
    for (int i = 0; i < r->n_shards && !err; i++)
        err = write_shard(r, i, out, pool, weight_map, &done, e);
    if (!err)
        err = write_index(r, out, weight_map, e);
    pool_free(pool);
    json_decref(weight_map);
    return err;
}
