/* Malformed and unsupported tokenizer.json files: each is refused with one sentence that names the file and the fault.
 * Odd but acceptable ones are accepted. Texts that hurt a backtracking matcher end soon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../support/bad_tokenizer.h"
#include "../support/tmp.h"
#include "base/clock.h"
#include "text/detok.h"

static void test_malformed_json(void **state)
{
    (void)state;
    refused(ERR_FORMAT, "", "ends early");
    refused(ERR_FORMAT, "[]", "not a JSON object");
    refused(ERR_FORMAT, "{", "line 1, column 2");
    refused(ERR_FORMAT, "{}", "no \"model\"");
    refused(ERR_FORMAT, "{" MODEL "} x", "after the end");
    refused(ERR_FORMAT, "{" MODEL ",}", "key");
    refused(ERR_FORMAT, "{\"model\":3}", "\"model\"");
    refused(ERR_FORMAT, "{" MODEL "," MODEL "}", "\"model\"");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":{\"a\xff\":1}}}", "UTF-8");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":{\"a\":1", "ends early");
    refused(ERR_FORMAT, "{\"normalizer\":{\"type\":\"NFC\"", "ends early");
}

static void test_vocabulary(void **state)
{
    (void)state;
    refused(ERR_FORMAT, "{\"model\":{\"type\":\"BPE\"}}", "no \"vocab\"");
    refused(ERR_FORMAT, "{\"model\":{\"type\":\"BPE\"," VOCAB "}}", "\"merges\"");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":3,\"merges\":[]}}", "\"vocab\" is not an object");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB "," VOCAB ",\"merges\":[]}}", "twice");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":{\"a\":\"1\"},\"merges\":[]}}", "not an integer");
    refused(ERR_LIMIT, "{\"model\":{\"vocab\":{\"a\":4000000000},\"merges\":[]}}", "'a' has id 4000000000");
    refused(ERR_LIMIT, "{\"model\":{\"vocab\":{\"a\":1048576},\"merges\":[]}}", "from 0 to 1048575");
    refused(ERR_LIMIT, "{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", "-1");
    refused(ERR_LIMIT, "{\"model\":{\"vocab\":{\"a\":1e30},\"merges\":[]}}", "'a'");
    refused(ERR_LIMIT, "{\"model\":{\"vocab\":{\"a\":1.5},\"merges\":[]}}", "'a'");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":{\"a\":1,\"a\":2},\"merges\":[]}}", "'a' stands twice");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":{\"a\":1,\"b\":1,\"a\":1,\"c\":1},\"merges\":[]}}",
            "'a' stands twice in the vocabulary, as 1 and 1");
}

static void test_merges(void **state)
{
    (void)state;
    refused(ERR_FORMAT, "{\"model\":{" VOCAB ",\"merges\":3}}", "\"merges\"");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB ",\"merges\":[],\"merges\":[]}}", "\"merges\"");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB ",\"merges\":[\"a b\",\"a x\"]}}", "merge 1 has the part 'x'");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB ",\"merges\":[\"b a\"]}}", "merge 0 makes 'ba'");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB ",\"merges\":[\"ab\"]}}", "merge 0 is not two parts");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB ",\"merges\":[\"a b c\"]}}", "merge 0 is not two parts");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB ",\"merges\":[[\"a\"]]}}", "not two strings");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB ",\"merges\":[[\"a\",\"b\",\"c\"]]}}", "not two strings");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB ",\"merges\":[[\"a\",1]]}}", "not two strings");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB ",\"merges\":[1]}}", "something other");
    refused(ERR_FORMAT, "{\"model\":{\"merges\":[\"a x\"]," VOCAB "}}", "merge 0 has the part 'x'");
}

/* Models other than BPE; what they need, and what may not be in them. */
static void test_models(void **state)
{
    (void)state;
    refused(ERR_FORMAT, "{\"model\":{\"type\":\"Unigram\",\"vocab\":{}}}", "\"vocab\" is not a list of pieces");
    refused(ERR_FORMAT, "{\"model\":{\"type\":\"WordLevel\",\"vocab\":[]}}", "\"vocab\" is not an object");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":[[\"a\",0]],\"unk_id\":1}}", "\"unk_id\" is 1");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":[[\"a\",0]],\"unk_id\":-1}}", "\"unk_id\" is not an integer");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":[[\"a\",0]],\"vocab\":[]}}", "twice");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":[\"a\"]}}", "other than pieces");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":[[\"a\",\"b\"]]}}", "not a string and a number");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":[[0,0]]}}", "not a string and a number");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":[[\"a\",0,0]]}}", "not a string and a number");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":[[\"a\",1e999]]}}", "a number");
    refused(ERR_FORMAT, "{\"model\":{\"vocab\":[[\"a\",NaN]]}}", "JSON");
    refused(ERR_FORMAT, "{\"model\":{\"type\":\"WordPiece\"," VOCAB "}}", "'WordPiece' has no \"unk_token\"");
    refused(ERR_FORMAT, "{\"model\":{\"type\":\"WordPiece\"," VOCAB ",\"unk_token\":\"a\"}}", "no \"continuing_sub");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB "}}", "'WordLevel' has no \"unk_token\"");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB ",\"merges\":[],\"dropout\":2}}", "\"dropout\"");
    refused(ERR_FORMAT, "{\"model\":{" VOCAB ",\"merges\":[],\"fuse_unk\":2}}", "\"fuse_unk\" is not true or false");
}

