/* Which chat template is taken: the model's named ones, built-in ones, a text, a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../support/tmp.h"
#include "base/num.h"
#include "chat/template.h"

#define CHAT                                                                                                           \
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\" q \"},"                  \
    "{\"role\":\"assistant\",\"content\":\" a \"},{\"role\":\"user\",\"content\":\"r\"}],"                             \
    "\"add_generation_prompt\":true}"
#define TOOLS "{\"messages\":[],\"tools\":[{}]}"

static void write_file(const char *dir, const char *name, const char *text)
{
    FILE *f = fopen(tmp_path(dir, name), "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void expect(const char *dir, const struct chat_template_choice *choice, const char *request, const char *want)
{
    struct chat_template *t = NULL;
    struct error          e = {0};
    struct buf            out;
    json_t               *json = json_loads(request, 0, NULL);
    buf_init(&out, 100000);
    int rc = chat_template_load(&t, dir, choice, &e);
    if (!rc)
        rc = chat_template_render(t, json, 0, &out, &e);
    if (rc || strcmp(buf_cstr(&out), want) != 0)
        fail_msg("gave %s\nnot  %s", rc ? e.msg : buf_cstr(&out), want);
    buf_deinit(&out);
    json_decref(json);
    chat_template_free(t);
}

static void refuse(const char *dir, struct chat_template_choice choice, int code, const char *want)
{
    struct chat_template *t = NULL;
    struct error          e = {0};
    assert_int_equal(chat_template_load(&t, dir, &choice, &e), code);
    assert_null(t);
    if (!strstr(e.msg, want))
        fail_msg("gave %s\nnot  %s", e.msg, want);
}

static const struct builtin_case {
    const char *name, *want;
} builtin_cases[] = {
    {"chatml",
     "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n q <|im_end|>\n<|im_start|>assistant\n a <|im_end|>\n"
     "<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n"},
    {"gemma", "<bos><start_of_turn>user\nS\n\nq<end_of_turn>\n<start_of_turn>model\na<end_of_turn>\n"
              "<start_of_turn>user\nr<end_of_turn>\n<start_of_turn>model\n"},
    {"llama2", "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\n q [/INST] a </s><s>[INST] r [/INST]"},
    {"llama3",
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
     "a<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nr<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"mistral", "<s>[INST]  q [/INST] a</s>[INST] S\n\nr[/INST]"},
    {"phi",
     "<|system|>\nS<|end|>\n<|user|>\n q <|end|>\n<|assistant|>\n a <|end|>\n<|user|>\nr<|end|>\n<|assistant|>\n"},
    {"vicuna", "S\n\nUSER:  q \nASSISTANT:  a </s>\nUSER: r\nASSISTANT:"},
    {"zephyr", "<|system|>\nS</s>\n<|user|>\n q </s>\n<|assistant|>\n a </s>\n<|user|>\nr</s>\n<|assistant|>\n"},
};

static void test_builtins(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(builtin_cases); i++)
        expect(NULL, &(struct chat_template_choice){.name = builtin_cases[i].name}, CHAT, builtin_cases[i].want);
}

/* Built-in templates use the model's own first and last token. */
static void test_special_tokens(void **state)
{
    char *dir = tmp_make();
    (void)state;
    write_file(dir, "tokenizer_config.json", "{\"bos_token\":\"<B>\",\"eos_token\":\"<E>\"}");
    expect(dir, &(struct chat_template_choice){.name = "mistral"}, CHAT,
           "<B>[INST]  q [/INST] a<E>[INST] S\n\nr[/INST]");
    write_file(dir, "own.jinja", "{{ bos_token }}{{ messages | length }}");
    expect(dir, &(struct chat_template_choice){.file = tmp_path(dir, "own.jinja")}, CHAT, "<B>4");
    tmp_remove(dir);
}

