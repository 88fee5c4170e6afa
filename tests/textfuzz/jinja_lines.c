/* Renders synthetic templates for the differential fuzzer: each line of stdin is {"template": TEXT, "context": OBJECT},
 * each line of stdout {"text": TEXT} or {"error": MESSAGE}. One process renders any number of templates, which is what
 * makes comparing thousands of small ones with jinja2 quick.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/pyjson.h"
#include "chat/jinja.h"

static int render(struct str line, struct buf *out, struct error *e)
{
    json_t       *request = NULL;
    struct jinja *j = NULL;
    int           rc = pyjson_parse(&request, line, "the line", e);
    const json_t *source = json_object_get(request, "template");
    if (!rc && !json_is_string(source))
        rc = error_set(e, ERR_INVALID, NULL, "template: a string is needed");
    if (!rc)
        rc = jinja_parse(&j, (struct str){json_string_value(source), json_string_length(source)}, "template", e);
    if (!rc)
        rc = jinja_render(j, json_object_get(request, "context"), 1764417600, NULL, out, e);
    jinja_free(j);
    json_decref(request);
    return rc;
}

int main(void)
{
    char   *line = NULL;
    size_t  cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, stdin)) >= 0) {
        struct error e = {0};
        struct buf   out;
        buf_init(&out, (size_t)64 << 20);
        int     rc = render((struct str){line, (size_t)n}, &out, &e);
        json_t *answer = rc ? json_pack("{s:s}", "error", e.msg) : json_pack("{s:s%}", "text", buf_cstr(&out), out.n);
        char   *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
        puts(text ? text : "{\"error\":\"the text is not UTF-8\"}");
        fflush(stdout);
        free(text);
        json_decref(answer);
        buf_deinit(&out);
    }
    free(line);
    return 0;
}
