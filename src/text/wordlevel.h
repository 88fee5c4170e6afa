/* WordLevel: the model whose tokens are whole pieces. */
#ifndef MLXCEL_TEXT_WORDLEVEL_H
#define MLXCEL_TEXT_WORDLEVEL_H

#include "text/tokenizer.h"
#include "text/vocab.h"

struct wordlevel {
    const struct vocab *vocab;
    int32_t             unk_id; /* -1: unknown pieces are an error */
};

/* Without an unk_id. There is nothing to free. */
void wordlevel_init(struct wordlevel *m, const struct vocab *vocab);
/* Appends the id of one piece. ERR_NOMEM, ERR_INVALID (an unknown piece, no unk_id). */
int wordlevel_encode(const struct wordlevel *m, struct str piece, struct ids *out, struct error *e);

#endif
