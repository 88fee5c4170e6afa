/* model.safetensors, or shards with their index: which parameter goes into which, at which place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "convert/rewrite.h"
#include "formats/safetensors.h"

#define SHARD_BYTES ((size_t)5 << 30) /* as mlx-lm: a shard holds no more, but one parameter at least */

/* The planes of a row of the plan, without data. Returns how many, -1 when out of memory. */
static int plane_views(struct rewrite *r, const struct rewrite_param *v, struct tensor_view views[REWRITE_PLANES])
{
    const struct quant *q = &v->form;
    int                 n = rewrite_plane_count(v);
    for (int i = 0; i < n; i++) {
        char               name[512];
        struct tensor_view t = {.name = arena_printf(&r->arena, "%s", rewrite_plane_name(v, i, name)),
                                .n_dim = v->p->n_dim};
        t.dtype = q->mode == QUANT_NONE ? (v->as_is ? v->p->dtype : v->dtype) : i ? q->scale_dtype : DTYPE_U32;
        t.size = rewrite_plane_row_bytes(v, i) * (size_t)v->n_out;
        memcpy(t.shape, v->p->shape, sizeof v->p->shape);
        if (q->mode != QUANT_NONE)
            t.shape[t.n_dim - 1] = i ? v->n_in / q->group : v->n_in * q->bits / 32;
        if (!t.name)
            return -1;
        views[i] = t;
    }
    return n;
}

/* --- shards ----------------------------------------------------------------------------------------------------- */

static void assign_shards(struct rewrite *r)
{
    size_t used = 0;
    r->n_shards = 1;
    for (size_t i = 0; i < r->n; i++) {
        struct rewrite_param *v = &r->v[i];
        size_t                size = 0;
        for (int k = 0; k < rewrite_plane_count(v); k++)
            size += rewrite_plane_row_bytes(v, k) * (size_t)v->n_out;
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
    struct entry *list = malloc((r->n + 1) * REWRITE_PLANES * sizeof *list);
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

static int put(void *ctx, size_t at, const void *p, size_t n, struct error *e)
{
    return safetensors_writer_put(ctx, at, p, n, e);
}

static int write_shard(struct rewrite *r, int shard, const struct dir_out *out, struct pool *pool, json_t *weight_map,
                       size_t *done, struct error *e)
{
    struct safetensors_writer *w = NULL;
    int                        err = begin_shard(r, shard, out, &w, weight_map, e);
    struct rewrite_sink        sink = {put, w};
    for (size_t i = 0; i < r->n && !err; i++) {
        struct rewrite_param *v = &r->v[i];
        if (v->shard != shard)
            continue;
        err = rewrite_write_param(r, v, &sink, pool, e);
        planes_tensors(v->p, checkpoint_release);
        *done += v->p->bytes;
        if (!err)
            err = rewrite_progress(r, *done, checkpoint_bytes(r->model->checkpoint), e);
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
