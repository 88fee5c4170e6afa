/* One sequence of the engine: its tokens, its cache pages, its sampler and its text. Internal to src/run. */
#ifndef MLXCEL_RUN_SEQ_H
#define MLXCEL_RUN_SEQ_H

#include <stdatomic.h>

#include "adapt/adapt.h"
#include "cache/pages.h"
#include "mlxcel.h"
#include "run/answer.h"
#include "sample/sampler.h"

struct seq {
    int64_t              id;
    struct seq          *next;   /* in the waiting queue */
    struct mlxcel_params params; /* strings and lists are not used after seq_new */
    mlxcel_on_event     *on_event;
    void                *ctx;
    atomic_bool          cancelled;
    int32_t             *tokens; /* [n_token] prompt and answer, cap n_max */
    int64_t              n_token, n_prompt, n_max;
    int64_t              rope_length; /* model_rope_length of the prompt */
    int64_t              n_done;      /* positions whose keys and values are in the cache */
    int64_t              n_cached;
    struct page_table    pages;
    void                *state;          /* recurrent, behind the n_done positions; NULL: the model has none */
    int64_t              snapshot_at[2]; /* positions of the prompt behind which a snapshot is left; 0: none */
    struct adapter_set  *adapters;       /* a reference; NULL: the base alone */
    struct sampler      *sampler;
    struct answer        answer;
    int32_t             *stop_ids;
    size_t               n_stop_ids;
    double               start, first; /* clock: admitted, first token */
    bool                 admitted;
    int                  rows;  /* in the current step */
    int                  logit; /* index of its logit row in the current step, -1 none */
    struct buf           text;
};

/* Copies prompt and params; n_max: tokens that it may hold. */
int seq_new(struct seq **out, const int32_t *prompt, size_t n_prompt, const struct mlxcel_params *params, int64_t n_max,
            int n_vocab, const struct tokenizer *t, struct error *e);
/* pool, states: where its pages and its state come from; NULL where it has none. */
void seq_free(struct seq *s, struct page_pool *pool, struct page_pool *states);

/* Takes the token that was drawn: appends it, makes the event and delivers it. eos: it ends an answer. Returns the finish
 * (enum mlxcel_finish). */
int seq_accept(struct seq *s, const struct sample *drawn, bool eos, double now);
/* Delivers the last event of a sequence that ends without a token. */
void seq_end(struct seq *s, int finish, const struct error *error, double now);

#endif
