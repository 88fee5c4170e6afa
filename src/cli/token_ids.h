/* Lists of token ids as JSON arrays. */
#ifndef MLXCEL_CLI_TOKEN_IDS_H
#define MLXCEL_CLI_TOKEN_IDS_H

#include "base/error.h"
#include "text/tokenizer.h"

/* Appends the integers of a text that is one flat JSON array; `name` says in messages where it came from. Memory grows
 * with the ids only. ERR_FORMAT: not JSON; ERR_INVALID: no array, no integer, outside 0..2^31 - 1, and at which
 * position. */
int token_ids_from_json(struct ids *ids, struct str text, const char *name, struct error *e);
/* "1,2,3"; blanks around a number are fine. `name` is the option, for messages. */
int token_ids_from_text(struct ids *ids, const char *text, const char *name, struct error *e);

#endif
