/* Normalizers: what is done to a piece of text before it is split. */
#ifndef MLXCEL_TEXT_NORMALIZER_H
#define MLXCEL_TEXT_NORMALIZER_H

#include "text/finder.h"

struct normalizer_step;
struct normalizer {
    struct normalizer_step *v;
    size_t                  n, cap;
};

/* o may be NULL or null: nothing is done. Deinitialise also after an error. */
int normalizer_load(struct normalizer *z, struct component *c, const struct json_t *o);
/* Appends the step Precompiled with a blob of charsmap.h; c->arena keeps it. */
int  normalizer_add_charsmap(struct normalizer *z, struct component *c, struct str blob);
void normalizer_deinit(struct normalizer *z);

/* Two buffers that the steps fill in turn. */
struct normalizer_scratch {
    struct buf a, b;
    size_t     left; /* bytes that runs may still make, each counted where its text is longest */
};
/* total: bytes of all the text that it is going to see; it sets `left`, see growth.h. */
void normalizer_scratch_init(struct normalizer_scratch *s, size_t total);
void normalizer_scratch_deinit(struct normalizer_scratch *s);
/* *out is a view of `in` or of the scratch, until its next use. *head: how many of its first bytes stand for the first
 * character of `in`, which pre-tokenizers treat apart; 0 when that was left out. ERR_NOMEM, ERR_LIMIT (of patterns, of
 * growth). */
int normalizer_run(const struct normalizer *z, struct str in, struct normalizer_scratch *s, struct finder_run *find,
                   struct str *out, size_t *head, struct error *e);
/* One of its steps alone, i < z->n. */
int normalizer_run_step(const struct normalizer *z, size_t i, struct str in, struct normalizer_scratch *s,
                        struct finder_run *find, struct str *out, struct error *e);

#endif
