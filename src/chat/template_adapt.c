/* Bending a client's messages to what a template reads, which template_probe.c found. Contracts in template.h. */
#include <stdlib.h>

#include "base/num.h"
#include "base/pyjson.h"
#include "chat/template_int.h"

/* --- content ----------------------------------------------------------------------------------------------------- */

static bool has_role(const json_t *message, const char *role)
{
    const char *is = json_string_value(json_object_get(message, "role"));
    return is && !strcmp(is, role);
}

static bool is_text_part(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return json_is_string(json_object_get(part, "text")) &&
           (!type || !strcmp(type, "text") || !strcmp(type, "input_text") || !strcmp(type, "output_text"));
}

static bool all_text(const json_t *parts)
{
    size_t        i;
    const json_t *part;
    json_array_foreach(parts, i, part) if (!is_text_part(part)) return false;
    return true;
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
    bool    is_user = has_role(message, "user"); /* other roles' lists are read by fewer templates than the user's */
    bool    empty = !content || json_is_null(content) || (json_is_string(content) && !json_string_length(content));
    if (traits->null_content && empty && json_array_size(json_object_get(message, "tool_calls")))
        return json_object_set_new(message, "content", json_null()) ? error_nomem(e, "a message") : 0;
    if (!content || json_is_null(content)) {
        if (json_object_set_new(message, "content", json_string("")))
            return error_nomem(e, "a message");
        content = json_object_get(message, "content");
    }
    if (json_is_array(content) && (!traits->parts || (traits->text && !is_user && all_text(content))))
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
    json_t *function = json_object_get(call, "function"), *arguments, *changed = NULL;
    if (!json_is_object(function))
        function = call; /* some clients leave the wrapping out */
    arguments = json_object_get(function, "arguments");
    if (json_is_string(arguments) && traits->object_arguments) {
        size_t       n = json_string_length(arguments);
        struct error why = {0};
        if (!n)
            changed = json_object();
        else if (pyjson_parse(&changed, (struct str){json_string_value(arguments), n}, "arguments", &why) &&
                 why.code != ERR_NOMEM)
            return error_set(e, ERR_INVALID, "messages", "messages[%zu].tool_calls: %s", at, why.msg);
        if (!changed)
            return error_nomem(e, "a tool call");
    } else if (json_is_object(arguments) && !traits->object_arguments) {
        char *text = json_dumps(arguments, JSON_PRESERVE_ORDER);
        changed = text ? json_string(text) : NULL;
        free(text);
        if (!changed)
            return error_nomem(e, "a tool call");
    }
    return changed && json_object_set_new(function, "arguments", changed) ? error_nomem(e, "a tool call") : 0;
}

/* What the calls are written behind has no text at its end that they need a new line for. */
static bool ends_blank(const json_t *content)
{
    size_t        n = json_array_size(content);
    const json_t *last = n ? json_array_get(content, n - 1) : NULL;
    if (!json_is_array(content))
        return !json_string_length(content);
    return !last || (is_text_part(last) && !json_string_length(json_object_get(last, "text")));
}

/* A template that shows no tool calls gets them as JSON, a line each, behind the content: in its text, or as one more
 * of its parts. */
static int write_calls(json_t *message, json_t *calls, struct error *e)
{
    json_t    *content = json_object_get(message, "content"), *call;
    bool       parts = json_is_array(content), blank = ends_blank(content);
    struct buf b;
    size_t     i;
    buf_init(&b, SIZE_MAX / 2);
    if (!parts)
        buf_put(&b, json_string_value(content), json_string_length(content));
    json_array_foreach(calls, i, call)
    {
        json_t *function = json_object_get(call, "function");
        char   *text = json_dumps(function ? function : call, JSON_PRESERVE_ORDER | JSON_ENCODE_ANY);
        buf_puts(&b, i || !blank ? "\n" : "");
        buf_puts(&b, text ? text : "");
        b.failed |= !text;
        free(text);
    }
    json_t *text = b.failed ? NULL : json_stringn(buf_cstr(&b), b.n);
    int     failed = parts ? json_array_append_new(content, json_pack("{s:s,s:o}", "type", "text", "text", text))
                           : json_object_set_new(message, "content", text);
    buf_deinit(&b);
    return failed || json_object_del(message, "tool_calls") ? error_nomem(e, "a tool call") : 0;
}

static int adapt_calls(const struct template_traits *traits, json_t *message, size_t at, struct error *e)
{
    json_t *calls = json_object_get(message, "tool_calls"), *call;
    size_t  i;
    int     rc = 0;
    if (json_is_null(calls))
        json_object_del(message, "tool_calls");
    json_array_foreach(calls, i, call) if (!rc && json_is_object(call)) rc = adapt_call(traits, call, at, e);
    return rc;
}

/* The reasoning, under whichever name it comes, under the name that the template reads. */
static int adapt_reasoning(const struct template_traits *traits, json_t *message, struct error *e)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    for (size_t i = 0; traits->reasoning && i < ARRAY_LEN(names); i++) {
        json_t *text = json_object_get(message, names[i]);
        if (!json_is_string(text) || json_is_string(json_object_get(message, traits->reasoning)))
            continue;
        return json_object_set(message, traits->reasoning, text) ? error_nomem(e, "a message") : 0;
    }
    return 0;
}

