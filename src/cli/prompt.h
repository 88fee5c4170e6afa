/* From texts and messages to the ids that a model is given. */
#ifndef MLXCEL_CLI_PROMPT_H
#define MLXCEL_CLI_PROMPT_H

#include <jansson.h>

#include "base/buf.h"
#include "base/error.h"
#include "mlxcel.h"

struct prompt {
    int32_t *ids; /* freed with mlxcel_free */
    size_t   n;
};

/* {"role": role, "content": text}, text of n bytes; NULL with *e set when it is not UTF-8. */
json_t *prompt_message(const char *role, struct str text, struct error *e);
/* Appends such a message to an array. */
int prompt_add(json_t *messages, const char *role, struct str text, struct error *e);

/* The chat template's rendering of an array of messages, up to where the answer begins. */
int prompt_from_messages(struct prompt *p, const struct mlxcel *m, json_t *messages, struct error *e);
/* The text as it is, with the tokens that open a text; special tokens written in it count. */
int  prompt_from_text(struct prompt *p, const struct mlxcel *m, struct str text, struct error *e);
void prompt_deinit(struct prompt *p);

#endif
