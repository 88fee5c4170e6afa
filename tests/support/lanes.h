/* Sequences whose steps a test composes itself, over a fixture of tests/data/arch: a rig is the model with what a forward
 * pass needs, a lane is a sequence with the logits of all its positions. Included behind cmocka.h. */
#ifndef MLXCEL_TESTS_LANES_H
#define MLXCEL_TESTS_LANES_H

#include <string.h>

#include "base/num.h"
#include "cache/pages.h"
#include "support/fixture.h"

#define ROWS_MAX 64
#define LANES_MAX 8
#define RANK_MAX 64 /* of a lane's adapters */

static int kv_elem_size; /* of all rigs; 0: the precision's own */

/* A sequence under test: its tokens, how many are in the cache, its logits so far. */
struct lane {
    int32_t               *tokens;
    int                    n, done;
    struct page_table      pages;
    void                  *state;  /* recurrent; NULL: the model has none */
    float                 *logits; /* [n][n_vocab] */
    const struct lora_set *set;
};

struct rig {
    struct fixture     f;
    struct page_pool  *pool;
    struct activations act;
    int                n_vocab, page_tokens;
};

static uint32_t        rng_state;
static inline uint32_t rnd(uint32_t n)
{
    rng_state = rng_state * 1664525u + 1013904223u;
    return (rng_state >> 8) % n;
}

static inline void rig_open(struct rig *r, const char *model, int threads, int level, enum precision p, int page_tokens,
                            int keys)
{
    struct error       e;
    struct run_limits  lim;
    struct cpu_options cpu = {.threads = threads, .level = level, .precision = p, .kv_elem_size = kv_elem_size};
    assert_int_equal(fixture_load_on(&r->f, model, &cpu, page_tokens, &e), 0);
    lim = r->f.model->limits;
    lim.n_row = ROWS_MAX;
    lim.n_key = keys;
    lim.n_rank = RANK_MAX;
    r->n_vocab = r->f.model->desc.n_vocab;
    r->page_tokens = page_tokens;
    assert_int_equal(page_pool_new(&r->pool, r->f.model->page_bytes, page_tokens, 1000, &e), 0);
    assert_int_equal(activations_init(&r->act, r->f.model, ROWS_MAX, ROWS_MAX, &e), 0);
    assert_int_equal(r->f.backend->reserve(r->f.backend, &lim, &e), 0);
}

static inline void rig_close(struct rig *r)
{
    activations_deinit(&r->act);
    page_pool_free(r->pool);
    fixture_close(&r->f);
}

static inline void lane_init(struct lane *l, const struct rig *r, int n, uint32_t seed)
{
    rng_state = seed;
    *l = (struct lane){.n = n, .tokens = malloc((size_t)n * 4), .logits = calloc((size_t)n * (size_t)r->n_vocab, 4)};
    for (int i = 0; i < n; i++)
        l->tokens[i] = (int32_t)rnd((uint32_t)r->n_vocab);
    l->state = state_new(r->f.model);
}

static inline void lane_deinit(struct lane *l, struct rig *r)
{
    page_table_deinit(&l->pages, r->pool);
    free(l->tokens);
    free(l->logits);
    free(l->state);
}

/* One step: rows[i] rows of each lane; all their logits are kept. */
static inline void step(struct rig *r, struct lane *lanes, const int *rows, int n_lane)
{
    int32_t                token[ROWS_MAX], position[ROWS_MAX], seq[ROWS_MAX], logit_row[ROWS_MAX];
    void *const           *pages[LANES_MAX];
    void                  *state[LANES_MAX];
    const struct lora_set *lora[LANES_MAX];
    struct step            st = {
                   .token = token, .position = position, .seq = seq, .logit_row = logit_row, .pages = pages, .state = state};
    struct run run = {.backend = r->f.backend, .step = &st};
    for (int i = 0; i < n_lane; i++) {
        struct lane *l = &lanes[i];
        assert_int_equal(page_table_grow(&l->pages, r->pool, l->done + rows[i], NULL), 0);
        pages[i] = l->pages.v;
        state[i] = l->state;
        lora[i] = l->set;
        if (l->set)
            st.lora = lora;
        for (int k = 0; k < rows[i]; k++, st.n_row++) {
            token[st.n_row] = l->tokens[l->done + k];
            position[st.n_row] = l->done + k;
            seq[st.n_row] = i;
            logit_row[st.n_row] = st.n_row;
        }
    }
    st.n_seq = n_lane;
    st.n_logit = st.n_row;
    model_forward(r->f.model, &run, &r->act);
    model_logits(r->f.model, &run, &r->act, 0, st.n_row);
    for (int i = 0, row = 0; i < n_lane; i++)
        for (int k = 0; k < rows[i]; k++, row++, lanes[i].done++)
            memcpy(lanes[i].logits + (size_t)lanes[i].done * (size_t)r->n_vocab, tensor_row(r->act.logits, row),
                   (size_t)r->n_vocab * sizeof(float));
}

static inline void assert_same(const struct lane *got, const struct lane *want, int n_vocab, const char *what)
{
    assert_int_equal(got->done, got->n);
    for (int i = 0; i < got->n; i++)
        if (memcmp(got->logits + (size_t)i * (size_t)n_vocab, want->logits + (size_t)i * (size_t)n_vocab,
                   (size_t)n_vocab * sizeof(float)))
            fail_msg("%s: the logits at position %d differ", what, i);
}

#endif
