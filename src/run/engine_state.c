/* The recurrent state of sequences: a block each, and snapshots of it for later prompts that begin alike.
 *
 * A sequence leaves a snapshot where it ends (its block itself), and behind two places of its prompt: where the prompt parts
 * from what others had in common with it (a system prompt that is not cached for itself yet), and before its last token (the
 * same prompt again; the prompt with another answer). Both only behind at least SPACING positions that it computes itself:
 * fewer cost less than a snapshot and the step that ends there. */
#include <string.h>

#include "run/engine_int.h"

#define SPACING 64

int engine_states_new(struct engine *g, struct error *e)
{
    size_t  bytes = g->model->limits.n_state;
    int64_t snapshots = g->o.snapshots ? g->o.snapshots : prefix_snapshot_limit(bytes);
    if (g->o.no_prefix_cache)
        snapshots = 0;
    return bytes ? page_pool_new(&g->states, bytes, 1, g->o.parallel + snapshots, e) : 0;
}

int64_t engine_snapshot_bytes(const struct model *m)
{
    size_t bytes = m->limits.n_state;
    return bytes ? prefix_snapshot_limit(bytes) * (int64_t)bytes : 0;
}

int engine_state_begin(struct engine *g, struct seq *s, struct error *e)
{
    if (!g->states)
        return 0;
    s->state = prefix_take_state(&g->prefix);
    if (!s->state)
        return error_nomem(e, "a sequence's state");
    memset(s->state, 0, page_pool_bytes(g->states));
    return 0;
}

void engine_snapshots_plan(const struct engine *g, struct seq *s, int64_t shared)
{
    int64_t at[2] = {shared, s->n_prompt - 1}, last = s->n_done;
    for (int i = 0; g->states && i < 2; i++)
        if (at[i] >= last + SPACING)
            s->snapshot_at[i] = last = at[i];
}

/* The place of the next snapshot; 0: none. */
static int64_t next_snapshot(const struct seq *s)
{
    for (int i = 0; i < 2; i++)
        if (s->snapshot_at[i] > s->n_done)
            return s->snapshot_at[i];
    return 0;
}

int64_t engine_rows_to_snapshot(const struct seq *s, int64_t rows)
{
    int64_t next = next_snapshot(s);
    return next && next - s->n_done < rows ? next - s->n_done : rows;
}

void engine_snapshot(struct engine *g, struct seq *s)
{
    struct page_table pages = {0};
    if (!s->rows || (s->n_done != s->snapshot_at[0] && s->n_done != s->snapshot_at[1]))
        return;
    void *copy = prefix_take_state(&g->prefix);
    if (!copy)
        return;
    if (page_table_fork(&pages, g->pool, &s->pages, s->n_done, NULL)) {
        page_table_deinit(&pages, g->pool);
        page_unref(g->states, copy);
        return;
    }
    memcpy(copy, s->state, page_pool_bytes(g->states));
    prefix_store(&g->prefix, engine_prefix_key(s), s->tokens, s->n_done, &pages, &(struct snapshot){s->n_done, copy, 0},
                 1);
}

void engine_keep_prefix(struct engine *g, struct seq *s)
{
    struct snapshot last = {s->n_done, s->state, 0};
    bool            has_state = s->state && s->n_done;
    prefix_store(&g->prefix, engine_prefix_key(s), s->tokens, s->n_done, &s->pages, &last, has_state);
    if (has_state)
        s->state = NULL;
}