static int adapt_message(const struct template_traits *traits, json_t *message, size_t at, struct error *e)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const char *acts_as = !role                                       ? NULL
                          : !strcmp(role, "developer")                ? "system"
                          : !strcmp(role, "tool") && !traits->results ? "user"
                                                                      : NULL;
    int         rc;
    if (acts_as && json_object_set_new(message, "role", json_string(acts_as)))
        return error_nomem(e, "a message");
    if ((rc = adapt_calls(traits, message, at, e)) || (rc = adapt_content(traits, message, at, e)) ||
        (rc = adapt_reasoning(traits, message, e)))
        return rc;
    json_t *calls = json_object_get(message, "tool_calls");
    return json_array_size(calls) && !traits->calls ? write_calls(message, calls, e) : 0;
}

/* --- messages that become one ------------------------------------------------------------------------------------ */

/* The contents of a run of messages: texts with an empty line between, until a list comes; then all are parts. */
struct merged {
    struct buf text;
    json_t    *parts;
};

static json_t *text_part(const char *text, size_t n)
{
    return json_pack("{s:s,s:s%}", "type", "text", "text", text, n);
}

/* Adds the content of the run's first message or of a later one; false when out of memory. */
static bool merge_content(struct merged *m, json_t *content, bool first)
{
    const char *text = json_string_value(content);
    size_t      n = json_string_length(content);
    if (text && !m->parts) {
        buf_puts(&m->text, first ? "" : "\n\n");
        buf_put(&m->text, text, n);
        return !m->text.failed;
    }
    if (!m->parts && (!(m->parts = json_array()) ||
                      (!first && json_array_append_new(m->parts, text_part(buf_cstr(&m->text), m->text.n)))))
        return false;
    return !(text ? json_array_append_new(m->parts, text_part(text, n)) : json_array_extend(m->parts, content));
}

/* Gives the last of messages[from, to) the contents of all. */
static int merge_run(json_t *messages, size_t from, size_t to, struct error *e)
{
    struct merged m = {.parts = NULL};
    bool          ok = true;
    buf_init(&m.text, SIZE_MAX / 2);
    for (size_t i = from; i < to && ok; i++)
        ok = merge_content(&m, json_object_get(json_array_get(messages, i), "content"), i == from);
    json_t *content = !ok ? NULL : m.parts ? json_incref(m.parts) : json_stringn(buf_cstr(&m.text), m.text.n);
    int     failed = json_object_set_new(json_array_get(messages, to - 1), "content", content);
    json_decref(m.parts);
    buf_deinit(&m.text);
    return failed ? error_nomem(e, "a message") : 0;
}

/* Where the run that begins at messages[i] ends, i + 1 where a message stays alone. */
typedef size_t run_end(const json_t *messages, size_t i);

/* Every run becomes its last message. The list is made anew: taking messages out of it would move the rest each time. */
static int merge_runs(json_t *messages, run_end *end_of, struct error *e)
{
    json_t *kept = json_array();
    int     rc = kept ? 0 : error_nomem(e, "the messages");
    for (size_t i = 0, end; i < json_array_size(messages) && !rc; i = end) {
        end = end_of(messages, i);
        if (end - i > 1)
            rc = merge_run(messages, i, end, e);
        if (!rc && json_array_append(kept, json_array_get(messages, end - 1)))
            rc = error_nomem(e, "the messages");
    }
    if (!rc && (json_array_clear(messages) || json_array_extend(messages, kept)))
        rc = error_nomem(e, "the messages");
    json_decref(kept);
    return rc;
}

static bool has_text(const json_t *message)
{
    return json_is_string(json_object_get(message, "content"));
}

/* A system message and the user message behind it. */
static size_t system_end(const json_t *messages, size_t i)
{
    const json_t *message = json_array_get(messages, i), *next = json_array_get(messages, i + 1);
    return has_role(message, "system") && has_text(message) && has_role(next, "user") && has_text(next) ? i + 2 : i + 1;
}

/* A system message goes into the user message behind it, or becomes one where there is none. */
static int merge_system(json_t *messages, struct error *e)
{
    size_t  i;
    json_t *message;
    int     rc = merge_runs(messages, system_end, e);
    json_array_foreach(messages, i, message)
    {
        if (!rc && has_role(message, "system") && has_text(message) &&
            json_object_set_new(message, "role", json_string("user")))
            rc = error_nomem(e, "a message");
    }
    return rc;
}

static bool can_merge(const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "content"), *y = json_object_get(b, "content");
    bool          user = has_role(a, "user") && has_role(b, "user");
    bool          assistant = has_role(a, "assistant") && has_role(b, "assistant");
    return (user || assistant) && !json_object_get(a, "tool_calls") && !json_object_get(b, "tool_calls") &&
           (json_is_string(x) || json_is_array(x)) && (json_is_string(y) || json_is_array(y));
}

/* Messages of one role, where the template wants roles to alternate. */
static size_t same_role_end(const json_t *messages, size_t i)
{
    for (i++; i < json_array_size(messages); i++)
        if (!can_merge(json_array_get(messages, i - 1), json_array_get(messages, i)))
            break;
    return i;
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
    if (!t->traits.system)
        rc = merge_system(messages, e);
    return rc || t->traits.repeats ? rc : merge_runs(messages, same_role_end, e);
}
