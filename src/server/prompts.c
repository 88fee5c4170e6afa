/* See prompts.h. */
#include "server/prompts.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "server/server_int.h"

void prompts_deinit(struct prompts *p)
{
    for (int i = 0; i < p->n; i++)
        free(p->ids[i]);
    free(p->ids);
    free(p->n_ids);
    memset(p, 0, sizeof *p);
}

static int reserve(struct prompts *p, size_t n, struct error *e)
{
    if (!n || n > PROMPTS_MAX)
        return error_set(e, ERR_INVALID, "prompt", "prompt has %zu entries, 1 to %d are allowed", n, PROMPTS_MAX);
    p->ids = calloc(n, sizeof *p->ids);
    p->n_ids = calloc(n, sizeof *p->n_ids);
    return p->ids && p->n_ids ? 0 : error_nomem(e, "the prompts");
}

static int add_text(struct prompts *p, const char *text, size_t n, unsigned flags, const struct mlxcel *m,
                    struct error *e)
{
    struct mlxcel_error err;
    if (mlxcel_tokenize(m, text, n, flags, &p->ids[p->n], &p->n_ids[p->n], &err))
        return error_import(e, &err);
    p->n++;
    return 0;
}

static int add_ids(struct prompts *p, const json_t *list, struct error *e)
{
    size_t   n = json_array_size(list);
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    if (!ids)
        return error_nomem(e, "the prompts");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t    id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id > INT32_MAX) {
            free(ids);
            return error_set(e, ERR_INVALID, "prompt", "prompt holds something that is not a token id at %zu", i);
        }
        ids[i] = (int32_t)id;
    }
    p->ids[p->n] = ids;
    p->n_ids[p->n++] = n;
    return 0;
}

int prompts_read(struct prompts *p, const json_t *prompt, bool parse_special, const struct mlxcel *m, struct error *e)
{
    unsigned      flags = MLXCEL_ADD_SPECIAL | (parse_special ? MLXCEL_PARSE_SPECIAL : 0u);
    const json_t *v;
    size_t        i;
    memset(p, 0, sizeof *p);
    if (!json_is_string(prompt) && !json_is_array(prompt))
        return error_set(e, ERR_INVALID, "prompt", "prompt must be a string, a list of token ids, or a list of these");
    bool one = json_is_string(prompt) || json_is_integer(json_array_get(prompt, 0));
    int  err = reserve(p, one ? 1 : json_array_size(prompt), e);
    if (err)
        return err;
    if (json_is_string(prompt))
        return add_text(p, json_string_value(prompt), json_string_length(prompt), flags, m, e);
    if (one)
        return add_ids(p, prompt, e);
    json_array_foreach(prompt, i, v)
    {
        if (json_is_string(v))
            err = add_text(p, json_string_value(v), json_string_length(v), flags, m, e);
        else if (json_is_array(v))
            err = add_ids(p, v, e);
        else
            err = error_set(e, ERR_INVALID, "prompt", "prompt[%zu] must be a string or a list of token ids", i);
        if (err)
            return err;
    }
    return 0;
}

static bool is_blank(const char *s)
{
    return s[strspn(s, " \t\r\n")] == '\0';
}

/* A message's content: a string, null, or text parts. *blank is cleared when there is something in it. */
static int check_content(const json_t *content, size_t i, bool *blank, struct error *e)
{
    const json_t *part;
    size_t        k;
    if (!content || json_is_null(content))
        return 0;
    if (json_is_string(content)) {
        *blank &= is_blank(json_string_value(content));
        return 0;
    }
    if (!json_is_array(content))
        return error_set(e, ERR_INVALID, "messages", "messages[%zu].content must be a string or a list of parts", i);
    json_array_foreach(content, k, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const char *text = json_string_value(json_object_get(part, "text"));
        if (!type || strcmp(type, "text") != 0 || !text)
            return error_set(e, ERR_INVALID, "messages",
                             "messages[%zu].content[%zu] is of type \"%s\"; only text parts are supported", i, k,
                             type ? type : "none");
        *blank &= is_blank(text);
    }
    return 0;
}

static int check_messages(const json_t *messages, struct error *e)
{
    const json_t *m;
    size_t        i;
    bool          blank = true;
    if (!json_is_array(messages) || !json_array_size(messages))
        return error_set(e, ERR_INVALID, "messages", "messages must be a list with at least one message");
    json_array_foreach(messages, i, m)
    {
        const char *role = json_string_value(json_object_get(m, "role"));
        if (!role)
            return error_set(e, ERR_INVALID, "messages", "messages[%zu] must be an object with a role", i);
        int err = check_content(json_object_get(m, "content"), i, &blank, e);
        if (err)
            return err;
    }
    return blank ? error_set(e, ERR_INVALID, "messages", "all messages are empty") : 0;
}

static int check_kwargs(const json_t *kwargs, struct error *e)
{
    static const char *const reserved[] = {"messages", "chat_template"};
    if (kwargs && !json_is_null(kwargs) && !json_is_object(kwargs))
        return error_set(e, ERR_INVALID, "chat_template_kwargs", "chat_template_kwargs must be an object");
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
        if (json_object_get(kwargs, reserved[i]))
            return error_set(e, ERR_INVALID, "chat_template_kwargs", "chat_template_kwargs cannot set %s", reserved[i]);
    return 0;
}

/* The template's variables as a JSON text (to be freed). */
static int chat_request(char **out, json_t *body, const struct request_params *params, struct error *e)
{
    json_t *messages = json_object_get(body, "messages"), *kwargs = json_object_get(body, "chat_template_kwargs");
    int     code = check_messages(messages, e);
    if (!code)
        code = check_kwargs(kwargs, e);
    if (code)
        return code;
    json_t *request = json_is_object(kwargs) ? json_copy(kwargs) : json_object();
    json_object_set(request, "messages", messages);
    json_object_set_new(request, "add_generation_prompt", json_boolean(params->add_generation_prompt));
    json_object_set_new(request, "continue_final_message", json_boolean(params->continue_final_message));
    *out = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    return *out ? 0 : error_nomem(e, "the chat");
}

/* A fault of a chat's rendering: the template refused these messages. */
static int refused(const struct mlxcel_error *err, struct error *e)
{
    error_import(e, err);
    if (e->code != ERR_NOMEM)
        e->code = ERR_INVALID;
    return e->code;
}

int prompts_chat_text(char **text, json_t *body, const struct request_params *params, const struct mlxcel *m,
                      struct error *e)
{
    struct mlxcel_error err;
    char               *request = NULL;
    int                 code = chat_request(&request, body, params, e);
    if (!code && mlxcel_render_chat(m, request, true, text, &err))
        code = refused(&err, e);
    free(request);
    return code;
}

int prompts_render_chat(struct prompts *p, json_t *body, const struct request_params *params, const struct mlxcel *m,
                        struct error *e)
{
    struct mlxcel_error err;
    char               *request = NULL;
    memset(p, 0, sizeof *p);
    int code = chat_request(&request, body, params, e);
    if (!code)
        code = reserve(p, 1, e);
    unsigned flags = params->parse_special ? MLXCEL_PARSE_SPECIAL : 0;
    if (!code && mlxcel_tokenize_chat(m, request, flags, &p->ids[0], &p->n_ids[0], &err))
        code = refused(&err, e);
    p->n = !code;
    free(request);
    return code;
}
