/* Bending a client's messages to what a template reads. Contracts in template.h and template_int.h.
 *
 * Templates differ in what they take: content as a string or as a list of parts, tool-call arguments as an object or as
 * the JSON string of the OpenAI API, system messages or none. Which one is found by rendering small conversations with
 * a needle in the place in question (the idea is llama.cpp's) and looking whether it comes out whole.
 */
#include <stdlib.h>

#include "base/num.h"
#include "chat/template_int.h"

#define NEEDLE "needle7Q"

/* --- probes
 * -------------------------------------------------------------------------------------------------------------------
 */

/* A template from a file alone has no special tokens, but may need them. */
static bool add_tokens(const struct chat_template *t, json_t *request)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!json_object_get(t->special, names[i]) && json_object_set_new(request, names[i], json_string("")))
            return false;
    return true;
}

struct probe {
    const struct chat_template *t;
    struct error               *e;
    int                         status; /* ERR_NOMEM, the only fault that counts */
};

/* Renders a conversation given as JSON text and says whether `wanted` comes out. */
static bool shows(struct probe *p, const char *request, const char *wanted)
{
    static const struct jinja_limits limits = {.output = 1 << 20, .memory = 16 << 20, .steps = 1000000};
    json_t                          *json = p->status ? NULL : json_loads(request, 0, NULL);
    struct error                     why = {0};
    struct buf                       out;
    int                              rc;
    buf_init(&out, limits.output);
    rc = json && add_tokens(p->t, json) ? template_render(p->t, json, 0, &limits, &out, &why)
                                        : error_nomem(&why, "trying the chat template");
    if (rc == ERR_NOMEM && !p->status)
        p->status = error_set(p->e, rc, NULL, "%s", why.msg);
    bool yes = !rc && strstr(buf_cstr(&out), wanted);
    buf_deinit(&out);
    json_decref(json);
    return yes;
}

