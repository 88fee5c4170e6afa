/* Post-processors: the tokens put before and after a text (bos, eos, cls, sep). */
#ifndef MLXCEL_TEXT_POSTPROC_H
#define MLXCEL_TEXT_POSTPROC_H

#include "text/field.h"
#include "text/tokenizer.h"

struct postproc {
    struct ids before, after;
};

/* o may be NULL or null. Deinitialise also after an error. The ids are not checked against the vocabulary. */
int  postproc_load(struct postproc *p, struct component *c, const struct json_t *o);
void postproc_deinit(struct postproc *p);

#endif
