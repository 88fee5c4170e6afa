/* A conversation: messages so far, and one turn after another that the model answers. */
#ifndef MLXCEL_CLI_CONVERSATION_H
#define MLXCEL_CLI_CONVERSATION_H

#include <jansson.h>

#include "cli/reply.h"

struct conversation {
    struct mlxcel       *m;
    struct mlxcel_params params;
    struct mlxcel_info   info;
    json_t              *messages; /* a system message or none, then user, assistant, user, ... */
};

/* system: the first message, or NULL. Refuses a model without a chat template. */
int  conversation_init(struct conversation *c, struct mlxcel *m, const struct mlxcel_params *params, const char *system,
                       struct error *e);
void conversation_deinit(struct conversation *c); /* fine on a zeroed one */

/* Sets the system message, or removes it when text is empty; the turns stay. */
int  conversation_system(struct conversation *c, const char *text, struct error *e);
void conversation_clear(struct conversation *c); /* forgets the turns, keeps the system message */

/* Answers one turn into a (see reply_run) and remembers both. When the conversation no longer fits the context, the
 * oldest turns are dropped, with a note on stderr. A turn that failed is not remembered. */
int conversation_turn(struct conversation *c, struct str text, struct reply *a, struct error *e);

#endif