#define USER "{\"role\":\"user\",\"content\":\"a\"}"
#define CHAT(role, content) "{\"messages\":[{\"role\":" role ",\"content\":" content "}]}"
#define SYSTEM_CHAT "{\"messages\":[{\"role\":\"system\",\"content\":\"" NEEDLE "\"}," USER "]}"
#define CALL(content, arguments)                                                                                       \
    "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":" content ",\"tool_calls\":[{\"id\":\"call00001\","   \
    "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":" arguments "}}]},{\"role\":\"tool\","           \
    "\"content\":\"b\",\"name\":\"f\",\"tool_call_id\":\"call00001\"}," USER "]}"
#define OBJECT "{\"" NEEDLE "\":\"x\"}"
#define TEXT "\"{\\\"" NEEDLE "\\\":\\\"x\\\"}\""
#define PYTHON "'" NEEDLE "'" /* such quotes show that a structure was printed as it is */
#define JSON "{\"" NEEDLE "\""

int template_probe(struct chat_template *t, struct error *e)
{
    struct probe            p = {.t = t, .e = e};
    struct template_traits *traits = &t->traits;
    const char             *parts = CHAT("\"user\"", "[{\"type\":\"text\",\"text\":\"" NEEDLE "\"}]");
    const char             *object = CALL("\"\"", OBJECT), *text = CALL("\"\"", TEXT);
    bool                    plain = shows(&p, CHAT("\"user\"", "\"" NEEDLE "\""), NEEDLE);
    traits->null_content = !shows(&p, object, NEEDLE) && !shows(&p, text, NEEDLE) &&
                           (shows(&p, CALL("null", OBJECT), NEEDLE) || shows(&p, CALL("null", TEXT), NEEDLE));
    if (traits->null_content) {
        object = CALL("null", OBJECT);
        text = CALL("null", TEXT);
    }
    traits->object_arguments = (shows(&p, object, NEEDLE) && !shows(&p, object, PYTHON)) || !shows(&p, text, JSON);
    traits->parts = shows(&p, parts, NEEDLE) && !shows(&p, parts, PYTHON);
    traits->text = plain || !traits->parts;
    traits->system = !plain || shows(&p, SYSTEM_CHAT, NEEDLE);
    return p.status;
}

/* --- content ----------------------------------------------------------------------------------------------------- */

static bool is_text_part(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return json_is_string(json_object_get(part, "text")) &&
           (!type || !strcmp(type, "text") || !strcmp(type, "input_text") || !strcmp(type, "output_text"));
}

/* The texts of all parts, one a line. */
static int join_parts(json_t *message, const json_t *parts, size_t at, struct error *e)
{
    struct buf    b;
    size_t        i;
    const json_t *part;
    int           rc = 0;
    buf_init(&b, SIZE_MAX / 2);
    json_array_foreach(parts, i, part)
    {
        const json_t *text = json_object_get(part, "text");
        if (!is_text_part(part)) {
            rc = error_set(e, ERR_INVALID, "messages",
                           "messages[%zu].content[%zu]: this model's chat template takes text parts only", at, i);
            break;
        }
        buf_puts(&b, i ? "\n" : "");
        buf_put(&b, json_string_value(text), json_string_length(text));
    }
    if (!rc && (b.failed || json_object_set_new(message, "content", json_stringn(buf_cstr(&b), b.n))))
        rc = error_nomem(e, "a message");
    buf_deinit(&b);
    return rc;
}

static int adapt_content(const struct template_traits *traits, json_t *message, size_t at, struct error *e)
{
    json_t *content = json_object_get(message, "content");
    bool    empty = !content || json_is_null(content) || (json_is_string(content) && !json_string_length(content));
    if (traits->null_content && empty && json_array_size(json_object_get(message, "tool_calls")))
        return json_object_set_new(message, "content", json_null()) ? error_nomem(e, "a message") : 0;
    if (!content || json_is_null(content)) {
        if (json_object_set_new(message, "content", json_string("")))
            return error_nomem(e, "a message");
        content = json_object_get(message, "content");
    }
    if (json_is_array(content) && !traits->parts)
        return join_parts(message, content, at, e);
    if (json_is_string(content) && !traits->text) {
        json_t *parts = json_pack("[{s:s,s:O}]", "type", "text", "text", content);
        if (!parts || json_object_set_new(message, "content", parts))
            return error_nomem(e, "a message");
    }
    return 0;
}

/* --- tool calls -------------------------------------------------------------------------------------------------- */

static int adapt_call(const struct template_traits *traits, json_t *call, size_t at, struct error *e)
{
    json_t      *function = json_object_get(call, "function"), *arguments, *changed = NULL;
    json_error_t why;
    if (!json_is_object(function))
        function = call; /* some clients leave the wrapping out */
    arguments = json_object_get(function, "arguments");
    if (json_is_string(arguments) && traits->object_arguments) {
        size_t n = json_string_length(arguments);
        changed = n ? json_loadb(json_string_value(arguments), n, JSON_ALLOW_NUL, &why) : json_object();
        if (!changed)
            return error_set(e, ERR_INVALID, "messages",
                             "messages[%zu].tool_calls: the arguments are not valid JSON: %s", at, why.text);
    } else if (json_is_object(arguments) && !traits->object_arguments) {
        char *text = json_dumps(arguments, JSON_PRESERVE_ORDER);
        changed = text ? json_string(text) : NULL;
        free(text);
        if (!changed)
            return error_nomem(e, "a tool call");
    }
    return changed && json_object_set_new(function, "arguments", changed) ? error_nomem(e, "a tool call") : 0;
}

static int adapt_message(const struct template_traits *traits, json_t *message, size_t at, struct error *e)
{
    json_t     *calls = json_object_get(message, "tool_calls"), *call;
    const char *role = json_string_value(json_object_get(message, "role"));
    size_t      i;
    int         rc = 0;
    if (role && !strcmp(role, "developer") && json_object_set_new(message, "role", json_string("system")))
        return error_nomem(e, "a message");
    if (json_is_null(calls))
        json_object_del(message, "tool_calls");
    else
        json_array_foreach(calls, i, call) if (!rc && json_is_object(call)) rc = adapt_call(traits, call, at, e);
    return rc ? rc : adapt_content(traits, message, at, e);
}

/* --- system messages --------------------------------------------------------------------------------------------- */

static bool has_role(const json_t *message, const char *role)
{
    const char *is = json_string_value(json_object_get(message, "role"));
    return is && !strcmp(is, role);
}

/* before and the message's text, an empty line between. */
static int prepend(json_t *message, const json_t *before, struct error *e)
{
    const json_t *content = json_object_get(message, "content");
    struct buf    b;
    int           rc = 0;
    buf_init(&b, SIZE_MAX / 2);
    buf_put(&b, json_string_value(before), json_string_length(before));
    buf_puts(&b, "\n\n");
    buf_put(&b, json_string_value(content), json_string_length(content));
    if (b.failed || json_object_set_new(message, "content", json_stringn(b.p, b.n)))
        rc = error_nomem(e, "a message");
    buf_deinit(&b);
    return rc;
}

/* A system message goes into the user message behind it, or becomes one where there is none. */
static int merge_system(json_t *messages, struct error *e)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i), *next = json_array_get(messages, i + 1);
        json_t *content = json_object_get(message, "content");
        if (!has_role(message, "system") || !json_is_string(content))
            continue;
        if (next && has_role(next, "user") && json_is_string(json_object_get(next, "content"))) {
            int rc = prepend(next, content, e);
            if (rc)
                return rc;
            json_array_remove(messages, i);
        } else if (json_object_set_new(message, "role", json_string("user")))
            return error_nomem(e, "a message");
    }
    return 0;
}

int chat_template_adapt(const struct chat_template *t, json_t *request, struct error *e)
{
    json_t *messages = json_object_get(request, "messages"), *message;
    size_t  i;
    int     rc = 0;
    if (!json_is_array(messages))
        return error_set(e, ERR_INVALID, "messages", "messages: a list of objects is needed");
    json_array_foreach(messages, i, message)
    {
        if (!json_is_object(message))
            return error_set(e, ERR_INVALID, "messages", "messages[%zu]: an object is needed", i);
        if ((rc = adapt_message(&t->traits, message, i, e)))
            return rc;
    }
    return t->traits.system ? 0 : merge_system(messages, e);
}
