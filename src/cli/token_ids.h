/* Lists of token ids as JSON arrays. */
#ifndef MLXCEL_CLI_TOKEN_IDS_H
#define MLXCEL_CLI_TOKEN_IDS_H

#include <jansson.h>

#include "base/error.h"
#include "text/tokenizer.h"

/* Appends the integers of a JSON array. ERR_INVALID names what is no array, no integer or beyond 32 bits, and where. */
int token_ids_from_json(struct ids *ids, const json_t *value, const char *name, struct error *e);
/* "1,2,3"; blanks around a number are fine. `name` is the option, for messages. */
int     token_ids_from_text(struct ids *ids, const char *text, const char *name, struct error *e);
json_t *token_ids_to_json(const struct ids *ids); /* NULL: out of memory */

#endif
