/* How `tokenize --pieces` shows tokens: to people, to scripts, as JSON. */
#ifndef MLXCEL_CLI_PIECES_H
#define MLXCEL_CLI_PIECES_H

#include <jansson.h>

#include "text/tokenizer.h"

/* [{"id", "piece", "start", "end", "special"}, ...]; piece as the vocabulary writes it. NULL: out of memory. */
json_t *pieces_json(const struct tokenizer *t, const struct token_pieces *p);

/* A line per token on stdout: id, bytes START..END, text in quotes. Separated by one tab, or, on a terminal, in columns,
 * the texts in two colours by turns unless NO_COLOR is set. ERR_NOMEM. */
int pieces_print(const struct tokenizer *t, const struct token_pieces *p, struct error *e);

#endif
