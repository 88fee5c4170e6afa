/* The engine of engine.h: queue, admission, the step, events. */
#include "run/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "run/engine_int.h"

#define QUEUE_MAX 1024
#define LOGIT_ROWS 32       /* rows of the head computed at once for engine_logits */
#define PREFILL_QUANTUM 0.2 /* seconds that prompts may take in a step beside running answers */
#define PREFILL_ROWS_MIN 16

static int allocate(struct engine *g, struct error *e)
{
    const struct engine_options *o = &g->o;
    int                          rows = MAX(o->chunk, o->parallel);
    int64_t           pages = (int64_t)o->parallel * ((o->context + o->page_tokens - 1) / o->page_tokens + 1);
    struct run_limits lim = g->model->limits;
    size_t            row_bytes = (size_t)rows * sizeof(int32_t);
    lim.n_row = rows;
    lim.n_key = o->context;
    g->token = malloc(row_bytes);
    g->position = malloc(row_bytes);
    g->seq = malloc(row_bytes);
    g->logit_row = malloc(row_bytes);
    g->pages = calloc((size_t)o->parallel, sizeof *g->pages);
    g->state = calloc((size_t)o->parallel, sizeof *g->state);
    g->length = calloc((size_t)o->parallel, sizeof *g->length);
    g->lora = calloc((size_t)o->parallel, sizeof *g->lora);
    g->active = calloc((size_t)o->parallel, sizeof(struct seq *));
    g->eos = malloc((o->n_eos + 1) * sizeof *g->eos);
    if (!g->token || !g->position || !g->seq || !g->logit_row || !g->pages || !g->state || !g->length || !g->lora ||
        !g->active || !g->eos)
        return error_nomem(e, "the engine");
    if (o->n_eos)
        memcpy(g->eos, o->eos, o->n_eos * sizeof *g->eos);
    int err = page_pool_new(&g->pool, g->model->page_bytes, o->page_tokens, pages, e);
    if (!err)
        err = engine_states_new(g, e);
    if (err)
        return err;
    prefix_init(&g->prefix, g->pool, g->states);
    err = activations_init(&g->act, g->model, rows, MIN(rows, MAX(o->parallel, LOGIT_ROWS)), e);
    g->limits = lim;
    return err ? err : g->model->backend->reserve(g->model->backend, &lim, e);
}

int engine_reserve_rank(struct engine *g, const struct adapter_set *set, struct error *e)
{
    struct run_limits lim = g->limits;
    if (!set || set->lora->rank <= lim.n_rank)
        return 0;
    lim.n_rank = set->lora->rank;
    int err = g->model->backend->reserve(g->model->backend, &lim, e);
    if (!err)
        g->limits = lim;
    return err;
}

int engine_new(struct engine **out, const struct model *m, const struct tokenizer *t, const struct engine_options *o,
               struct error *e)
{
    struct engine *g = calloc(1, sizeof *g);
    if (!g)
        return error_nomem(e, "the engine");
    g->model = m;
    g->tokenizer = t;
    g->o = *o;
    g->last = &g->first;
    g->next_id = 1;
    g->row_seconds = 1e-3;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->work, NULL);
    int err = allocate(g, e);
    if (err) {
        engine_free(g);
        return err;
    }
    *out = g;
    return 0;
}

void engine_free(struct engine *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_active; i++)
        seq_free(g->active[i], g->pool, g->states);
    while (g->first) {
        struct seq *s = g->first;
        g->first = s->next;
        seq_free(s, NULL, NULL);
    }
    if (g->pool)
        prefix_deinit(&g->prefix);
    page_pool_free(g->pool);
    page_pool_free(g->states);
    activations_deinit(&g->act);
    free(g->token);
    free(g->position);
    free(g->seq);
    free(g->logit_row);
    free(g->pages);
    free(g->state);
    free(g->length);
    free(g->lora);
    free(g->active);
    free(g->eos);
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->work);
    free(g);
}

bool engine_is_eos(const struct engine *g, int32_t id)
{
    for (size_t i = 0; i < g->o.n_eos; i++)
        if (g->eos[i] == id)
            return true;
    return false;
}

