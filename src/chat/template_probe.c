/* Finding out what a template reads. Contracts in template_int.h.
 *
 * Templates differ in what they take: content as a string or as a list of parts, tool-call arguments as an object or as
 * the JSON string of the OpenAI API, system and tool messages, two messages of one role in a row. Which one is found by
 * rendering small conversations with a needle in the place in question (the idea is llama.cpp's) and looking whether it
 * comes out whole.
 */
#include "base/num.h"
#include "chat/template_int.h"

#define NEEDLE "needle7Q"

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
    static const struct jinja_limits limits = {.output = 1 << 18, .memory = 4 << 20, .steps = 100000};
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
#define TWO_IN_A_ROW "{\"messages\":[" USER ",{\"role\":\"user\",\"content\":\"" NEEDLE "\"}]}"
#define REASONING(field)                                                                                               \
    "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"b\",\"" field "\":\"" NEEDLE "\"}]}"
#define TOOLS                                                                                                          \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{"            \
    "\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"string\",\"description\":\"e\"}},\"required\":[\"x\"]}}}],"
#define OBJECT "{\"" NEEDLE "\":\"x\"}"
#define TEXT "\"{\\\"" NEEDLE "\\\":\\\"x\\\"}\""
#define PYTHON "'" NEEDLE "'" /* such quotes show that a structure was printed as it is */
#define JSON "{\"" NEEDLE "\""

/* A tool call and its result, in a conversation that goes on (which templates that count turns accept), and in one that
 * ends with the result (which others want). */
static bool shows_call(struct probe *p, const char *more, const char *content, const char *arguments,
                       const char *result, const char *wanted)
{
    static const char *const tails[] = {",{\"role\":\"assistant\",\"content\":\"c\"}," USER, "", "," USER};
    bool                     yes = false;
    for (size_t i = 0; i < ARRAY_LEN(tails) && !yes; i++) {
        struct buf b;
        buf_init(&b, 4096);
        buf_printf(
            &b,
            "{%s\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":%s,\"tool_calls\":[{\"id\":\"call00001\","
            "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":%s}}]},{\"role\":\"tool\",\"content\":"
            "\"%s\",\"name\":\"f\",\"tool_call_id\":\"call00001\"}%s]}",
            more, content, arguments, result, tails[i]);
        if (b.failed && !p->status)
            p->status = error_nomem(p->e, "trying the chat template");
        yes = shows(p, buf_cstr(&b), wanted);
        buf_deinit(&b);
    }
    return yes;
}

/* How tool calls and their results are read. */
static void probe_calls(struct probe *p, struct template_traits *traits)
{
    static const char *const contents[] = {"\"\"", "null"};
    const char              *content = contents[0];
    bool any = shows_call(p, "", content, OBJECT, "b", NEEDLE) || shows_call(p, "", content, TEXT, "b", NEEDLE);
    traits->null_content = !any && (shows_call(p, "", contents[1], OBJECT, "b", NEEDLE) ||
                                    shows_call(p, "", contents[1], TEXT, "b", NEEDLE));
    if (traits->null_content)
        content = contents[1];
    bool object = shows_call(p, "", content, OBJECT, "b", NEEDLE) && !shows_call(p, "", content, OBJECT, "b", PYTHON);
    traits->object_arguments = object || !shows_call(p, "", content, TEXT, "b", JSON);
    traits->calls = any || traits->null_content || shows_call(p, TOOLS, content, OBJECT, "b", NEEDLE) ||
                    shows_call(p, TOOLS, content, TEXT, "b", NEEDLE);
    const char *arguments = traits->object_arguments ? "{}" : "\"{}\"";
    traits->results = shows_call(p, "", content, arguments, NEEDLE, NEEDLE) ||
                      shows_call(p, TOOLS, content, arguments, NEEDLE, NEEDLE);
}

int template_probe(struct chat_template *t, struct error *e)
{
    struct probe            p = {.t = t, .e = e};
    struct template_traits *traits = &t->traits;
    const char             *parts = CHAT("\"user\"", "[{\"type\":\"text\",\"text\":\"" NEEDLE "\"}]");
    bool                    plain = shows(&p, CHAT("\"user\"", "\"" NEEDLE "\""), NEEDLE);
    probe_calls(&p, traits);
    traits->parts = shows(&p, parts, NEEDLE) && !shows(&p, parts, PYTHON);
    traits->text = plain || !traits->parts;
    traits->system = !plain || shows(&p, SYSTEM_CHAT, NEEDLE);
    traits->repeats = !plain || shows(&p, TWO_IN_A_ROW, NEEDLE);
    if (!plain) /* it reads no ordinary conversation: nothing is known */
        traits->calls = traits->results = true;
    traits->reasoning = shows(&p, REASONING("reasoning_content"), NEEDLE) ? "reasoning_content"
                        : shows(&p, REASONING("thinking"), NEEDLE)        ? "thinking"
                        : shows(&p, REASONING("reasoning"), NEEDLE)       ? "reasoning"
                                                                          : NULL;
    return p.status;
}
