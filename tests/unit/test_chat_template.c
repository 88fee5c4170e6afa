/* Chat templates: 37 published ones against jinja2 and transformers (tools/make_template_reference.py), finding a
 * model's template, continue_final_message, and the adapting of messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../support/tmp.h"
#include "base/clock.h"
#include "chat/template.h"

static json_t *load_reference(void)
{
    FILE        *f = popen("xz -dc tests/data/templates/reference.json.xz", "r");
    json_error_t why;
    json_t      *json = f ? json_loadf(f, JSON_ALLOW_NUL, &why) : NULL;
    assert_non_null(json);
    assert_int_equal(pclose(f), 0);
    return json;
}

/* Renders every request with one template and compares; a null result is a fault. Returns the number of results. */
static int compare(const struct chat_template *t, const char *name, json_t *requests, json_t *special, json_t *results,
                   int64_t now)
{
    const char *chat;
    json_t     *request;
    int         n = 0;
    json_object_foreach(requests, chat, request)
    {
        json_t       *all = json_copy(special);
        const json_t *want = json_object_get(results, chat);
        struct error  e = {0};
        struct buf    out;
        buf_init(&out, SIZE_MAX / 2);
        assert_false(json_object_update(all, request));
        int        rc = chat_template_render(t, all, now, &out, &e);
        struct str text = {json_string_value(want), json_string_length(want)};
        if (json_is_null(want) ? !rc : rc || !str_eq(buf_str(&out), text))
            fail_msg("%s, %s\ngave %s\nnot  %s", name, chat, rc ? e.msg : buf_cstr(&out),
                     json_is_null(want) ? "a fault" : json_string_value(want));
        n++;
        buf_deinit(&out);
        json_decref(all);
    }
    return n;
}

static void test_reference(void **state)
{
    json_t     *reference = load_reference(), *source, *special = json_object_get(reference, "special");
    int64_t     now = json_integer_value(json_object_get(reference, "now"));
    const char *name;
    int         n = 0;
    (void)state;
    json_object_foreach(json_object_get(reference, "templates"), name, source)
    {
        struct chat_template *t;
        struct error          e = {0};
        struct str            text = {json_string_value(source), json_string_length(source)};
        assert_int_equal(chat_template_from_source(&t, text, name, &e), 0);
        n += compare(t, name, json_object_get(reference, "chats"), special,
                     json_object_get(json_object_get(reference, "results"), name), now);
        n += compare(t, name, json_object_get(reference, "continued"), special,
                     json_object_get(json_object_get(reference, "continued_results"), name), now);
        chat_template_free(t);
    }
    assert_true(n > 37 * 50);
    json_decref(reference);
}

/* --- small helpers ----------------------------------------------------------------------------------------------- */

