/* The text of one answer as it grows: ids become printable text, stop strings end it.
 *
 * Text that could be the beginning of a stop string is held back until it is decided; when the answer ends otherwise it is
 * emitted. The concatenation of all pieces is the whole text before the stop string that begins first in it, whatever the
 * tokens' borders. */
#ifndef MLXCEL_RUN_ANSWER_H
#define MLXCEL_RUN_ANSWER_H

#include "text/detok.h"

struct answer {
    struct detok detok;
    bool         has_text; /* false: no tokenizer, only ids */
    char       **stop;     /* owned copies */
    size_t       n_stop, stop_max;
    struct buf   held; /* decoded, not yet emitted */
};

/* Copies the stop strings; empty ones are ignored. t may be NULL. ERR_INVALID: more than 64, or one longer than 4096 bytes.
 * Deinit also after a failure. */
int  answer_init(struct answer *a, const struct tokenizer *t, bool keep_special, const char *const *stop, size_t n_stop,
                 struct error *e);
void answer_deinit(struct answer *a);
/* Adds one id; appends what may be shown to out. *hit: the stop string that ended the answer (of several at one place the
 * longest that is complete), or NULL. ERR_NOMEM. */
int answer_push(struct answer *a, int32_t id, struct buf *out, const char **hit);
/* The end of the ids: appends the rest to out, again up to a stop string. */
int answer_finish(struct answer *a, struct buf *out, const char **hit);

#endif
