/* The engine: one model computing for many sequences at once, by continuous batching.
 *
 * engine_submit queues a sequence (any thread). engine_step (the owner's thread) admits waiting sequences into free
 * slots, computes one forward pass over the rows of all of them - one row per decoding sequence, the rest of the step's
 * rows for prompts in order of arrival - draws tokens and calls the sequences' event functions. The command line calls
 * it in a loop, the server from its engine thread; a single request is a batch of one.
 *
 * Requests and events are the public header's structs; text is detokenized and stop strings are found here, so that
 * every front end behaves alike.
 */
#ifndef MLXCEL_RUN_ENGINE_H
#define MLXCEL_RUN_ENGINE_H

#include "adapt/adapt.h"
#include "base/log.h"
#include "mlxcel.h"
#include "model/model.h"
#include "text/tokenizer.h"

struct engine;

struct engine_options {
    int            context;  /* tokens of one sequence */
    int            parallel; /* sequences at once */
    int            chunk;    /* rows of a step */
    int            page_tokens;
    bool           no_prefix_cache;
    int            snapshots; /* most copies of recurrent state for later prompts; 0: prefix_snapshot_limit */
    const int32_t *eos;       /* ids that end an answer; copied */
    size_t         n_eos;
};

/* model and tokenizer (may be NULL) are borrowed. */
int  engine_new(struct engine **out, const struct model *m, const struct tokenizer *t, const struct engine_options *o,
                struct error *e);
void engine_free(struct engine *g);

/* adapters: what the sequence runs with, whatever params->lora says; NULL: the base alone. The engine takes references
 * of its own. */
int  engine_submit(struct engine *g, const int32_t *prompt, size_t n_prompt, const struct mlxcel_params *params,
                   struct adapter_set *adapters, mlxcel_on_event *on_event, void *ctx, int64_t *id, struct error *e);
void engine_cancel(struct engine *g, int64_t id);
int  engine_step(struct engine *g, int *active, struct error *e);
void engine_wait_work(struct engine *g);
void engine_wake(struct engine *g);
/* Most that an engine's prefix cache takes for copies of a model's recurrent state, unless told; 0 where it has none. */
int64_t engine_snapshot_bytes(const struct model *m);
bool    engine_is_eos(const struct engine *g, int32_t id);

/* Logits of all positions, out[n * n_vocab], with a cache of its own. chunk <= 0: the engine's. */
int engine_logits(struct engine *g, const int32_t *tokens, size_t n, int chunk, const struct adapter_set *adapters,
                  float *out, struct error *e);

/* Copies an internal error into a public one (NULL is fine) and returns its code. */
int error_export(const struct error *from, struct mlxcel_error *to);

#endif
