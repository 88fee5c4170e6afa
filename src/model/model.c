/* Loading: describe the model, declare its table, bind it to the checkpoint, prepare the weights. The one load path. */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/quant_config.h"
#include "model/target.h"

#define ARENA_MAX ((size_t)256 << 20) /* descriptions, names and rows of the table, biases */

static void declare(struct model *m)
{
    struct params           *p = &m->params;
    const struct model_desc *d = &m->desc;
    params_add(p, ROLE_EMBED, SHARD_ROWS, -1, "model.embed_tokens", d->n_vocab, d->n_embd, "vocab_size, hidden_size",
               &m->embed);
    for (int i = 0; i < d->n_layer; i++) {
        struct layer *l = &m->layer[i];
        params_add(p, ROLE_NORM, SHARD_NONE, i, "model.layers.%d.input_layernorm", d->n_embd, 0, "hidden_size",
                   &l->mix_norm);
        params_add(p, ROLE_NORM, SHARD_NONE, i, "model.layers.%d.post_attention_layernorm", d->n_embd, 0, "hidden_size",
                   &l->ff_norm);
        switch (d->layer[i].mix) {
        case MIX_ATTN:
            mix_attn_declare(p, d, i, l);
            break;
        }
        switch (d->layer[i].ff) {
        case FF_GATED:
            ff_gated_declare(p, d, i, l);
            break;
        }
    }
    params_add(p, ROLE_NORM, SHARD_NONE, d->n_layer, "model.norm", d->n_embd, 0, "hidden_size", &m->norm);
    if (!m->tied)
        params_add(p, ROLE_HEAD, SHARD_ROWS, d->n_layer, "lm_head", d->n_vocab, d->n_embd, "vocab_size, hidden_size",
                   &m->head);
    else
        params_tied_head(p, "lm_head", &m->embed);
}

/* Offsets of each loaded layer's keys and values inside a cache page. */
static void place_kv(struct model *m, int elem_size, int page_tokens)
{
    for (int i = m->lo; i < m->hi; i++) {
        struct attn *a = &m->layer[i].attn.op;
        a->kv = (struct kv_layer){.n_kv_head = a->n_kv_head,
                                  .head_dim = a->head_dim,
                                  .elem_size = elem_size,
                                  .page_tokens = page_tokens,
                                  .offset = m->page_bytes};
        m->page_bytes += (kv_layer_bytes(&a->kv) + 63) / 64 * 64;
    }
}

static int make_ropes(struct model *m, struct error *e)
{
    for (int i = 0; i < m->desc.n_rope; i++) {
        const struct rope_desc *d = &m->desc.rope[i];
        float                  *freq = arena_calloc(&m->arena, (size_t)d->dims / 2 + 1, sizeof *freq);
        if (!freq)
            return error_nomem(e, "rope frequencies");
        rope_inv_freq(d, freq);
        m->rope[i] = (struct rope){.dims = d->dims, .interleaved = d->interleaved, .mscale = 1.0f, .inv_freq = freq};
    }
    return 0;
}

static int declare_all(struct model *m, const struct model_options *o, int elem_size, struct error *e)
{
    int lo = o->lo, hi = o->hi ? o->hi : m->desc.n_layer;
    if (lo < 0 || lo >= hi || hi > m->desc.n_layer)
        return error_set(e, ERR_INVALID, "layers", "layer range [%d, %d) is not within the model's %d layers", lo, hi,
                         m->desc.n_layer);
    m->lo = lo;
    m->hi = hi;
    m->layer = arena_calloc(&m->arena, (size_t)m->desc.n_layer, sizeof *m->layer);
    if (!m->layer)
        return error_nomem(e, "the layers");
    declare(m);
    int err = params_finish(&m->params, e);
    if (err)
        return err;
    for (size_t i = 0; i < m->params.n; i++)
        m->n_parameter += param_elements(&m->params.v[i]);
    place_kv(m, elem_size, o->page_tokens);
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

/* Declares the table and binds it: all that can be checked without reading a weight. */
static int open_model(struct model *m, const char *dir, model_describe *describe, const struct model_options *o,
                      struct error *e)
{
    struct faults f = {0};
    bool          described = false;
    int           err = open_files(m, dir, describe, o, &f, &described, e);
    if (!err && described && m->checkpoint) {
        enum tie tie = m->desc.tie;
        m->tied = tie == TIE_YES || (tie == TIE_BY_FILE && !checkpoint_find(m->checkpoint, "lm_head.weight"));
        err = declare_all(m, o, m->backend ? m->backend->kv_elem_size : 2, e);
        if (!err)
            params_bind(&m->params, &m->desc, m->checkpoint, m->lo, m->hi, &f);
    }
    if (!err)
        err = faults_report(&f, e);
    faults_deinit(&f);
    return err;
}

static int prepare(struct model *m, struct backend *backend, const struct param_change *change, struct error *e)
{
    int err = change ? change->begin(change->ctx, m, e) : 0;
    return err || !backend ? err : params_prepare(&m->params, m->checkpoint, backend, change, e);
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
    params_free_changed(&m->params);
    checkpoint_close(m->checkpoint);
    config_free(m->config);
    arena_deinit(&m->arena);
    free(m);
}
