/* The rewriting of one model directory, from open to rename; contracts in convert.h. */
#include <stdlib.h>

#include "arch/arch.h"
#include "base/num.h"
#include "convert/rewrite.h"

#define NAMES_MAX ((size_t)1 << 30)

static int fill(struct rewrite *r, const struct dir_out *out, struct error *e)
{
    int err = rewrite_copies(r, out, e);
    if (!err)
        err = rewrite_weights(r, out, e);
    if (!err)
        err = rewrite_config(r, out, e); /* last: what has no config.json is no model */
    return err;
}

static void tell(const struct rewrite *r)
{
    const struct rewrite_counts *n = &r->counts;
    if (n->kept)
        log_warning(r->o->log, "%zu matrices were quantized already and stayed as they were", n->kept);
    if (n->indivisible)
        log_warning(r->o->log, "%zu matrices stay dense, since groups of %d do not divide their width: %s%s",
                    n->indivisible, r->o->form.group, n->first, n->indivisible > 1 ? " and others" : "");
    log_info(r->o->log, "%zu bytes of weights, %.3f bits for each of %lld parameters", r->bytes,
             8.0 * (double)r->bytes / (double)MAX(r->model->n_parameter, (int64_t)1), (long long)r->model->n_parameter);
}

int convert_model(const char *dir, const char *out_dir, const struct convert_options *options, struct error *e)
{
    struct convert_options o = *options;
    struct rewrite         r = {.o = &o, .dir = dir};
    struct dir_out         out = {0};
    struct model_options   load = {.page_tokens = KV_TILE, .log = o.log};
    struct quant           form = quant_default(o.form.mode);
    o.form = (struct quant){form.mode, o.form.bits ? o.form.bits : form.bits, o.form.group ? o.form.group : form.group,
                            DTYPE_NONE};
    arena_init(&r.arena, NAMES_MAX);
    int err = o.quantize ? quant_check(&o.form, e) : 0;
    if (!err)
        err = model_load(&r.model, dir, arch_describe, NULL, &load, e); /* bound as every load does, not prepared */
    if (!err)
        err = rewrite_plan(&r, e);
    if (!err)
        err = dir_out_begin(&out, out_dir, dir, o.force, e);
    if (!err)
        err = fill(&r, &out, e);
    if (!err)
        err = dir_out_finish(&out, e);
    if (!err)
        tell(&r);
    dir_out_abort(&out);
    model_free(r.model);
    arena_deinit(&r.arena);
    return err;
}
