/* Published templates with random requests: the first byte picks a template, the others say, piece by piece, which JSON
 * values the request is made of, out of the member names that chats have. So every input is a well-formed request, adapted
 * and rendered as the chat routes do it; that must end within the limits, with a text or a message.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "chat/template_int.h"

#define DEPTH_MAX 6
#define ITEMS_MAX 6

struct bytes {
    const uint8_t *p, *end;
};

static unsigned next(struct bytes *b)
{
    return b->p < b->end ? *b->p++ : 0;
}

static const char *const names[] = {"messages",
                                    "role",
                                    "content",
                                    "tool_calls",
                                    "function",
                                    "name",
                                    "arguments",
                                    "id",
                                    "type",
                                    "text",
                                    "tools",
                                    "parameters",
                                    "properties",
                                    "required",
                                    "items",
                                    "enum",
                                    "description",
                                    "documents",
                                    "title",
                                    "reasoning_content",
                                    "thinking",
                                    "tool_call_id",
                                    "add_generation_prompt",
                                    "enable_thinking",
                                    "bos_token",
                                    "custom_tools",
                                    "x"};
static const char *const words[] = {"system",
                                    "user",
                                    "assistant",
                                    "tool",
                                    "developer",
                                    "text",
                                    "image",
                                    "function",
                                    "f",
                                    "string",
                                    "object",
                                    "array",
                                    "",
                                    "a",
                                    "\n",
                                    " a ",
                                    "<think>a</think>b",
                                    "{\"a\": 1}",
                                    "{",
                                    "\xc3\xa9",
                                    "<|im_end|>",
                                    "call00001",
                                    "</s>",
                                    "null",
                                    "x.y",
                                    "'\"\\"};

static json_t *value(struct bytes *b, int depth)
{
    unsigned tag = next(b), n = next(b) % (ITEMS_MAX + 1);
    json_t  *v;
    switch (depth ? tag % 8 : tag % 6) {
    case 0:
        return tag & 8 ? json_null() : json_boolean(tag & 16);
    case 1:
        return json_integer((int8_t)next(b) * ((json_int_t)1 << (tag / 8 % 4 * 16)));
    case 2:
        return json_real(ldexp((int8_t)next(b), (int)(tag / 8) - 16));
    case 3:
    case 4:
    case 5:
        return json_string(words[(n * 32 + tag / 8) % ARRAY_LEN(words)]);
    case 6:
        v = json_array();
        while (n--)
            json_array_append_new(v, value(b, depth - 1));
        return v;
    default:
        v = json_object();
        while (n--) {
            const char *name = names[next(b) % ARRAY_LEN(names)];
            json_object_set_new(v, name, value(b, depth - 1));
        }
        return v;
    }
}

/* A chat: messages of any members, with roles that are usual more often than not. */
static json_t *request(struct bytes *b)
{
    json_t  *r = json_object(), *messages = json_array();
    unsigned flags = next(b);
    for (unsigned n = next(b) % ITEMS_MAX; n--;) {
        json_t *message = json_object();
        json_object_set_new(message, "role", json_string(words[next(b) % 6]));
        json_object_set_new(message, "content", value(b, 2));
        for (unsigned k = next(b) % 4; k--;) {
            const char *name = names[next(b) % ARRAY_LEN(names)];
            json_object_set_new(message, name, value(b, DEPTH_MAX));
        }
        json_array_append_new(messages, message);
    }
    json_object_set_new(r, "messages", messages);
    if (flags & 1)
        json_object_set_new(r, "tools", value(b, DEPTH_MAX));
    if (flags & 2)
        json_object_set_new(r, "add_generation_prompt", json_true());
    for (unsigned k = flags / 4 % 4; k--;) {
        const char *name = names[next(b) % ARRAY_LEN(names)];
        json_object_set_new(r, name, value(b, DEPTH_MAX));
    }
    return r;
}

static struct chat_template *templates[64];
static size_t                n_templates;

static void load_templates(void)
{
    FILE       *f = popen("xz -dc tests/data/templates/reference.json.xz", "r");
    json_t     *json = f ? json_loadf(f, JSON_ALLOW_NUL, NULL) : NULL, *source;
    const char *name;
    if (!json || pclose(f))
        abort();
    json_object_foreach(json_object_get(json, "templates"), name, source)
    {
        struct error e = {0};
        struct str   text = {json_string_value(source), json_string_length(source)};
        if (n_templates == ARRAY_LEN(templates) || chat_template_from_source(&templates[n_templates++], text, name, &e))
            abort();
    }
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct jinja_limits limits = {.output = 1 << 20, .memory = 8 << 20, .steps = 200000};
    struct bytes                     b = {data, data + size};
    struct error                     e = {0};
    struct buf                       out;
    if (!n_templates)
        load_templates();
    const struct chat_template *t = templates[next(&b) % n_templates];
    json_t                     *r = request(&b);
    buf_init(&out, SIZE_MAX / 2);
    int rc = chat_template_adapt(t, r, &e);
    if (!rc)
        rc = template_render(t, r, 1764417600, &limits, &out, &e);
    if (rc && e.code != rc)
        abort();
    buf_deinit(&out);
    json_decref(r);
    return 0;
}
