/* The prompts of a request as token ids. */
#ifndef MLXCEL_SERVER_PROMPTS_H
#define MLXCEL_SERVER_PROMPTS_H

#include <jansson.h>

#include "base/error.h"
#include "mlxcel.h"
#include "server/params.h"

#define PROMPTS_MAX 64

struct prompts {
    int32_t **ids; /* [n] */
    size_t   *n_ids;
    int       n;
};

/* `prompt` of completions: a string, a list of ids, a list of strings, or a list of lists of ids. parse_special: special
 * tokens written in a string count as such. */
int prompts_read(struct prompts *p, const json_t *prompt, bool parse_special, const struct mlxcel *m, struct error *e);
/* The chat's messages through the model's template. params: how the text ends, and whether control tokens written in the
 * messages count as such. */
int prompts_render_chat(struct prompts *p, json_t *body, const struct request_params *params, const struct mlxcel *m,
                        struct error *e);
/* The rendered text of a chat request (to be freed with mlxcel_free). */
int  prompts_chat_text(char **text, json_t *body, const struct request_params *params, const struct mlxcel *m,
                       struct error *e);
void prompts_deinit(struct prompts *p);

#endif
