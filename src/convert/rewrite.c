/* The rewriting of one model directory, from open to rename; contracts in convert.h. */
#include <stdlib.h>

#include "adapt/fuse.h"
#include "arch/arch.h"
#include "base/num.h"
#include "convert/rewrite.h"

#define NAMES_MAX ((size_t)1 << 30)

int rewrite_progress(const struct rewrite *r, size_t done, size_t total, struct error *e)
{
    if (!r->o->progress || r->o->progress(r->o->ctx, done, total))
        return 0;
    return error_set(e, ERR_CANCELLED, NULL, "interrupted");
}

static int fill(struct rewrite *r, const struct dir_out *out, struct error *e)
{
    int err = rewrite_copies(r, out, e);
    if (!err)
        err = r->in_place ? rewrite_patch(r, out, e) : rewrite_weights(r, out, e);
    if (!err) /* last: what has no config.json is no model */
        err = r->in_place ? rewrite_copy(r, out, "config.json", e) : rewrite_config(r, out, e);
    return err;
}

static void tell(const struct rewrite *r)
{
    const struct rewrite_counts *n = &r->counts;
    if (n->kept)
        log_warning(r->o->log, "%zu matrices were quantized already and stayed as they were", n->kept);
    if (n->indivisible)
        log_warning(r->o->log, "%zu matrices stay dense, since groups do not divide their width: %s%s", n->indivisible,
                    n->first, n->indivisible > 1 ? " and others" : "");
    if (r->change)
        log_info(r->o->log, "%zu of %zu parameters were changed", n->changed, r->n);
    if (!r->in_place)
        log_info(r->o->log, "%zu bytes of weights, %.3f bits for each of %lld parameters", r->bytes,
                 8.0 * (double)r->bytes / (double)MAX(r->model->n_parameter, (int64_t)1),
                 (long long)r->model->n_parameter);
}

int rewrite_run(struct rewrite *r, const char *dir, const char *out_dir, struct error *e)
{
    struct dir_out       out = {0};
    struct model_options load = {.page_tokens = KV_TILE, .log = r->o->log, .change = r->change};
    r->dir = dir;
    arena_init(&r->arena, NAMES_MAX);
    int err = model_load(&r->model, dir, arch_describe, NULL, &load, e); /* bound as every load does, not prepared */
    if (!err)
        err = rewrite_plan(r, e);
    if (!err)
        err = dir_out_begin(&out, out_dir, dir, r->o->force, e);
    for (size_t i = 0; i < r->n_adapters && !err; i++)
        err = dir_out_spare(&out, r->adapters[i].path, e);
    if (!err)
        err = fill(r, &out, e);
    if (!err)
        err = dir_out_finish(&out, e);
    if (!err)
        tell(r);
    dir_out_abort(&out);
    model_free(r->model);
    arena_deinit(&r->arena);
    return err;
}

int convert_model(const char *dir, const char *out_dir, const struct convert_options *options, struct error *e)
{
    struct convert_options o = *options;
    struct rewrite         r = {.o = &o};
    struct quant           form = quant_default(o.form.mode);
    o.form = (struct quant){form.mode, o.form.bits ? o.form.bits : form.bits, o.form.group ? o.form.group : form.group,
                            DTYPE_NONE};
    int err = o.quantize ? quant_check(&o.form, e) : 0;
    return err ? err : rewrite_run(&r, dir, out_dir, e);
}

int convert_fuse(const char *dir, const struct convert_adapter *adapters, size_t n, const char *out_dir,
                 const struct convert_options *options, struct error *e)
{
    struct rewrite       r = {.o = options, .adapters = adapters, .n_adapters = n};
    struct fuse         *f = NULL;
    struct fuse_adapter *list = calloc(n + 1, sizeof *list);
    struct fuse_options  fo = {.adapter = list,
                               .n = n,
                               .decode = options->quantize || options->dequantize,
                               .threads = options->threads,
                               .remedy = ", or fuse with --dequantize or --requantize",
                               .log = options->log};
    for (size_t i = 0; i < n && list; i++)
        list[i] = (struct fuse_adapter){adapters[i].path, adapters[i].scale};
    int err = list ? fuse_new(&f, &fo, e) : error_nomem(e, "the adapters");
    if (!err) {
        r.change = fuse_change(f);
        err = rewrite_run(&r, dir, out_dir, e);
    }
    fuse_free(f);
    free(list);
    return err;
}
