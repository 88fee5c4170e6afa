/* Loading: describe the model, declare its table, bind it to the checkpoint, prepare the weights. The one load path. */
#include "model/block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/ngram.h"
#include "model/planes.h"
#include "model/quant_config.h"
#include "model/target.h"

#define ARENA_MAX ((size_t)256 << 20) /* descriptions, names and rows of the table, biases */

static bool declare_layer(struct model *m, const struct declare *k)
{
    const struct layer_desc *d = &m->desc.layer[k->layer];
    struct layer            *l = &m->layer[k->layer];
    const struct block      *mix = block_of_mix(d->mix), *ff = block_of_ff(d->ff), *shortcut = block_of_ff(d->shortcut);
    int64_t                  n = m->desc.n_embd;
    declare_norm(k, NAME_MIX_NORM, &d->mix_norm, n, "hidden_size", &l->mix_norm);
    declare_norm(k, NAME_MIX_POST, &d->mix_post, n, "hidden_size", &l->mix_post);
    declare_norm(k, NAME_FF_NORM, &d->ff_norm, n, "hidden_size", &l->ff_norm);
    declare_norm(k, NAME_FF_POST, &d->ff_post, n, "hidden_size", &l->ff_post);
    return (!mix || mix->declare(m, k, &l->mix)) && (!ff || ff->declare(m, k, &l->ff)) &&
           (!shortcut || shortcut->declare(m, k, &l->shortcut));
}

static bool declare(struct model *m)
{
    struct params           *p = &m->params;
    const struct model_desc *d = &m->desc;
    const struct declare     before = {p, d, -1}, after = {p, d, d->n_layer};
    const char              *why = "vocab_size, hidden_size";
    params_add(p, ROLE_EMBED, SHARD_ROWS, -1, declare_name(&before, NAME_EMBED, ""), d->n_vocab, d->n_embd, why,
               &m->embed);
    if (d->n_position)
        params_add(p, ROLE_EMBED, SHARD_NONE, -1, declare_name(&before, NAME_POSITION, ""), d->n_position, d->n_embd,
                   "max_position_embeddings, hidden_size", &m->position);
    if (d->ngram.n_table && !ngram_declare(m, &before))
        return false;
    for (int i = 0; i < d->n_layer; i++)
        if (!declare_layer(m, &(struct declare){p, d, i}))
            return false;
    declare_norm(&after, NAME_NORM, &d->norm, d->n_embd, "hidden_size", &m->norm);
    const char *head = declare_name(&after, NAME_HEAD, "");
    if (!m->tied)
        params_add(p, ROLE_HEAD, SHARD_ROWS, d->n_layer, head, d->n_vocab, d->n_embd, why, &m->head);
    else
        params_tied_head(p, head, &m->embed);
    if (d->head_bias)
        params_add(p, ROLE_BIAS, SHARD_ROWS, d->n_layer, declare_name(&after, NAME_HEAD, ".bias"), d->n_vocab, 0,
                   "vocab_size", m->tied ? &m->embed : &m->head);
    return true;
}

/* The widest input and output of the matrices. */
static void limit_widths(struct model *m)
{
    for (size_t i = 0; i < m->params.n; i++) {
        const struct param *p = &m->params.v[i];
        if (!param_is_matrix(p))
            continue;
        m->limits.n_in = MAX(m->limits.n_in, p->shape[p->n_dim - 1]);
        m->limits.n_out = MAX(m->limits.n_out, p->shape[p->n_dim - 2]);
    }
}

int64_t model_active_bytes(const struct model *m)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < m->params.n; i++) {
        const struct param *p = &m->params.v[i];
        if (p->role == ROLE_LINEAR || p->role == ROLE_HEAD || (p->role == ROLE_EMBED && m->tied))
            bytes += p->active ? (int64_t)p->bytes / param_stack(p) * p->active : (int64_t)p->bytes;
    }
    return bytes;
}

int64_t model_kv_bytes_per_token(const struct model *m, int elem_size)
{
    return m->kv_values * elem_size + (elem_size == 1 ? m->kv_keys * (int64_t)sizeof(float) : 0);
}

int64_t model_rope_length(const struct model *m, int64_t n_prompt)
{
    int64_t length = 0;
    for (int i = 0; i < m->desc.n_rope; i++) {
        const struct rope *r = &m->rope[i];
        if (r->limit && n_prompt > r->limit)
            length = MAX(length, r->long_freq ? r->limit + 1 : n_prompt);
    }
    return length;
}

static int make_ropes(struct model *m, struct error *e)
{
    for (int i = 0; i < m->desc.n_rope; i++) {
        const struct rope_desc *d = &m->desc.rope[i];
        bool                    by_length = d->scaling == ROPE_DYNAMIC || d->scaling == ROPE_LONGROPE;
        float                  *freq = arena_calloc(&m->arena, (size_t)d->dims + 2, sizeof *freq);
        float                  *beyond = d->scaling == ROPE_LONGROPE ? freq + d->dims / 2 + 1 : NULL;
        if (!freq)
            return error_nomem(e, "rope frequencies");
        rope_inv_freq(d, false, freq);
        if (beyond)
            rope_inv_freq(d, true, beyond);
        m->rope[i] = (struct rope){.dims = d->dims,
                                   .interleaved = d->interleaved,
                                   .mscale = (float)d->mscale,
                                   .inv_freq = freq,
                                   .limit = by_length ? d->original_context : 0,
                                   .long_freq = beyond,
                                   .long_mscale = (float)d->mscale_long,
                                   .theta = d->theta,
                                   .factor = d->factor};
    }
    return 0;
}

