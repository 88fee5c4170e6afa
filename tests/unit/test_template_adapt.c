/* What is found out about 37 published chat templates, and that a client's messages, whatever their habits, render
 * through each of them once they are adapted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/num.h"
#include "chat/template_int.h"

/* The traits in words; a word that is missing is a no, "object" stands against "string". */
static const struct {
    const char *name, *traits;
} expected[] = {
    {"Apriel-1.6-15b-Thinker-fixed", "system text parts object calls results repeats reasoning_content"},
    {"Bielik-11B-v3.0-Instruct", "system text object calls results repeats reasoning_content"},
    {"ByteDance-Seed-OSS", "system text object calls results repeats reasoning_content"},
    {"CohereForAI-c4ai-command-r-plus-tool_use", "system text object calls results repeats"},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "system text object calls results repeats"},
    {"GLM-4.6", "system text parts object calls results repeats reasoning_content"},
    {"GLM-5.2", "system text parts object calls results repeats reasoning_content"},
    {"GigaChat3-10B-A1.8B", "system text parts object calls results repeats"},
    {"HuggingFaceTB-SmolLM3-3B", "system text object results repeats"},
    {"Kimi-K2-Instruct", "system text parts object repeats"},
    {"LFM2-8B-A1B", "system text parts object results repeats"},
    {"MiroThinker", "system text object repeats"},
    {"Mistral-Small-3.2-24B-Instruct-2506", "system text parts object calls results"},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "system text object calls results repeats"},
    {"Qwen-Qwen2.5-7B-Instruct", "system text object calls results repeats"},
    {"Qwen-Qwen3-0.6B", "system text object calls results repeats reasoning_content"},
    {"Qwen3-Coder", "system text object calls results repeats"},
    {"Qwen3.5-4B", "system text parts object calls results repeats reasoning_content"},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "system text null string calls results repeats"},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "system text object calls results repeats"},
    {"deepseek-ai-DeepSeek-V3.1", "system text object calls results repeats"},
    {"deepseek-ai-DeepSeek-V4", "system text object calls results repeats"},
    {"fireworks-ai-llama-3-firefunction-v2", "system text object calls results repeats"},
    {"google-gemma-2-2b-it", "text object"},
    {"google-gemma-4-31B-it", "system text parts object calls results repeats"},
    {"llama-cpp-deepseek-r1", "system text object calls results repeats"},
    {"llama-cpp-rwkv-world", "system text object repeats"},
    {"meetkai-functionary-medium-v3.1", "system text object calls results repeats"},
    {"meta-llama-Llama-3.1-8B-Instruct", "system text object calls results repeats"},
    {"meta-llama-Llama-3.2-3B-Instruct", "system text object calls results repeats"},
    {"meta-llama-Llama-3.3-70B-Instruct", "system text object calls results repeats"},
    {"microsoft-Phi-3.5-mini-instruct", "system text object repeats"},
    {"mistralai-Mistral-Nemo-Instruct-2407", "system text object calls results"},
    {"moonshotai-Kimi-K2", "system text parts object calls results repeats"},
    {"openai-gpt-oss-120b", "system text object calls results repeats thinking"},
    {"stepfun-ai-Step-3.5-Flash", "system text parts object calls results repeats reasoning_content"},
    {"unsloth-Apriel-1.5", "system text parts object calls results repeats"},
};

static json_t *load_templates(void)
{
    FILE   *f = popen("xz -dc tests/data/templates/reference.json.xz", "r");
    json_t *json = f ? json_loadf(f, JSON_ALLOW_NUL, NULL) : NULL, *templates;
    assert_non_null(json);
    assert_int_equal(pclose(f), 0);
    templates = json_incref(json_object_get(json, "templates"));
    json_decref(json);
    return templates;
}

static struct chat_template *load(json_t *templates, const char *name)
{
    const json_t         *source = json_object_get(templates, name);
    struct chat_template *t = NULL;
    struct error          e = {0};
    assert_non_null(source);
    if (chat_template_from_source(&t, (struct str){json_string_value(source), json_string_length(source)}, name, &e))
        fail_msg("%s", e.msg);
    return t;
}

static void test_traits(void **state)
{
    json_t *templates = load_templates();
    (void)state;
    assert_int_equal(json_object_size(templates), ARRAY_LEN(expected));
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        struct chat_template         *t = load(templates, expected[i].name);
        const struct template_traits *r = &t->traits;
        char                          found[200];
        snprintf(found, sizeof found, "%s%s%s%s%s%s%s%s%s", r->system ? "system " : "", r->text ? "text " : "",
                 r->parts ? "parts " : "", r->null_content ? "null " : "", r->object_arguments ? "object " : "string ",
                 r->calls ? "calls " : "", r->results ? "results " : "", r->repeats ? "repeats " : "",
                 r->reasoning ? r->reasoning : "");
        if (found[strlen(found) - 1] == ' ')
            found[strlen(found) - 1] = '\0';
        if (strcmp(found, expected[i].traits) != 0)
            fail_msg("%s\nfound    %s\nexpected %s", expected[i].name, found, expected[i].traits);
        chat_template_free(t);
    }
    json_decref(templates);
}