static void test_unsupported(void **state)
{
    (void)state;
    refused(ERR_UNSUPPORTED, "{\"model\":{\"type\":\"Odd\",\"vocab\":{}}}", "model 'Odd'");
    refused(ERR_UNSUPPORTED, "{" MODEL ",\"normalizer\":{\"type\":\"Odd\"}}", "normalizer 'Odd'");
    refused(ERR_UNSUPPORTED, "{" MODEL ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", "'UnicodeScripts'");
    refused(ERR_UNSUPPORTED, "{" MODEL ",\"post_processor\":{\"type\":\"Odd\"}}", "post_processor 'Odd'");
    refused(ERR_UNSUPPORTED, "{" MODEL ",\"decoder\":{\"type\":\"CTC\"}}", "decoder 'CTC'");
    refused(ERR_UNSUPPORTED,
            "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Odd\"}]}}",
            "pre_tokenizer 'Odd'");
}

static void test_components(void **state)
{
    (void)state;
    refused(ERR_FORMAT, "{" MODEL ",\"normalizer\":3}", "\"type\"");
    refused(ERR_FORMAT, "{" MODEL ",\"normalizer\":{\"type\":\"Prepend\"}}", "\"prepend\" is missing");
    refused(ERR_FORMAT,
            "{" MODEL ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}}",
            "empty pattern");
    refused(ERR_FORMAT, "{" MODEL ",\"normalizer\":{\"type\":\"Sequence\"}}", "without a list");
    refused(ERR_FORMAT, "{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\"}}", "not base64");
    refused(ERR_FORMAT, "{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}}",
            "normalizer: \"precompiled_charsmap\" is cut short");
    refused(ERR_FORMAT,
            "{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAAAAAD//w==\"}}",
            "broken UTF-8");
    refused(ERR_FORMAT, "{" MODEL ",\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":1}}", "\"lowercase\"");
    refused(ERR_FORMAT, "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\"}}", "\"behavior\"");
    refused(ERR_FORMAT, "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Odd\"}}", "\"behavior\"");
    refused(ERR_FORMAT, "{" MODEL ",\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":1}}", "\"use_regex\"");
    refused(ERR_FORMAT, "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Metaspace\"}}", "\"replacement\"");
    refused(ERR_FORMAT, "{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\"}}", "\"single\"");
    refused(ERR_FORMAT,
            "{" MODEL
            ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}]}}",
            "lacks 'x'");
    refused(ERR_FORMAT, "{" MODEL ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",-1]}}", "token id");
    refused(ERR_FORMAT, "{" MODEL ",\"decoder\":{\"type\":\"Strip\",\"content\":\"ab\"}}", "one character");
    refused(ERR_FORMAT, "{" MODEL ",\"added_tokens\":{}}", "\"added_tokens\"");
    refused(ERR_FORMAT, "{" MODEL ",\"added_tokens\":[{\"id\":1}]}", "\"content\"");
    refused(ERR_LIMIT, "{" MODEL ",\"added_tokens\":[{\"id\":4000000000,\"content\":\"x\"}]}", "'x' has id 4000000000");
    refused(ERR_LIMIT, "{" MODEL ",\"added_tokens\":[{\"content\":\"x\"}]}", "-1");
}

static void refused_pattern(int code, const char *pattern, const char *word)
{
    char json[2000];
    snprintf(json, sizeof json,
             "{" MODEL
             ",\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"%s\"}}}",
             pattern);
    refused(code, json, word);
}