int engine_check_tokens(const struct engine *g, const int32_t *tokens, size_t n, struct error *e)
{
    int n_vocab = g->model->desc.n_vocab;
    if (!n)
        return error_set(e, ERR_INVALID, "prompt", "the prompt has no tokens");
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= n_vocab)
            return error_set(e, ERR_INVALID, "prompt",
                             "token id %d at position %zu is outside the vocabulary (0 to %d)", (int)tokens[i], i,
                             n_vocab - 1);
    return 0;
}

int engine_submit(struct engine *g, const int32_t *prompt, size_t n_prompt, const struct mlxcel_params *params,
                  struct adapter_set *adapters, mlxcel_on_event *on_event, void *ctx, int64_t *id, struct error *e)
{
    struct seq *s;
    size_t      room = (size_t)g->o.context - (params->max_tokens != 0);
    int         err = engine_check_tokens(g, prompt, n_prompt, e);
    if (err)
        return err;
    if (n_prompt > room)
        return error_set(e, ERR_CONTEXT, "prompt",
                         "the prompt has %zu tokens, more than the context of %d tokens leaves room for; shorten it or "
                         "raise --ctx-size",
                         n_prompt, g->o.context);
    err = seq_new(&s, prompt, n_prompt, params, g->o.context, g->model->desc.n_vocab, g->tokenizer, e);
    if (err)
        return err;
    s->on_event = on_event;
    s->ctx = ctx;
    s->adapters = adapters;
    s->rope_length = model_rope_length(g->model, s->n_prompt);
    adapter_set_ref(adapters);
    pthread_mutex_lock(&g->lock);
    if (g->n_waiting == QUEUE_MAX) {
        pthread_mutex_unlock(&g->lock);
        seq_free(s, NULL, NULL);
        return error_set(e, ERR_BUSY, NULL, "the queue is full (%d requests are waiting); try again later", QUEUE_MAX);
    }
    s->id = g->next_id++;
    if (id)
        *id = s->id;
    *g->last = s;
    g->last = &s->next;
    g->n_waiting++;
    pthread_cond_signal(&g->work);
    pthread_mutex_unlock(&g->lock);
    return 0;
}

void engine_cancel(struct engine *g, int64_t id)
{
    pthread_mutex_lock(&g->lock);
    for (int i = 0; i < g->n_active; i++)
        if (g->active[i]->id == id)
            atomic_store(&g->active[i]->cancelled, true);
    for (struct seq *s = g->first; s; s = s->next)
        if (s->id == id)
            atomic_store(&s->cancelled, true);
    pthread_mutex_unlock(&g->lock);
}

void engine_wait_work(struct engine *g)
{
    pthread_mutex_lock(&g->lock);
    while (!g->first && !g->n_active && !g->woken)
        pthread_cond_wait(&g->work, &g->lock);
    g->woken = false;
    pthread_mutex_unlock(&g->lock);
}

void engine_wake(struct engine *g)
{
    pthread_mutex_lock(&g->lock);
    g->woken = true;
    pthread_cond_signal(&g->work);
    pthread_mutex_unlock(&g->lock);
}

struct prefix_key engine_prefix_key(const struct seq *s)
{
    struct prefix_key key = {.length = s->rope_length};
    if (s->adapters)
        memcpy(key.v, s->adapters->key, sizeof key.v);
    return key;
}

/* Takes the sequence in slot i out, delivers its last event unless `delivered`, and keeps its cache for later
 * prompts. */
static void retire(struct engine *g, int i, int finish, const struct error *error, bool delivered)
{
    struct seq *s = g->active[i];
    pthread_mutex_lock(&g->lock);
    g->active[i] = g->active[--g->n_active];
    pthread_mutex_unlock(&g->lock);
    if (!delivered)
        seq_end(s, finish, error, clock_now());
    if (!g->o.no_prefix_cache && finish != MLXCEL_FAILED)
        engine_keep_prefix(g, s);
    seq_free(s, g->pool, g->states);
}

static struct seq *next_waiting(struct engine *g)
{
    pthread_mutex_lock(&g->lock);
    struct seq *s = g->n_active < g->o.parallel ? g->first : NULL;
    if (s) {
        g->first = s->next;
        if (!g->first)
            g->last = &g->first;
        g->n_waiting--;
        s->next = NULL;
        g->active[g->n_active++] = s;
    }
    pthread_mutex_unlock(&g->lock);
    return s;
}