#define TOOL                                                                                                           \
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":\"object\","  \
    "\"properties\":{\"x\":{\"type\":\"string\",\"description\":\"e\"}},\"required\":[\"x\"]}}}]"

/* Adapts and renders a request; every word of `words` must come out. */
static void expect_words(const struct chat_template *t, const char *name, const char *request, const char *const *words)
{
    static const char *const tokens[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    json_t                  *json = json_loads(request, 0, NULL);
    struct error             e = {0};
    struct buf               out;
    assert_non_null(json);
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++)
        json_object_set_new(json, tokens[i], json_string(""));
    if (strstr(name, "tool_use")) /* a template for requests with tools */
        json_object_set_new(json, "tools", json_loads(TOOL, 0, NULL));
    buf_init(&out, 1 << 20);
    int rc = chat_template_adapt(t, json, &e);
    if (!rc)
        rc = chat_template_render(t, json, 0, &out, &e);
    if (rc)
        fail_msg("%s: %s\n%s", name, request, e.msg);
    for (; *words; words++)
        if (!strstr(buf_cstr(&out), *words))
            fail_msg("%s: %s\nhas no %s:\n%s", name, request, *words, buf_cstr(&out));
    buf_deinit(&out);
    json_decref(json);
}

/* firefunction wants a variable of its own; MiroThinker changes messages behind any answer, which no sandbox allows. */
static bool is_odd(const char *name)
{
    return strstr(name, "firefunction") || strstr(name, "MiroThinker");
}

static const char *const habits[] = {
    "{\"messages\":[{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"needle1\"}]},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"needle2\"}]},"
    "{\"role\":\"user\",\"content\":\"needle3\"},{\"role\":\"assistant\",\"content\":\"needle4\"},"
    "{\"role\":\"user\",\"content\":\"needle5\"}],\"add_generation_prompt\":true}",
    "{\"messages\":[{\"role\":\"system\",\"content\":\"needle1\"},{\"role\":\"user\",\"content\":\"needle2\"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\",\"function\":"
    "{\"name\":\"f\",\"arguments\":\"{\\\"needle3\\\": 1}\"}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"call00001\",\"name\":\"f\",\"content\":\"needle4\"},"
    "{\"role\":\"assistant\",\"content\":\"needle5\"},{\"role\":\"user\",\"content\":\"q\"}]}",
    "{\"messages\":[{\"role\":\"system\",\"content\":\"needle1\"},{\"role\":\"user\",\"content\":\"needle2\"},"
    "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\",\"function\":"
    "{\"name\":\"f\",\"arguments\":{\"needle3\": 1}}}]},"
    "{\"role\":\"tool\",\"tool_call_id\":\"call00001\",\"name\":\"f\",\"content\":[{\"type\":\"text\",\"text\":"
    "\"needle4\"}]},{\"role\":\"assistant\",\"content\":\"needle5\"},{\"role\":\"user\",\"content\":\"q\"}]}",
};

static void test_habits(void **state)
{
    static const char *const words[] = {"needle1", "needle2", "needle3", "needle4", "needle5", NULL};
    json_t                  *templates = load_templates();
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        struct chat_template *t = load(templates, expected[i].name);
        for (size_t k = 0; k < ARRAY_LEN(habits) && !is_odd(expected[i].name); k++)
            expect_words(t, expected[i].name, habits[k], words);
        chat_template_free(t);
    }
    json_decref(templates);
}

/* Reasoning comes out of templates that read it, under whichever name the client sends it. */
static void test_reasoning(void **state)
{
    static const char *const names[] = {"reasoning_content", "reasoning", "thinking"}, *const words[] = {"needle",
                                                                                                         NULL};
    json_t *templates = load_templates();
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        struct chat_template *t = load(templates, expected[i].name);
        for (size_t k = 0; t->traits.reasoning && k < ARRAY_LEN(names); k++) {
            char request[300];
            snprintf(request, sizeof request,
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\","
                     "\"%s\":\"needle\"}]}",
                     names[k]);
            expect_words(t, expected[i].name, request, words);
        }
        chat_template_free(t);
    }
    json_decref(templates);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_traits), cmocka_unit_test(test_habits),
                                       cmocka_unit_test(test_reasoning)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
