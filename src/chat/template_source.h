/* Which template text is meant: the named templates of a model, built-in ones, a text of the caller. Internal to the
 * template module. */
#ifndef MLXCEL_CHAT_TEMPLATE_SOURCE_H
#define MLXCEL_CHAT_TEMPLATE_SOURCE_H

#include "chat/template_int.h"

/* Adds to `named` (name -> {"source", "file"}) the templates of a model directory: chat_template.jinja as "default" and
 * additional_chat_templates/NAME.jinja, or when there are neither, chat_template of chat_template.json, or when there
 * is none, of tokenizer_config.json. */
int template_collect(json_t *named, const char *dir, const json_t *config, struct error *e);
/* Parses into t->main and t->tool_use what `choice` says; see chat_template_load. `where` names the model, or NULL. */
int template_choose(struct chat_template *t, const json_t *named, const struct chat_template_choice *choice,
                    const char *where, struct error *e);

/* A JSON object in a file of the model; a missing file leaves *out NULL. */
int template_load_json(json_t **out, const char *dir, const char *file, struct error *e);

#endif