static void test_patterns(void **state)
{
    (void)state;
    refused_pattern(ERR_FORMAT, "(a", "group without an end");
    refused_pattern(ERR_FORMAT, "a)", "not open");
    refused_pattern(ERR_FORMAT, "[a", "class without an end");
    refused_pattern(ERR_FORMAT, "[b-a]", "wrong order");
    refused_pattern(ERR_FORMAT, "*a", "nothing before it");
    refused_pattern(ERR_FORMAT, "a\\\\", "backslash");
    refused_pattern(ERR_FORMAT, "\\\\x{110000}", "\\x{}");
    refused_pattern(ERR_FORMAT, "[[:alfa:]]", "POSIX");
    refused_pattern(ERR_FORMAT, "(a)\\\\2", "group 2");
    refused_pattern(ERR_UNSUPPORTED, "\\\\p{Klingon}", "\\p{Klingon}");
    refused_pattern(ERR_UNSUPPORTED, "(?i)(a)\\\\1", "letter case");
    refused_pattern(ERR_UNSUPPORTED, "(?~a)", "absent operator");
    refused_pattern(ERR_UNSUPPORTED, "(?<=a\\\\s*)b", "unbounded length");
    refused_pattern(ERR_LIMIT, "[[[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]]", "16 levels");
}

/* Such files are odd, but the reference reads them. */
static void test_accepted(void **state)
{
    (void)state;
    static const char *const files[] = {
        "{" MODEL "}",
        "{\"model\":{\"merges\":[[\"a\",\"b\"]]," VOCAB "}}",
        "{\"model\":{" VOCAB ",\"merges\":[\"#version: 0.2\",\"a b\",\"a b\"]}}",
        "{\"model\":{\"vocab\":{},\"merges\":[]}}",
        "{\"model\":{\"vocab\":{\"\":0,\"a\":900000},\"merges\":[]}}", /* an empty text, a gap */
        "{\"x\":[1,{\"y\":2}]," MODEL ",\"normalizer\":null,\"decoder\":null}",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct error      e;
        struct tokenizer *t = load(files[i], &e);
        struct ids        ids = {0};
        if (!t)
            fail_msg("%s: %s", files[i], e.msg);
        assert_int_equal(tokenizer_encode(t, STR("abc ab\xff"), 3, &ids, &e), 0);
        if (i < 3) {
            assert_int_equal(ids.n, 4);
            assert_int_equal(ids.v[0], 2);
        }
        ids_deinit(&ids);
        tokenizer_free(t);
    }
    assert_true(process_peak_rss() < (size_t)300 << 20);
}

static void count(void *ctx, enum log_level level, const char *msg)
{
    assert_int_equal(level, LOG_WARNING);
    assert_non_null(strstr(msg, "'<t>' has id 100 in the file but becomes 6"));
    ++*(int *)ctx;
}

/* Ids come from the vocabulary or are the next free ones; the last of equal entries tells the flags. */
static void test_added_ids(void **state)
{
    (void)state;
    int               warnings = 0;
    struct log        log = {count, &warnings, LOG_WARNING};
    struct ids        ids = {0};
    struct tokenizer *t;
    struct error      e;
    const char *json = "{" MODEL ",\"added_tokens\":[{\"id\":5,\"content\":\"<s>\"},{\"id\":2,\"content\":\"ab\"},"
                       "{\"id\":6,\"content\":\"<s>\",\"special\":true},{\"id\":100,\"content\":\"<t>\"},"
                       "{\"id\":7,\"content\":\"\"}]}";
    assert_int_equal(tokenizer_load_text(&t, str_of(json), "dir/tokenizer.json", &log, &e), 0);
    assert_int_equal(warnings, 1);
    assert_int_equal(tokenizer_size(t), 7);
    assert_int_equal(tokenizer_find(t, STR("<s>")), 5);
    assert_int_equal(tokenizer_find(t, STR("<t>")), 6);
    assert_true(tokenizer_is_special(t, 5) && !tokenizer_is_special(t, 2));
    assert_int_equal(tokenizer_encode(t, STR("<s>ab<t>"), TOKENIZE_PARSE_SPECIAL, &ids, NULL), 0);
    assert_true(ids.n == 3 && ids.v[0] == 5 && ids.v[1] == 2 && ids.v[2] == 6);
    ids_deinit(&ids);
    tokenizer_free(t);
}

