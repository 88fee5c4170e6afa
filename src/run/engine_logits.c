/* engine_logits: steps over tokens that are known, with a cache of their own, beside the sequences of the queue. */
#include <math.h>

#include "base/huge.h"
#include "base/num.h"
#include "run/engine_int.h"

/* NaN becomes the one NaN: which sign and payload a sum of two NaNs keeps depends on the order of its operands. */
static void copy_logits(float *out, const float *logits, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = isnan(logits[i]) ? NAN : logits[i];
}

static void logits_step(struct engine *g, struct page_table *t, void *state, const struct lora_set *lora,
                        int32_t length, const int32_t *tokens, int64_t first, int rows, float *out)
{
    void *const *pages = t->v;
    struct step  st = {.n_row = rows,
                       .token = tokens + first,
                       .position = g->position,
                       .seq = g->seq,
                       .pages = &pages,
                       .state = state ? &state : NULL,
                       .length = &length,
                       .n_seq = 1,
                       .n_logit = rows,
                       .logit_row = g->logit_row,
                       .lora = lora ? &lora : NULL};
    struct run   run = {.backend = g->model->backend, .step = &st};
    int          n_vocab = g->model->desc.n_vocab;
    for (int i = 0; i < rows; i++) {
        g->position[i] = (int32_t)(first + i);
        g->seq[i] = 0;
        g->logit_row[i] = i;
    }
    model_forward(g->model, &run, &g->act);
    for (int i = 0; i < rows; i += g->act.n_logit) {
        int n = MIN(g->act.n_logit, rows - i);
        model_logits(g->model, &run, &g->act, i, n);
        for (int k = 0; k < n; k++)
            copy_logits(out + (size_t)(first + i + k) * (size_t)n_vocab, tensor_row(g->act.logits, k), n_vocab);
    }
}

int engine_logits(struct engine *g, const int32_t *tokens, size_t n, int chunk, const struct adapter_set *adapters,
                  float *out, struct error *e)
{
    struct page_pool *pool = NULL;
    struct page_table table = {0};
    struct huge       memory = {0};
    void             *state = NULL;
    int               err = engine_check_tokens(g, tokens, n, e);
    if (err)
        return err;
    if (n > (size_t)g->o.context)
        return error_set(e, ERR_CONTEXT, "tokens", "%zu tokens are more than the context of %d", n, g->o.context);
    err = engine_reserve_rank(g, adapters, e);
    if (!err)
        err = page_pool_new(&pool, g->model->page_bytes, g->o.page_tokens, INT64_MAX, e);
    if (!err)
        err = page_table_grow(&table, pool, (int64_t)n, e);
    if (!err && g->states && !(state = huge_alloc(&memory, g->model->limits.n_state)))
        err = error_nomem(e, "a sequence's state");
    if (chunk <= 0 || chunk > g->o.chunk)
        chunk = g->o.chunk;
    for (int64_t i = 0; !err && i < (int64_t)n; i += chunk)
        logits_step(g, &table, state, adapters ? adapters->lora : NULL,
                    (int32_t)model_rope_length(g->model, (int64_t)n), tokens, i,
                    (int)MIN((int64_t)chunk, (int64_t)n - i), out);
    if (pool)
        page_table_deinit(&table, pool);
    page_pool_free(pool);
    huge_deinit(&memory);
    return err;
}
