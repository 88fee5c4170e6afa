/* Chat templates: from messages to a prompt. (Placeholder until the template module lands; the names are final.) */
#ifndef MLXCEL_CHAT_TEMPLATE_H
#define MLXCEL_CHAT_TEMPLATE_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct chat_template;
int  chat_template_load(struct chat_template **out, const char *dir, struct error *e);
int  chat_template_from_source(struct chat_template **out, struct str source, const char *name, struct error *e);
void chat_template_free(struct chat_template *t);
int  chat_template_render(const struct chat_template *t, const json_t *request, int64_t now, struct buf *out,
                          struct error *e);
int  chat_template_adapt(const struct chat_template *t, json_t *request, struct error *e);

#endif
