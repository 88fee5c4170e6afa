/* Any bytes as a template, rendered with a conversation that has every kind of value. A template that parses must end within
 * the limits, with a text or a message. */
#include <stdint.h>
#include <stdlib.h>

#include "chat/jinja.h"

static const char variables[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be \\u00e9 "
    "brief.\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\","
    "\"text\":\"a\"}]},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":"
    "\"f\","
    "\"arguments\":{\"a\":1,\"b\":[1.5,true,null]}}}]},{\"role\":\"tool\",\"content\":\"<&>\"}],\"tools\":[{\"type\":"
    "\"function\","
    "\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"items\":{\"type\":\"string\"}}}}}],\"documents\":"
    "null,"
    "\"add_generation_prompt\":true,\"bos_token\":\"<s>\",\"x\":5,\"y\":0.25,\"s\":\"a,b c\\n\",\"e\":{}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct jinja_limits limits = {.output = 1 << 16, .memory = 1 << 20, .steps = 20000, .depth = 200};
    struct jinja                    *j = NULL;
    json_t                          *vars = json_loads(variables, 0, NULL);
    struct error                     e = {0};
    struct buf                       out;
    int                              rc = jinja_parse(&j, (struct str){(const char *)data, size}, "fuzz", &e);
    buf_init(&out, SIZE_MAX / 2);
    if (!rc)
        rc = jinja_render(j, vars, 1764417600, &limits, &out, &e);
    if (rc && (!e.msg[0] || e.code != rc) && rc != ERR_INVALID)
        abort();
    buf_deinit(&out);
    jinja_free(j);
    json_decref(vars);
    return 0;
}
