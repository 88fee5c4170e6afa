/* What the files of the engine share. */
#ifndef MLXCEL_RUN_ENGINE_INT_H
#define MLXCEL_RUN_ENGINE_INT_H

#include <pthread.h>

#include "cache/prefix.h"
#include "run/engine.h"
#include "run/seq.h"

struct engine {
    const struct model     *model;
    const struct tokenizer *tokenizer;
    struct engine_options   o;
    int32_t                *eos;
    struct page_pool       *pool;
    struct page_pool   *states; /* a page is a sequence's recurrent state, or a snapshot; NULL: the model has none */
    struct prefix_cache prefix;
    struct activations  act;
    struct run_limits   limits; /* of the backend's scratch */

    /* the step under construction: owner's thread only */
    int32_t                *token, *position, *seq, *logit_row; /* [chunk] */
    void                 ***pages;                              /* [parallel] */
    void                  **state;                              /* [parallel] */
    int32_t                *length;                             /* [parallel] */
    const struct lora_set **lora;                               /* [parallel] */
    struct seq            **active; /* [parallel]; slots [0, n_active); guarded by lock for cancel */
    int                     n_active;
    double                  row_seconds;  /* time of a prompt's row, as the last such step took */
    bool                    row_measured; /* until then: of a step of few rows, which bounds it from above */

    pthread_mutex_t lock; /* guards the rest and active */
    pthread_cond_t  work;
    struct seq     *first, **last; /* waiting, in order of arrival */
    int             n_waiting;
    int64_t         next_id;
    bool            woken;
};

/* Makes the backend's scratch large enough for a set of adapters (NULL is fine); between steps. */
int engine_reserve_rank(struct engine *g, const struct adapter_set *set, struct error *e);
/* Refuses none at all, and ids that the model does not have. */
int engine_check_tokens(const struct engine *g, const int32_t *tokens, size_t n, struct error *e);

/* Recurrent state (engine_state.c). All do nothing where the model has none. */

/* The pool of states: one for each slot, and the snapshots. */
int engine_states_new(struct engine *g, struct error *e);
/* Gives an admitted sequence its state: zeros, as before position 0. */
int engine_state_begin(struct engine *g, struct seq *s, struct error *e);
/* Says where in its prompt a sequence leaves snapshots. shared: how long a beginning it has in common with earlier ones. */
void engine_snapshots_plan(const struct engine *g, struct seq *s, int64_t shared);
/* Rows that a step may take of the sequence: at most `rows`, and not beyond the next snapshot. */
int64_t engine_rows_to_snapshot(const struct seq *s, int64_t rows);
/* Behind a step: leaves the snapshot that is due. */
void engine_snapshot(struct engine *g, struct seq *s);
/* Gives the cache of a sequence that ends, and its state, to the prefix cache. */
void engine_keep_prefix(struct engine *g, struct seq *s);

/* What of the prefix cache is the sequence's. */
struct prefix_key engine_prefix_key(const struct seq *s);

#endif