/* Takes over what earlier prompts computed. */
static void resume(struct engine *g, struct seq *s)
{
    int64_t shared = 0;
    if (g->o.no_prefix_cache)
        return;
    if (!s->params.no_cache_prompt)
        s->n_done = s->n_cached =
            prefix_lookup(&g->prefix, engine_prefix_key(s), s->tokens, s->n_prompt - 1, &s->pages, s->state, &shared);
    engine_snapshots_plan(g, s, shared);
}

static void admit(struct engine *g)
{
    struct seq  *s;
    struct error e;
    while ((s = next_waiting(g)) != NULL) {
        s->start = clock_now();
        s->admitted = true;
        if (engine_reserve_rank(g, s->adapters, &e) || engine_state_begin(g, s, &e))
            retire(g, g->n_active - 1, MLXCEL_FAILED, &e, false);
        else
            resume(g, s);
    }
}

/* Takes the cancelled sequences out of the queue: they must not keep others from being accepted. */
static struct seq *take_cancelled(struct engine *g)
{
    struct seq *taken = NULL, **at = &g->first;
    pthread_mutex_lock(&g->lock);
    while (*at) {
        struct seq *s = *at;
        if (!atomic_load(&s->cancelled)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        s->next = taken;
        taken = s;
        g->n_waiting--;
    }
    g->last = at;
    pthread_mutex_unlock(&g->lock);
    return taken;
}

static void retire_cancelled(struct engine *g)
{
    for (struct seq *s = take_cancelled(g), *next; s; s = next) {
        next = s->next;
        seq_end(s, MLXCEL_CANCELLED, NULL, clock_now());
        seq_free(s, NULL, NULL);
    }
    for (int i = g->n_active - 1; i >= 0; i--)
        if (atomic_load(&g->active[i]->cancelled))
            retire(g, i, MLXCEL_CANCELLED, NULL, false);
}

/* Pages for positions [0, tokens), giving up old prefixes when the pool is empty. */
static int ensure_pages(struct engine *g, struct seq *s, int64_t tokens, struct error *e)
{
    int err;
    do
        err = page_table_grow(&s->pages, g->pool, tokens, e);
    while (err && prefix_evict(&g->prefix));
    return err;
}

static bool is_decoding(const struct seq *s)
{
    return s->n_done == s->n_token - 1 && s->n_token > s->n_prompt;
}

/* Adds `rows` rows of slot i to the step; a logit row when its last token is among them. */
static void add_rows(struct engine *g, struct step *st, int i, int rows)
{
    struct seq *s = g->active[i];
    for (int k = 0; k < rows; k++, st->n_row++) {
        g->token[st->n_row] = s->tokens[s->n_done + k];
        g->position[st->n_row] = (int32_t)(s->n_done + k);
        g->seq[st->n_row] = i;
    }
    s->rows = rows;
    s->logit = -1;
    if (s->n_done + rows == s->n_token && s->n_token < s->n_max) {
        s->logit = st->n_logit;
        g->logit_row[st->n_logit++] = st->n_row - 1;
    }
    g->pages[i] = s->pages.v;
    g->state[i] = s->state;
    g->length[i] = (int32_t)s->rope_length;
}

static bool same_adapters(const struct seq *a, const struct seq *b)
{
    return a->adapters == b->adapters ||
           (a->adapters && b->adapters && !memcmp(a->adapters->key, b->adapters->key, sizeof a->adapters->key));
}

/* A row of each decoding sequence. Those with equal adapters stand together, with one set: its products are one
 * then. */
static void add_decoding(struct engine *g, struct step *st)
{
    for (int i = 0; i < g->n_active; i++) {
        if (!is_decoding(g->active[i]) || g->active[i]->rows)
            continue;
        for (int k = i; k < g->n_active; k++) {
            if (!is_decoding(g->active[k]) || !same_adapters(g->active[k], g->active[i]))
                continue;
            add_rows(g, st, k, 1);
            g->lora[k] = g->lora[i];
        }
    }
}

/* Rows that prompts may take in this step. */
static int prefill_budget(const struct engine *g, int n_decoding)
{
    int room =
        MAX(1, g->o.chunk - n_decoding); /* one row always fits: a prompt's slot is not among the decoding ones */
    if (!n_decoding)
        return room;
    double rows = PREFILL_QUANTUM / g->row_seconds;
    return MIN(room, MAX(PREFILL_ROWS_MIN, rows > 1e6 ? 1000000 : (int)rows));
}

/* Fills the step: decoding sequences first, then prompts in order of arrival (ids ascend). A sequence for which no page
 * is left fails alone. */
static void compose(struct engine *g, struct step *st)
{
    struct error e;
    int          n_decoding = 0;
    *st = (struct step){.token = g->token,
                        .position = g->position,
                        .seq = g->seq,
                        .logit_row = g->logit_row,
                        .pages = (void *const *const *)g->pages,
                        .state = g->states ? g->state : NULL,
                        .length = g->length};
    for (int i = g->n_active - 1; i >= 0; i--) {
        struct seq *s = g->active[i];
        int         err = ensure_pages(g, s, is_decoding(s) ? s->n_token : MIN(s->n_token, s->n_done + g->o.chunk), &e);
        if (err)
            retire(g, i, MLXCEL_FAILED, &e, false);
    }
    for (int i = 0; i < g->n_active; i++) {
        g->active[i]->rows = 0;
        g->active[i]->logit = -1;
        g->lora[i] = g->active[i]->adapters ? g->active[i]->adapters->lora : NULL;
        if (g->lora[i])
            st->lora = g->lora;
        n_decoding += is_decoding(g->active[i]);
    }
    add_decoding(g, st);
    for (int budget = prefill_budget(g, n_decoding); budget > 0;) {
        int oldest = -1;
        for (int i = 0; i < g->n_active; i++)
            if (!g->active[i]->rows && (oldest < 0 || g->active[i]->id < g->active[oldest]->id))
                oldest = i;
        if (oldest < 0)
            break;
        struct seq *s = g->active[oldest];
        int         rows = (int)engine_rows_to_snapshot(s, MIN((int64_t)budget, s->n_token - s->n_done));
        add_rows(g, st, oldest, rows);
        budget -= rows;
    }
    st->n_seq = g->n_active;
}

static void accept_rows(struct engine *g, double now)
{
    for (int i = g->n_active - 1; i >= 0; i--) {
        struct seq   *s = g->active[i];
        struct sample drawn;
        struct error  e;
        s->n_done += s->rows;
        engine_snapshot(g, s);
        if (s->logit < 0) {
            if (s->n_done == s->n_max) /* a prompt with max_tokens 0 */
                retire(g, i, MLXCEL_LENGTH, NULL, false);
            continue;
        }
        if (sampler_pick(s->sampler, tensor_row(g->act.logits, s->logit), s->tokens, (size_t)s->n_token,
                         (uint64_t)(s->n_token - s->n_prompt), &drawn)) {
            error_set(&e, ERR_INTERNAL, NULL, "the model computed logits that are not numbers");
            retire(g, i, MLXCEL_FAILED, &e, false);
            continue;
        }
        int finish = seq_accept(s, &drawn, engine_is_eos(g, drawn.token), now);
        if (finish)
            retire(g, i, finish, NULL, true);
    }
}

static void measure(struct engine *g, int rows, double seconds)
{
    bool enough = rows >= PREFILL_ROWS_MIN;
    if (enough || !g->row_measured)
        g->row_seconds = seconds / rows;
    g->row_measured |= enough;
}

int engine_step(struct engine *g, int *active, struct error *e)
{
    struct step st;
    struct run  run = {.backend = g->model->backend, .step = &st};
    (void)e;
    retire_cancelled(g);
    admit(g);
    compose(g, &st);
    if (st.n_row) {
        double start = clock_now();
        model_forward(g->model, &run, &g->act);
        if (st.n_logit)
            model_logits(g->model, &run, &g->act, 0, st.n_logit);
        double now = clock_now();
        measure(g, st.n_row, now - start);
        accept_rows(g, now);
    }
    pthread_mutex_lock(&g->lock);
    *active = g->n_active + g->n_waiting;
    pthread_mutex_unlock(&g->lock);
    return 0;
}
