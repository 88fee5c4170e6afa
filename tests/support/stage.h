/* A range of a model's layers with all that a step of it takes, for tests that compose steps themselves: one sequence, which
 * may have an adapter. Rows go from stage to stage as they stand in the residual stream. */
#ifndef MLXCEL_TESTS_STAGE_H
#define MLXCEL_TESTS_STAGE_H

#include "adapt/adapt.h"
#include "base/num.h"
#include "cache/pages.h"
#include "fixture.h"

#define STAGE_ROWS 24 /* of the sequence, at most */

struct stage {
    struct fixture      f;
    struct page_pool   *pool;
    struct page_table   table;
    void               *state;
    struct adapter     *adapter;
    struct adapter_set *set;
    struct activations  act;
};

static inline int stage_add_adapter(struct stage *s, const char *path, const struct cpu_options *c, struct error *e)
{
    struct backend *prepare;
    int             err = cpu_backend_new(&prepare, c, e);
    if (err)
        return err;
    err = adapter_load(&s->adapter, path, s->f.model, prepare, NULL, e);
    if (!err)
        err = adapter_set_new(&s->set, &(struct adapter_use){s->adapter, 1}, 1, e);
    prepare->free(prepare);
    return err;
}

static inline void stage_close(struct stage *s)
{
    activations_deinit(&s->act);
    if (s->pool)
        page_table_deinit(&s->table, s->pool);
    page_pool_free(s->pool);
    free(s->state);
    adapter_set_unref(s->set);
    adapter_unref(s->adapter);
    fixture_close(&s->f);
}

/* Layers [lo, hi) of the model in dir (hi 0: to the end), with an adapter of the whole model if `adapter` is not NULL. To be
 * closed also where it fails. */
static inline int stage_open(struct stage *s, const char *dir, const char *adapter, int threads, int lo, int hi,
                             struct error *e)
{
    struct cpu_options   c = {.threads = threads, .level = -1};
    struct model_options o = {.lo = lo, .hi = hi, .page_tokens = KV_TILE};
    struct fixture      *f = &s->f;
    *s = (struct stage){0};
    int err = cpu_backend_new(&f->backend, &c, e);
    if (!err)
        err = model_load(&f->model, dir, arch_describe, f->backend, &o, e);
    if (!err && adapter)
        err = stage_add_adapter(s, adapter, &c, e);
    if (!err)
        err = page_pool_new(&s->pool, f->model->page_bytes, KV_TILE, 4, e);
    if (!err)
        err = page_table_grow(&s->table, s->pool, STAGE_ROWS, e);
    if (!err)
        err = activations_init(&s->act, f->model, STAGE_ROWS, STAGE_ROWS, e);
    if (err)
        return err;
    struct run_limits lim = f->model->limits;
    s->state = state_new(f->model);
    lim.n_row = lim.n_key = STAGE_ROWS;
    lim.n_rank = s->set ? s->set->lora->rank : 0;
    return f->backend->reserve(f->backend, &lim, e);
}

/* Rows [first, first + n) of a sequence of tokens that every stage makes alike, in one step: those of the stage before (NULL:
 * this one begins with the tokens) become this one's, and where it is the last, also logits. */
static inline void stage_run(struct stage *s, const struct stage *before, int first, int n)
{
    const struct model    *m = s->f.model;
    int32_t                token[STAGE_ROWS], position[STAGE_ROWS], row[STAGE_ROWS], seq[STAGE_ROWS] = {0};
    void *const           *pages = s->table.v;
    const struct lora_set *lora = s->set ? s->set->lora : NULL;
    struct step            st = {.n_row = n,
                                 .token = token,
                                 .position = position,
                                 .seq = seq,
                                 .pages = &pages,
                                 .n_seq = 1,
                                 .state = s->state ? &s->state : NULL,
                                 .n_logit = n,
                                 .logit_row = row,
                                 .lora = lora ? &lora : NULL};
    struct run             run = {.backend = s->f.backend, .step = &st};
    for (int i = 0; i < n; i++) {
        position[i] = first + i;
        token[i] = (position[i] * 37 + 11) % m->desc.n_vocab;
        row[i] = i;
        if (before)
            memcpy(tensor_row(s->act.x, i), tensor_row(before->act.x, i), (size_t)s->act.x.n_col * sizeof(float));
    }
    model_forward(m, &run, &s->act);
    if (m->hi == m->desc.n_layer)
        model_logits(m, &run, &s->act, 0, n);
}

#endif