/* The most that are allowed load in a time linear in their number; one more is refused, as are other huge components. */
static void test_many_added(void **state)
{
    (void)state;
    struct buf        json;
    struct error      e = {0};
    struct tokenizer *t;
    double            start = clock_now();
    buf_init(&json, 1 << 27);
    buf_puts(&json, "{" MODEL ",\"added_tokens\":[");
    for (int i = 0; i < 199999; i++)
        buf_printf(&json, "%s{\"id\":%d,\"content\":\"<%d>\"}", i ? "," : "", i + 5, i);
    buf_puts(&json, "]}");
    assert_int_equal(tokenizer_load_text(&t, buf_str(&json), "dir/tokenizer.json", NULL, &e), 0);
    assert_int_equal(tokenizer_find(t, STR("<199998>")), 200003);
    assert_true(clock_now() - start < 10);
    tokenizer_free(t);
    json.n -= strlen("]}");
    buf_puts(&json, ",{\"id\":200004,\"content\":\"<199999>\"}]}");
    refused(ERR_LIMIT, buf_cstr(&json), "tokenizer.json: added_tokens: more than 200000 arrays and objects");
    buf_clear(&json);
    buf_printf(&json, "{" MODEL ",\"normalizer\":%*d}", (64 << 20) + 1, 1);
    refused(ERR_LIMIT, buf_cstr(&json), "normalizer takes 67108865 bytes");
    buf_deinit(&json);
}

static struct tokenizer *with_pattern(const char *pattern)
{
    char         json[2000];
    struct error e;
    snprintf(json, sizeof json,
             "{" MODEL
             ",\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"%s\"}}}",
             pattern);
    struct tokenizer *t = load(json, &e);
    if (!t)
        fail_msg("%s", e.msg);
    return t;
}

/* Patterns whose search explodes end with an error; a long text of one letter is no reason for one. */
static void test_time(void **state)
{
    (void)state;
    static const char *const explosive[] = {"(a+)+(?:c|d)", "(a|a)*(?:c|d)", "(?:a?){40}a{40}(?:c|d)"};
    size_t                   n = 200000;
    char                    *text = malloc(n);
    assert_non_null(text);
    memset(text, 'a', n);
    for (size_t i = 0; i < 4; i++) {
        struct error      e = {0};
        struct ids        ids = {0};
        double            start = clock_now();
        struct tokenizer *t = with_pattern(i < 3 ? explosive[i] : "a+(?!b)|b");
        int               status = tokenizer_encode(t, (struct str){text, n}, 0, &ids, &e);
        if (i < 3) {
            assert_int_equal(status, ERR_LIMIT);
            assert_int_equal(ids.n, 0);
        } else
            assert_int_equal(status, 0);
        assert_true(clock_now() - start < 20);
        ids_deinit(&ids);
        tokenizer_free(t);
    }
    free(text);
}

static void test_directory(void **state)
{
    (void)state;
    char             *dir = tmp_make();
    struct tokenizer *t;
    struct error      e = {0};
    assert_int_equal(tokenizer_load(&t, dir, NULL, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "tokenizer.json"));
    tmp_puts(dir, "tokenizer.json", "{" MODEL ",\"added_tokens\":[{\"id\":5,\"content\":\"<e>\",\"special\":true}]}");
    tmp_puts(dir, "tokenizer_config.json", "{\"eos_token\":3}");
    assert_int_equal(tokenizer_load(&t, dir, NULL, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "tokenizer_config.json: eos_token"));
    tmp_puts(dir, "tokenizer_config.json", "{\"eos_token\"");
    assert_int_equal(tokenizer_load(&t, dir, NULL, &e), ERR_FORMAT);
    tmp_puts(dir, "tokenizer_config.json",
             "{\"model_max_length\":1000000000000000019884624838656,\"eos_token\":{\"content\":\"<e>\"},\"pad_token\":"
             "null}");
    tmp_puts(dir, "special_tokens_map.json", "{\"eos_token\":\"x\",\"pad_token\":\"c\"}");
    assert_int_equal(tokenizer_load(&t, dir, NULL, &e), 0);
    assert_int_equal(tokenizer_eos(t), 5);
    assert_int_equal(tokenizer_size(t), 6);
    assert_true(tokenizer_is_special(t, 5) && !tokenizer_is_special(t, 4) && !tokenizer_is_special(t, -1));
    assert_true(str_is(t->special[NAMED_EOS], "<e>") && str_is(t->special[NAMED_PAD], "c"));
    assert_null(t->special[NAMED_BOS].p);
    assert_int_equal(tokenizer_find(t, STR("ab")), 2);
    assert_int_equal(tokenizer_find(t, STR("abc")), -1);
    assert_true(str_is(tokenizer_token(t, 2), "ab") && tokenizer_token(t, 99).n == 0);
    tokenizer_free(t);
    tmp_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed_json), cmocka_unit_test(test_vocabulary),  cmocka_unit_test(test_merges),
        cmocka_unit_test(test_models),         cmocka_unit_test(test_unsupported), cmocka_unit_test(test_components),
        cmocka_unit_test(test_patterns),       cmocka_unit_test(test_accepted),    cmocka_unit_test(test_added_ids),
        cmocka_unit_test(test_many_added),     cmocka_unit_test(test_time),        cmocka_unit_test(test_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
