/* Chat templates: from messages to the text that the model reads, as transformers' apply_chat_template makes it.
 *
 * A template is found and parsed once per model and may then be rendered by any thread. Rendering changes nothing about
 * the messages; chat_template_adapt, which the chat routes and `run` call before, is what bends a client's messages to
 * what the template can read.
 */
#ifndef MLXCEL_CHAT_TEMPLATE_H
#define MLXCEL_CHAT_TEMPLATE_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct chat_template;

/* Which template to take instead of a model's own; at most one of the two. */
struct chat_template_choice {
    const char
        *name; /* of one of the model's templates, of a built-in one, or a template's text, which has Jinja marks */
    const char *file; /* a path */
};

/* The template of a model directory. A model may have several, by name: chat_template.jinja is "default" and each
 * additional_chat_templates/NAME.jinja is NAME; where there is no such file, chat_template of chat_template.json, else
 * of tokenizer_config.json, is one string or a list of {name, template}. "default" is taken, and "tool_use", if there
 * is one, for requests that have tools. `choice` (NULL: none) takes another one for all requests. The texts of special
 * tokens (bos_token, ...) come from tokenizer_config.json, else special_tokens_map.json. No other file is read. dir may
 * be NULL with a choice: no special tokens are known then. ERR_NOT_FOUND names where it looked, or the known names;
 * ERR_FORMAT, ERR_LIMIT, ERR_IO, ERR_NOMEM, ERR_USAGE. */
int chat_template_load(struct chat_template **out, const char *dir, const struct chat_template_choice *choice,
                       struct error *e);
/* The same from a template's text; no special tokens are known then. `name` is for messages. */
int  chat_template_from_source(struct chat_template **out, struct str source, const char *name, struct error *e);
void chat_template_free(struct chat_template *t); /* NULL is fine */

/* request: {"messages": [...], "tools": [...], "documents": [...], "add_generation_prompt": false,
 * "continue_final_message": false, any other key: a variable of the template}; borrowed, unchanged. tools and documents
 * that are missing are None. continue_final_message ends the text right behind the last message's content. now: the
 * Unix time that strftime_now shows. Appends to out. ERR_INVALID names the field; otherwise as jinja_render. */
int chat_template_render(const struct chat_template *t, const json_t *request, int64_t now, struct buf *out,
                         struct error *e);

/* Changes request's messages to what the template reads, found by trying it when it was loaded: the role developer
 * becomes system; content that is null or missing becomes "" (null beside tool calls where the template asks for it); a
 * list of text parts becomes one string, lines joined, or a string a list of one part; tool-call arguments become an
 * object or a JSON string; reasoning is copied to the name that the template reads. A template without system messages
 * gets them put before the next user message, one that wants roles to alternate gets messages of one role joined, one
 * without tools gets tool calls as JSON lines of the content and results as user messages. ERR_INVALID names the field
 * (arguments that are not JSON, parts that are not text where the template takes only text). */
int chat_template_adapt(const struct chat_template *t, json_t *request, struct error *e);

#endif