static void write_file(const char *dir, const char *name, const char *text)
{
    FILE *f = fopen(tmp_path(dir, name), "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void expect_text(const struct chat_template *t, const char *request, const char *want)
{
    json_t      *json = json_loads(request, 0, NULL);
    struct error e = {0};
    struct buf   out;
    assert_non_null(json);
    buf_init(&out, 100000);
    int rc = chat_template_render(t, json, 0, &out, &e);
    if (rc || strcmp(buf_cstr(&out), want) != 0)
        fail_msg("%s\ngave %s\nnot  %s", request, rc ? e.msg : buf_cstr(&out), want);
    buf_deinit(&out);
    json_decref(json);
}

static void expect_fault(const struct chat_template *t, const char *request, int code, const char *param,
                         const char *want)
{
    json_t      *json = json_loads(request, 0, NULL);
    struct error e = {0};
    struct buf   out;
    assert_non_null(json);
    buf_init(&out, 100000);
    assert_int_equal(chat_template_render(t, json, 0, &out, &e), code);
    assert_string_equal(e.param, param);
    if (!strstr(e.msg, want))
        fail_msg("%s\ngave %s\nnot  %s", request, e.msg, want);
    assert_int_equal(out.n, 0);
    buf_deinit(&out);
    json_decref(json);
}

static struct chat_template *from_source(const char *source)
{
    struct chat_template *t = NULL;
    struct error          e = {0};
    if (chat_template_from_source(&t, str_of(source), "test", &e))
        fail_msg("%s", e.msg);
    return t;
}

/* --- finding the template ---------------------------------------------------------------------------------------- */

#define HELLO "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"

static void load_and_expect(const char *dir, const char *request, const char *want)
{
    struct chat_template *t = NULL;
    struct error          e = {0};
    if (chat_template_load(&t, dir, NULL, &e))
        fail_msg("%s", e.msg);
    expect_text(t, request, want);
    chat_template_free(t);
}

static void load_and_fail(const char *dir, int code, const char *want)
{
    struct chat_template *t = NULL;
    struct error          e = {0};
    assert_int_equal(chat_template_load(&t, dir, NULL, &e), code);
    assert_null(t);
    if (!strstr(e.msg, want))
        fail_msg("gave %s\nnot  %s", e.msg, want);
}

/* Later files of this test are found before the earlier ones. */
static void test_load(void **state)
{
    char *dir = tmp_make();
    (void)state;
    load_and_fail(dir, ERR_NOT_FOUND, "no chat template: there is no chat_template.jinja");
    write_file(dir, "special_tokens_map.json",
               "{\"bos_token\":\"<m>\",\"eos_token\":{\"content\":\"</m>\"},\"unk_token\":null}");
    write_file(dir, "tokenizer_config.json",
               "{\"bos_token\":{\"__type\":\"AddedToken\",\"content\":\"<c>\"},\"model_max_length\":"
               "1000000000000000019884624838656}");
    load_and_fail(dir, ERR_NOT_FOUND, "chat_template");
    write_file(dir, "tokenizer_config.json",
               "{\"bos_token\":{\"content\":\"<c>\"},\"pad_token\":null,\"extra_special_tokens\":"
               "{\"image_token\":\"<i>\"},\"chat_template\":\"{{bos_token}}{{eos_token}}"
               "{{image_token}}{{pad_token is defined}}{{messages[0].content}}\"}");
    load_and_expect(dir, HELLO, "<c></m><i>Falsehi");
    load_and_expect(dir, "{\"messages\":[{\"content\":\"x\"}],\"bos_token\":\"<r>\"}", "<r></m><i>Falsex");
    write_file(dir, "tokenizer_config.json",
               "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T{{tools|length}}\"},"
               "{\"name\":\"default\",\"template\":\"D{{tools}}{{documents}}\"}]}");
    load_and_expect(dir, HELLO, "DNoneNone");
    load_and_expect(dir, "{\"messages\":[],\"tools\":[{},{}]}", "T2");
    write_file(dir, "chat_template.json", "{\"chat_template\":\"P{{add_generation_prompt}}\"}");
    load_and_expect(dir, HELLO, "PFalse");
    write_file(dir, "chat_template.jinja", "J{{bos_token}}\n");
    load_and_expect(dir, HELLO, "J<m>");
    load_and_expect(dir, "{\"messages\":[],\"tools\":[]}", "J<m>");
    assert_int_equal(mkdir(tmp_path(dir, "additional_chat_templates"), 0700), 0);
    write_file(dir, "additional_chat_templates/tool_use.jinja", "U");
    load_and_expect(dir, "{\"messages\":[],\"tools\":[]}", "U");
    tmp_remove(dir);
}

static void test_load_faults(void **state)
{
    char *dir = tmp_make();
    (void)state;
    write_file(dir, "tokenizer_config.json", "{\"chat_template\":[{\"name\":\"a\",\"template\":\"x\"}]}");
    load_and_fail(dir, ERR_FORMAT, "none of its chat templates is named \"default\"; choose one of a by");
    write_file(dir, "tokenizer_config.json", "{\"chat_template\":[{\"name\":\"default\"}]}");
    load_and_fail(dir, ERR_FORMAT, "tokenizer_config.json: chat_template[0]: a name and a template are needed");
    write_file(dir, "tokenizer_config.json", "{\"chat_template\":7}");
    load_and_fail(dir, ERR_FORMAT, "tokenizer_config.json: chat_template: a string or a list is needed");
    write_file(dir, "tokenizer_config.json", "{\"chat_template\":\"a\\n{% if %}\"}");
    load_and_fail(dir, ERR_FORMAT, "tokenizer_config.json:2:7: expected an expression");
    write_file(dir, "tokenizer_config.json", "[]");
    load_and_fail(dir, ERR_FORMAT, "tokenizer_config.json: an object is needed");
    write_file(dir, "tokenizer_config.json", "{");
    load_and_fail(dir, ERR_FORMAT, "tokenizer_config.json");
    write_file(dir, "tokenizer_config.json", "{}");
    write_file(dir, "chat_template.jinja", "{{");
    load_and_fail(dir, ERR_FORMAT, "chat_template.jinja:1:1: '{{' is not closed");
    tmp_remove(dir);
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static void test_requests(void **state)
{
    struct chat_template *t =
        from_source("{{messages|length}}{{tools}}{{x}}{{add_generation_prompt}}{{continue_final_message}}");
    (void)state;
    expect_text(t, "{\"messages\":[{}],\"x\":[1.5,null]}", "1None[1.5, None]False");
    expect_text(t, "{\"messages\":[],\"tools\":null,\"add_generation_prompt\":true}", "0NoneTrue");
    expect_fault(t, "[]", ERR_INVALID, "", "an object is needed");
    expect_fault(t, "{}", ERR_INVALID, "messages", "messages: missing, a list of objects is needed");
    expect_fault(t, "{\"messages\":\"hi\"}", ERR_INVALID, "messages", "messages: a list of objects is needed");
    expect_fault(t, "{\"messages\":[{},1]}", ERR_INVALID, "messages", "messages[1]: an object is needed");
    expect_fault(t, "{\"messages\":[],\"tools\":{}}", ERR_INVALID, "tools", "tools: a list of objects is needed");
    expect_fault(t, "{\"messages\":[],\"documents\":[1]}", ERR_INVALID, "documents",
                 "documents[0]: an object is needed");
    expect_fault(t, "{\"messages\":[],\"add_generation_prompt\":1}", ERR_INVALID, "add_generation_prompt",
                 "true or false");
    expect_fault(t, "{\"messages\":[],\"continue_final_message\":true}", ERR_INVALID, "messages",
                 "there are no messages");
    expect_fault(t, "{\"messages\":[{}],\"continue_final_message\":true}", ERR_INVALID, "continue_final_message",
                 "no text");
    expect_fault(t, "{\"messages\":[{\"content\":\"a\"}],\"continue_final_message\":true}", ERR_INVALID,
                 "continue_final_message", "does not show the final message");
    expect_fault(t, "{\"messages\":[{}],\"continue_final_message\":true,\"add_generation_prompt\":true}", ERR_INVALID,
                 "continue_final_message", "cannot both be set");
    chat_template_free(t);
}

static void test_continue(void **state)
{
    struct chat_template *kept = from_source("{% for m in messages %}[{{ m.content }}]{% endfor %}!");
    struct chat_template *trimmed = from_source("{% for m in messages %}[{{ m.content|trim }}]{% endfor %}!");
    (void)state;
    expect_text(kept, "{\"messages\":[{\"content\":\"a\"},{\"content\":\" a \"}],\"continue_final_message\":true}",
                "[a][ a ");
    expect_text(trimmed, "{\"messages\":[{\"content\":\"a\"},{\"content\":\" a \"}],\"continue_final_message\":true}",
                "[a][a");
    expect_text(kept, "{\"messages\":[{\"content\":\"\"}],\"continue_final_message\":true}", "[");
    expect_text(kept, "{\"messages\":[{\"content\":\"a\"}],\"continue_final_message\":false}", "[a]!");
    chat_template_free(kept);
    chat_template_free(trimmed);
}

/* --- adapting ---------------------------------------------------------------------------------------------------- */

/* Adapts and compares the messages as compact JSON. */
static void expect_adapted(const char *source, const char *messages, const char *want)
{
    struct chat_template *t = from_source(source);
    json_t               *request = json_pack("{s:o}", "messages", json_loads(messages, 0, NULL));
    struct error          e = {0};
    assert_non_null(request);
    int   rc = chat_template_adapt(t, request, &e);
    char *got = json_dumps(json_object_get(request, "messages"), JSON_COMPACT);
    if (strcmp(rc ? e.msg : got, want) != 0)
        fail_msg("%s\n%s\ngave %s\nnot  %s", source, messages, rc ? e.msg : got, want);
    free(got);
    json_decref(request);
    chat_template_free(t);
}

static void test_adapt(void **state)
{
    const char *strings = "{% for m in messages %}{{ m.role + ': ' + m.content }}{% for c in m.tool_calls or [] %}"
                          "{{ c.function.arguments }}{% endfor %}{% endfor %}";
    const char *objects = "{% for m in messages %}{{ m.content|string }}{% for c in m.tool_calls or [] %}"
                          "{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}";
    const char *parts = "{% for m in messages %}{% for p in m.content %}{{ p.text + ' ' }}{% endfor %}{% endfor %}";
    const char *no_system =
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "{{ m.content + '' }}{% endfor %}";
    const char *only_null =
        "{% for m in messages %}{% if m.content is none %}{{ m.tool_calls[0].function.arguments + '' }}"
        "{% else %}{{ m.content }}{% endif %}{% endfor %}";
    (void)state;
    expect_adapted(strings, "[{\"role\":\"developer\",\"content\":null},{\"role\":\"user\"}]",
                   "[{\"role\":\"system\",\"content\":\"\"},{\"role\":\"user\",\"content\":\"\"}]");
    expect_adapted(strings, "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"text\":\"b\"}]}]",
                   "[{\"role\":\"user\",\"content\":\"a\\nb\"}]");
    expect_adapted(strings, "[{\"content\":[{\"type\":\"image_url\"}]}]",
                   "messages[0].content[0]: this model's chat template takes text parts only");
    expect_adapted(strings, "[{\"content\":\"\",\"tool_calls\":[{\"function\":{\"arguments\":{\"a\":1}}}]}]",
                   "[{\"content\":\"\",\"tool_calls\":[{\"function\":{\"arguments\":\"{\\\"a\\\": 1}\"}}]}]");
    expect_adapted(objects, "[{\"content\":\"\",\"tool_calls\":[{\"function\":{\"arguments\":\"{\\\"a\\\":1}\"}}]}]",
                   "[{\"content\":\"\",\"tool_calls\":[{\"function\":{\"arguments\":{\"a\":1}}}]}]");
    expect_adapted(objects, "[{\"content\":\"\",\"tool_calls\":[{\"function\":{\"arguments\":\"\"}}]}]",
                   "[{\"content\":\"\",\"tool_calls\":[{\"function\":{\"arguments\":{}}}]}]");
    expect_adapted(objects, "[{\"content\":\"\",\"tool_calls\":[{\"function\":{\"arguments\":\"{\"}}]}]",
                   "messages[0].tool_calls: arguments: not valid JSON at line 1, column 1: string or '}' expected near "
                   "end of file");
    expect_adapted(parts, "[{\"content\":\"a\"}]", "[{\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]");
    expect_adapted(parts, "[{\"content\":[{\"type\":\"image\"}]}]", "[{\"content\":[{\"type\":\"image\"}]}]");
    expect_adapted(no_system, "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\"}]",
                   "[{\"role\":\"user\",\"content\":\"s\\n\\nu\"}]");
    expect_adapted(no_system, "[{\"role\":\"system\",\"content\":\"s\"}]", "[{\"role\":\"user\",\"content\":\"s\"}]");
    expect_adapted(only_null, "[{\"content\":\"\",\"tool_calls\":[{\"function\":{\"arguments\":{\"a\":1}}}]}]",
                   "[{\"content\":null,\"tool_calls\":[{\"function\":{\"arguments\":\"{\\\"a\\\": 1}\"}}]}]");
    expect_adapted(strings, "[1]", "messages[0]: an object is needed");
}

/* A template that reads strings and lists, but no tool calls. */
static void test_adapt_calls_in_parts(void **state)
{
    const char *both = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
                       "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}";
    (void)state;
    expect_adapted(both, "[{\"content\":\"a\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}]",
                   "[{\"content\":\"a\\n{\\\"name\\\": \\\"f\\\"}\"}]");
    expect_adapted(both,
                   "[{\"content\":[{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"a\"}],"
                   "\"tool_calls\":[{\"function\":{\"name\":\"f\"}},{\"name\":\"g\"}]}]",
                   "[{\"content\":[{\"type\":\"image\"},{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
                   "\"text\":\"\\n{\\\"name\\\": \\\"f\\\"}\\n{\\\"name\\\": \\\"g\\\"}\"}]}]");
}

/* Messages of one role in a row become the last of them, and a system message goes into the user's behind it. */
static void test_adapt_merges(void **state)
{
    const char *alternate = "{% for m in messages %}{% if m.role == 'system' or loop.index0 and "
                            "messages[loop.index0 - 1].role == m.role %}{{ raise_exception('no') }}{% endif %}"
                            "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}"
                            "{% endfor %}{% endif %}{% endfor %}";
    (void)state;
#define SAYS(role, content) "{\"role\":\"" role "\",\"content\":" content "}"
#define PART(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define IMAGE "{\"type\":\"image\"}"
    expect_adapted(
        alternate,
        "[" SAYS("user", "\"a\"") "," SAYS("user", "\"b\"") "," SAYS("user", "\"c\"") "," SAYS(
            "assistant", "\"d\"") "," SAYS("assistant", "\"e\"") "," SAYS("user", "\"f\"") "]",
        "[" SAYS("user", "\"a\\n\\nb\\n\\nc\"") "," SAYS("assistant", "\"d\\n\\ne\"") "," SAYS("user", "\"f\"") "]");
    expect_adapted(alternate,
                   "[" SAYS("user", "\"a\"") "," SAYS("user", "\"b\"") "," SAYS("user", "[" IMAGE "]") "," SAYS(
                       "user", "\"c\"") "," SAYS("user", "\"d\"") "]",
                   "[" SAYS("user", "[" PART("a\\n\\nb") "," IMAGE "," PART("c") "," PART("d") "]") "]");
    expect_adapted(
        alternate,
        "[" SAYS("system", "\"s\"") "," SAYS("system", "\"t\"") "," SAYS("user", "\"a\"") "," SAYS(
            "assistant", "\"b\"") "," SAYS("system", "\"u\"") "]",
        "[" SAYS("user", "\"s\\n\\nt\\n\\na\"") "," SAYS("assistant", "\"b\"") "," SAYS("user", "\"u\"") "]");
#undef SAYS
#undef PART
#undef IMAGE
}

/* The work grows with the number of messages, not with its square. */
static void test_adapt_many(void **state)
{
    struct chat_template *t = from_source(
        "{% for m in messages %}{% if m.role == 'system' or loop.index0 and messages[loop.index0 - 1].role == m.role %}"
        "{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}");
    static const char *const roles[] = {"system", "user"};
    double                   start = clock_thread();
    struct error             e = {0};
    (void)state;
    for (int mixed = 0; mixed < 2; mixed++) {
        json_t *messages = json_array(), *request = json_pack("{s:o}", "messages", messages);
        for (int i = 0; i < 300000; i++)
            json_array_append_new(messages, json_pack("{s:s,s:s}", "role", roles[!mixed || i % 2], "content", "x"));
        assert_int_equal(chat_template_adapt(t, request, &e), 0);
        messages = json_object_get(request, "messages");
        assert_int_equal(json_array_size(messages), 1);
        assert_int_equal(json_string_length(json_object_get(json_array_get(messages, 0), "content")), 3 * 300000 - 2);
        json_decref(request);
    }
    assert_true(clock_thread() - start < 20);
    chat_template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_load_faults),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_continue),
        cmocka_unit_test(test_adapt),
        cmocka_unit_test(test_adapt_calls_in_parts),
        cmocka_unit_test(test_adapt_merges),
        cmocka_unit_test(test_adapt_many),
    };
    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