/* Whether the model has such layers, and they pass nothing on to others but the residual stream. */
static int check_range(const struct model_desc *d, int lo, int hi, struct error *e)
{
    if (lo < 0 || lo >= hi || hi > d->n_layer)
        return error_set(e, ERR_INVALID, "layers", "layer range [%d, %d) is not within the model's %d layers", lo, hi,
                         d->n_layer);
    if (d->n_part > 1 && (lo % d->n_part || hi % d->n_part))
        return error_set(e, ERR_INVALID, "layers",
                         "layer range [%d, %d) must not divide the layers that the model has in groups of %d", lo, hi,
                         d->n_part);
    if (lo && d->layer[lo].mix == MIX_MLA && d->layer[lo].mla->index_shared)
        return error_set(e, ERR_INVALID, "layers",
                         "layer range [%d, %d) must not begin at a layer that takes the keys which the indexer of an "
                         "earlier one chose",
                         lo, hi);
    return 0;
}

static int declare_all(struct model *m, const struct model_options *o, int elem_size, struct error *e)
{
    int lo = o->lo, hi = o->hi ? o->hi : m->desc.n_layer, err = check_range(&m->desc, lo, hi, e);
    if (err)
        return err;
    m->lo = lo;
    m->hi = hi;
    m->layer = arena_calloc(&m->arena, (size_t)m->desc.n_layer, sizeof *m->layer);
    if (!m->layer)
        return error_nomem(e, "the layers");
    m->kv_elem_size = elem_size;
    m->page_tokens = o->page_tokens;
    if (!declare(m))
        return error_nomem(e, "the layers");
    layout_targets(&m->params, &m->desc);
    err = params_finish(&m->params, e);
    if (err)
        return err;
    limit_widths(m);
    return make_ropes(m, e);
}

/* What failed is a fault beside others, unless there is no going on. */
static int collect(struct faults *f, const struct error *fault, struct error *e)
{
    if (fault->code == ERR_NOMEM) {
        if (e)
            *e = *fault;
        return fault->code;
    }
    if (fault->code)
        faults_add(f, fault->code, fault->param, "%s", fault->msg);
    return 0;
}

/* Reads config.json and the shards' headers. What is wrong with them goes to *f, so that one report has all; *described
 * tells whether the model's description could be made. */
static int open_files(struct model *m, const char *dir, model_describe *describe, const struct model_options *o,
                      struct faults *f, bool *described, struct error *e)
{
    struct error fault = {0}, shards = {0};
    int          err = config_load(&m->config, dir, "config.json", &fault);
    if (err == ERR_NOT_FOUND) { /* no model at all */
        if (e)
            *e = fault;
        return err;
    }
    if (!err)
        err = describe(&m->desc, m->config, &m->arena, &fault);
    if (!err)
        err = quant_config_check(m->config, &fault);
    *described = !err;
    err = collect(f, &fault, e);
    if (err)
        return err;
    checkpoint_open(&m->checkpoint, dir, o->headers_only, o->log, f, &shards);
    return collect(f, &shards, e);
}

/* Whether the files have a head of its own. */
static bool has_head(const struct model *m)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s.weight", m->desc.prefix, m->desc.name[NAME_HEAD]);
    return layout_find(&m->desc, m->checkpoint, name);
}

/* All that the model has, but for what files may be without, and these are. */
static void count_parameters(struct model *m)
{
    for (size_t i = 0; i < m->params.n; i++) {
        const struct param *p = &m->params.v[i];
        m->n_parameter += p->optional && !p->bytes ? 0 : param_elements(p);
    }
}

/* Declares the table and binds it: all that can be checked without reading a weight. */
static int open_model(struct model *m, const char *dir, model_describe *describe, const struct model_options *o,
                      struct error *e)
{
    struct faults f = {0};
    bool          described = false;
    int           err = open_files(m, dir, describe, o, &f, &described, e);
    if (!err && described && m->checkpoint) {
        enum tie tie = m->desc.tie;
        m->tied = tie == TIE_YES || (tie == TIE_BY_FILE && !has_head(m));
        err = declare_all(m, o, m->backend ? m->backend->kv_elem_size : 2, e);
        if (!err)
            params_bind(&m->params, &m->desc, m->checkpoint, m->lo, m->hi, &f);
        count_parameters(m);
    }
    if (!err)
        err = faults_report(&f, e);
    faults_deinit(&f);
    return err;
}

static int prepare(struct model *m, struct backend *backend, const struct param_change *change, struct error *e)
{
    int err = change ? change->begin(change->ctx, m, e) : 0;
    return err || !backend ? err : params_prepare(&m->params, backend, change, e);
}

static void warn_leftover(const struct layout_leftover *l, const struct log *log)
{
    char more[64] = "";
    if (l->n > 1)
        snprintf(more, sizeof more, ", and %zu more like it", l->n - 1);
    if (l->n)
        log_warning(log, "%s is left out beside %s, which is made of it%s", l->name, l->param, more);
}

int model_load(struct model **out, const char *dir, model_describe *describe, struct backend *backend,
               const struct model_options *o, struct error *e)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        return error_nomem(e, "the model");
    arena_init(&m->arena, ARENA_MAX);
    m->params.arena = &m->arena;
    m->backend = backend;
    int err = open_model(m, dir, describe, o, e);
    if (!err) {
        quant_config_compare(m->config, &m->params, o->log);
        warn_leftover(&m->params.leftover, o->log);
        err = prepare(m, backend, o->change, e);
    }
    if (err) {
        model_free(m);
        return err;
    }
    *out = m;
    return 0;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    if (m->backend)
        params_release(&m->params, m->backend);
    params_drop_all(&m->params);
    checkpoint_close(m->checkpoint);
    config_free(m->config);
    arena_deinit(&m->arena);
    free(m);
}