static void test_names(void **state)
{
    char *dir = tmp_make();
    (void)state;
    write_file(dir, "chat_template.jinja", "D");
    write_file(dir, "tokenizer_config.json", "{\"chat_template\":[{\"name\":\"rag\",\"template\":\"lost\"}]}");
    assert_int_equal(mkdir(tmp_path(dir, "additional_chat_templates"), 0700), 0);
    write_file(dir, "additional_chat_templates/tool_use.jinja", "T");
    write_file(dir, "additional_chat_templates/rag.jinja", "R");
    write_file(dir, "additional_chat_templates/chatml.jinja", "C");
    write_file(dir, "additional_chat_templates/bad.jinja", "{% if %}");
    write_file(dir, "additional_chat_templates/notes.txt", "{% if %}");
    expect(dir, NULL, CHAT, "D");
    expect(dir, NULL, TOOLS, "T");
    expect(dir, &(struct chat_template_choice){.name = "rag"}, CHAT, "R");
    expect(dir, &(struct chat_template_choice){.name = "default"}, TOOLS, "D");
    expect(dir, &(struct chat_template_choice){.name = "chatml"}, CHAT, "C");
    expect(dir, &(struct chat_template_choice){.name = "{{ 1 + 1 }}"}, CHAT, "2");
    refuse(dir, (struct chat_template_choice){.name = "bad"}, ERR_FORMAT, "additional_chat_templates/bad.jinja:1:7: ");
    refuse(dir, (struct chat_template_choice){.name = "rat"}, ERR_NOT_FOUND, "bad, chatml, default, rag, tool_use");
    refuse(dir, (struct chat_template_choice){.name = "{% if %}"}, ERR_FORMAT, "chat_template:1:7: ");
    refuse(dir, (struct chat_template_choice){.file = "/nowhere/x.jinja"}, ERR_NOT_FOUND, "/nowhere/x.jinja");
    refuse(dir, (struct chat_template_choice){.name = "chatml", .file = "x"}, ERR_USAGE, "exclude each other");
    write_file(dir, "additional_chat_templates/rag.jinja", "\xff");
    refuse(dir, (struct chat_template_choice){.name = "rag"}, ERR_FORMAT, "rag.jinja: the template is not valid UTF-8");
    tmp_remove(dir);
    refuse(NULL, (struct chat_template_choice){.name = "tests/conftest.py"}, ERR_NOT_FOUND,
           "no chat template is named \"tests/conftest.py\", but a file is; --chat-template-file reads it");
    refuse(NULL, (struct chat_template_choice){.name = "alpaca"}, ERR_NOT_FOUND,
           "built-in ones: chatml, gemma, llama2, llama3, mistral, phi, vicuna, zephyr");
}

/* The folder's templates are bounded, the model's own one not counted. */
static void test_many(void **state)
{
    char *dir = tmp_make(), name[64];
    (void)state;
    assert_int_equal(mkdir(tmp_path(dir, "additional_chat_templates"), 0700), 0);
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof name, "additional_chat_templates/t%d.jinja", i);
        write_file(dir, name, "T");
    }
    expect(dir, &(struct chat_template_choice){.name = "t63"}, CHAT, "T");
    write_file(dir, "chat_template.jinja", "D");
    expect(dir, NULL, CHAT, "D");
    write_file(dir, "additional_chat_templates/t64.jinja", "T");
    refuse(dir, (struct chat_template_choice){.name = "t1"}, ERR_LIMIT, "holds more than 64 templates");
    assert_int_equal(remove(tmp_path(dir, "chat_template.jinja")), 0);
    refuse(dir, (struct chat_template_choice){.name = "t1"}, ERR_LIMIT, "holds more than 64 templates");
    tmp_remove(dir);
}

/* Without "default", "tool_use" serves requests with tools, and others fail. */
static void test_tool_use_alone(void **state)
{
    struct chat_template *t = NULL;
    struct error          e = {0};
    struct buf            out;
    char                 *dir = tmp_make();
    json_t               *chat = json_loads(CHAT, 0, NULL);
    (void)state;
    write_file(dir, "tokenizer_config.json", "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T\"}]}");
    expect(dir, NULL, TOOLS, "T");
    buf_init(&out, 1000);
    assert_int_equal(chat_template_load(&t, dir, NULL, &e), 0);
    assert_int_equal(chat_template_render(t, chat, 0, &out, &e), ERR_INVALID);
    assert_non_null(strstr(e.msg, "none named \"default\""));
    chat_template_free(t);
    json_decref(chat);
    buf_deinit(&out);
    tmp_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_builtins), cmocka_unit_test(test_special_tokens),
                                       cmocka_unit_test(test_names), cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_tool_use_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
