/* Added tokens that only tokenizer_config.json has (docs/decisions/0005-tokenizer-config.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "../support/tmp.h"
#include "text/tokenizer_int.h"

#define FILE_TEXT                                                                                                      \
    "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"<x>\":3,\"<\":4,\">\":5,\"x\":6}" \
    "},"                                                                                                               \
    "\"added_tokens\":[{\"id\":7,\"content\":\"<s>\",\"special\":false,\"rstrip\":true}]}\n"

static struct tokenizer *load_file(const char *file, const char *config)
{
    char             *dir = tmp_make();
    struct tokenizer *t = NULL;
    struct error      e = {0};
    tmp_write(dir, "tokenizer.json", file, strlen(file));
    tmp_write(dir, "tokenizer_config.json", config, strlen(config));
    if (tokenizer_load(&t, dir, NULL, &e))
        fail_msg("%s", e.msg);
    tmp_remove(dir);
    return t;
}

static struct tokenizer *load(const char *config)
{
    return load_file(FILE_TEXT, config);
}

/* Frees t. */
static void expect_of(struct tokenizer *t, const char *text, const char *want)
{
    struct ids ids = {0};
    char       got[200] = "", *p = got;
    assert_int_equal(tokenizer_encode(t, str_of(text), TOKENIZE_PARSE_SPECIAL, &ids, NULL), 0);
    for (size_t i = 0; i < ids.n; i++)
        p += sprintf(p, "%s%d", i ? " " : "", ids.v[i]);
    assert_string_equal(got, want);
    ids_deinit(&ids);
    tokenizer_free(t);
}

static void expect(const char *config, const char *text, const char *want)
{
    expect_of(load(config), text, want);
}

static void test_taken(void **state)
{
    (void)state;
    expect("{}", "<x>", "4 6 5");
    expect("{\"pad_token\":\"<x>\"}", "<x>", "3"); /* it is in the vocabulary */
    expect("{\"pad_token\":{\"content\":\"<x>\",\"lstrip\":true}}", "a <x>", "0 3");
    expect("{\"extra_special_tokens\":[\"<x>\"]}", "<x>", "3");
    expect("{\"extra_special_tokens\":{\"image_token\":\"<x>\"}}", "<x>", "3");
    expect("{\"additional_special_tokens\":[{\"content\":\"<x>\"}]}", "<x>", "3");
    expect("{\"added_tokens_decoder\":{\"3\":{\"content\":\"<x>\",\"special\":true}}}", "<x>", "3");
    expect("{\"added_tokens_decoder\":{\"9\":{\"content\":\"xx\"},\"8\":{\"content\":\"ab\"}}}", "xxab<s>", "9 8 7");
}

static void test_not_taken(void **state)
{
    (void)state;
    expect("{\"pad_token\":\"<new>\"}", "<x>", "4 6 5"); /* it would need a new id */
    expect("{\"added_tokens_decoder\":{\"10\":{\"content\":\"xx\"}}}", "xx", "6 6");
    expect("{\"added_tokens_decoder\":{\"7\":{\"content\":\"<s>\",\"rstrip\":false}}}", "<s> a",
           "7 0"); /* flags stay */
    expect("{\"extra_special_tokens\":[1,null,{},\"\"],\"added_tokens_decoder\":[\"<x>\"]}", "<x>", "4 6 5");
    expect("{\"added_tokens_decoder\":{\"8\":{\"content\":\"<s>\"},\"x\":3,\"9\":null}}", "<s>x", "7 6");
}

/* A vocabulary with gaps: the next id is the number of texts, but after an added token's if that is greater. */
static void test_gaps(void **state)
{
#define GAPS(added)                                                                                                    \
    "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"u\":0,\"a\":1,\"b\":9}},\"added_tokens\":[" added "]}"
#define CONFIG(id) "{\"added_tokens_decoder\":{\"" id "\":{\"content\":\"<n>\",\"special\":true}}}"
    (void)state;
    expect_of(load_file(GAPS(""), CONFIG("3")), "ab<n>", "1 9 3");
    expect_of(load_file(GAPS(""), CONFIG("10")), "ab<n>", "1 9");
    expect_of(load_file(GAPS("{\"id\":9,\"content\":\"b\"}"), CONFIG("10")), "ab<n>", "1 9 10");
    expect_of(load_file(GAPS("{\"id\":9,\"content\":\"b\"}"), CONFIG("3")), "ab<n>", "1 9");
    /* the same text twice: the first entry counts for the numbers */
    expect_of(load_file(GAPS("{\"id\":3,\"content\":\"x\"},{\"id\":4,\"content\":\"y\"},{\"id\":3,\"content\":\"x\"}"),
                        CONFIG("5")),
              "xy<n>", "3 4 5");
}

static void test_facts(void **state)
{
    struct tokenizer *t = load("{\"eos_token\":\"<x>\",\"added_tokens_decoder\":{\"8\":{\"content\":\"ab\"}}}");
    (void)state;
    assert_int_equal(tokenizer_eos(t), 3);
    assert_true(tokenizer_is_special(t, 3));
    assert_false(tokenizer_is_special(t, 7));
    assert_int_equal(tokenizer_size(t), 9);
    assert_true(str_is(t->special[NAMED_EOS], "<x>"));
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_not_taken),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
