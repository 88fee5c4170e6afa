/* Rendering for people who must not write control tokens: the same text, and where in it a token that they typed stands,
 * so that it can be tokenized as plain text (tokenizer_encode_plain), while those that the template writes count.
 *
 * Control tokens are the tokenizer's special tokens and those of its other added tokens that the template mentions (the
 * rule of transformers' sanitize_control_tokens); white space is none. What a template pieces together from a client's
 * strings, as in '<|' + role + '|>', it writes itself.
 */
#ifndef MLXCEL_CHAT_TEMPLATE_PLAIN_H
#define MLXCEL_CHAT_TEMPLATE_PLAIN_H

#include "chat/template.h"
#include "text/tokenizer.h"

/* As chat_template_render. All strings of the request count as typed by people, names of members do not. The request's
 * strings are marked while the template works with them, which it can notice (length, slices) only where there is a
 * control token. Errors: also ERR_INVALID if the request uses up the 32 noncharacters that may be marks. */
int chat_template_render_plain(const struct chat_template *t, const struct tokenizer *tokenizer, const json_t *request,
                               int64_t now, struct buf *out, struct plain_spans *plain, struct error *e);

#endif
