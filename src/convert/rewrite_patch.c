/* Rewriting in place: every shard is copied as it is, header, unknown tensors and all, and then the planes of changed
 * parameters are put where the source has them. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/num.h"
#include "convert/rewrite.h"
#include "formats/shards.h"

#define COPY_BYTES ((size_t)16 << 20) /* between two looks at the progress */

struct patch {
    struct rewrite *r;
    struct pool    *pool;
    struct file_out file;
    size_t          done, total; /* bytes: of all shards, and of what is changed in them */
};

static int step(struct patch *k, size_t bytes, struct error *e)
{
    k->done += bytes;
    return rewrite_progress(k->r, k->done, k->total, e);
}

static int copy_shard(struct patch *k, const char *path, struct error *e)
{
    size_t size, n = 1;
    int    fd, err = file_open(path, &fd, &size, e);
    if (err)
        return err;
    while (n && !err) {
        err = file_out_copy(&k->file, fd, COPY_BYTES, &n, e);
        if (!err)
            err = step(k, n, e);
    }
    close(fd);
    return err;
}

static int put(void *ctx, size_t at, const void *p, size_t n, struct error *e)
{
    const struct patch *k = ctx;
    return file_out_put(&k->file, at, p, n, e);
}

/* Sets the places of v's planes in the shard. False: none is there. */
static bool place(const struct rewrite *r, struct rewrite_param *v, const char *shard)
{
    static const enum plane planes[] = {PLANE_WEIGHT, PLANE_SCALES, PLANE_BIASES};
    bool                    any = false;
    for (int i = 0; i < rewrite_plane_count(v); i++) {
        const char *file;
        const void *data = v->p->source.plane[planes[i]][0]->data;
        size_t      at = checkpoint_offset(r->model->checkpoint, data, &file);
        v->at[i] = file == shard ? at : REWRITE_ELSEWHERE;
        any = any || file == shard;
    }
    return any;
}

static int patch_shard(struct patch *k, const char *shard, struct error *e)
{
    struct rewrite_sink sink = {put, k};
    int                 err = 0;
    for (size_t i = 0; i < k->r->n && !err; i++) {
        struct rewrite_param *v = &k->r->v[i];
        if (!v->changed || !place(k->r, v, shard))
            continue;
        err = rewrite_write_param(k->r, v, &sink, k->pool, e);
        planes_tensors(v->p, checkpoint_release);
        if (!err)
            err = step(k, v->p->bytes, e);
    }
    return err;
}

static int write_shard(struct patch *k, const struct dir_out *out, const char *shard, struct error *e)
{
    char from[PATH_MAX], to[PATH_MAX];
    snprintf(from, sizeof from, "%s/%s", k->r->dir, shard);
    int err = dir_out_file(out, shard, to, e);
    if (!err)
        err = file_out_begin(&k->file, to, false, e);
    if (!err)
        err = copy_shard(k, from, e);
    if (!err)
        err = patch_shard(k, shard, e);
    if (!err)
        return file_out_finish(&k->file, e);
    file_out_abort(&k->file);
    return err;
}

static int copy_index(const struct rewrite *r, const struct dir_out *out, struct error *e)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", r->dir, SHARDS_INDEX);
    return access(path, F_OK) ? 0 : rewrite_copy(r, out, SHARDS_INDEX, e);
}

int rewrite_patch(struct rewrite *r, const struct dir_out *out, struct error *e)
{
    size_t             n;
    const char *const *shard = checkpoint_files(r->model->checkpoint, &n);
    struct patch       k = {.r = r, .total = checkpoint_bytes(r->model->checkpoint)};
    int                err = pool_new(&k.pool, r->o->threads ? r->o->threads : pool_default_size(), e);
    for (size_t i = 0; i < r->n; i++)
        k.total += r->v[i].changed ? r->v[i].p->bytes : 0;
    for (size_t i = 0; i < n && !err; i++)
        err = write_shard(&k, out, shard[i], e);
    if (!err)
        err = copy_index(r, out, e);
    if (!err)
        err = rewrite_progress(r, k.total, k.total, e);
    pool_free(k.pool);
    return err;
}
