/* See prompt.h. */
#include "cli/prompt.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "cli/api.h"

json_t *prompt_message(const char *role, struct str text, struct error *e)
{
    size_t  valid = utf8_valid_prefix(text.p, text.n);
    json_t *message;
    if (valid < text.n) {
        error_set(e, ERR_INVALID, NULL, "the %s message is not valid UTF-8 at byte %zu", role, valid);
        return NULL;
    }
    message = json_pack("{s:s, s:s%}", "role", role, "content", text.p, text.n);
    if (!message)
        error_nomem(e, "the message");
    return message;
}

int prompt_add(json_t *messages, const char *role, struct str text, struct error *e)
{
    json_t *message = prompt_message(role, text, e);
    if (!message)
        return e->code;
    return json_array_append_new(messages, message) ? error_nomem(e, "the messages") : 0;
}

static int tokenize(struct prompt *p, const struct mlxcel *m, struct str text, unsigned flags, struct error *e)
{
    struct mlxcel_error fault = {0};
    return mlxcel_tokenize(m, text.p, text.n, flags, &p->ids, &p->n, &fault) ? api_fault(&fault, e) : 0;
}

int prompt_from_messages(struct prompt *p, const struct mlxcel *m, json_t *messages, struct error *e)
{
    struct mlxcel_error fault = {0};
    json_t             *request = json_pack("{s:O, s:b}", "messages", messages, "add_generation_prompt", 1);
    char               *json = request ? json_dumps(request, JSON_COMPACT) : NULL;
    char               *text = NULL;
    int                 rc = json ? 0 : error_nomem(e, "the messages");
    if (!rc && mlxcel_render_chat(m, json, true, &text, &fault))
        rc = api_fault(&fault, e);
    if (!rc)
        rc = tokenize(p, m, str_of(text), MLXCEL_PARSE_SPECIAL, e);
    mlxcel_free(text);
    free(json);
    json_decref(request);
    return rc;
}

int prompt_from_text(struct prompt *p, const struct mlxcel *m, struct str text, struct error *e)
{
    return tokenize(p, m, text, MLXCEL_ADD_SPECIAL | MLXCEL_PARSE_SPECIAL, e);
}

void prompt_deinit(struct prompt *p)
{
    mlxcel_free(p->ids);
    *p = (struct prompt){0};
}
