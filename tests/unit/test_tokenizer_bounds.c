/* Tokenizer files that would take a long time or much memory, at load or for each text: there is a limit, or a way that
 * does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../support/bad_tokenizer.h"
#include "../support/tmp.h"
#include "base/clock.h"

/* Components that blow up a text without end are stopped, at load and at each text. */
static void test_growth(void **state)
{
    (void)state;
    static const char more[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\""
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}";
    static const char spaces[] = "{\"type\":\"Metaspace\",\"replacement\":\"    \",\"split\":false,"
                                 "\"prepend_scheme\":\"never\"}";
    struct buf        json;
    struct error      e;
    struct ids        ids = {0};
    buf_init(&json, 1 << 20);
    for (int pre = 0; pre < 2; pre++) {
        double start = clock_now();
        buf_clear(&json);
        buf_puts(&json, pre ? "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
                            : "{" MODEL ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
        for (int i = 0; i < 40; i++)
            buf_printf(&json, "%s%s", i ? "," : "", pre ? spaces : more);
        buf_puts(&json, "]}}");
        struct tokenizer *t = load(buf_cstr(&json), &e);
        assert_non_null(t);
        assert_int_equal(tokenizer_encode(t, STR("b"), 0, &ids, &e), 0);
        assert_int_equal(tokenizer_encode(t, STR(" a"), 0, &ids, &e), ERR_LIMIT);
        assert_non_null(strstr(e.msg, pre ? "pre_tokenizer: what" : "normalizer: what"));
        tokenizer_free(t);
        if (!pre) {
            json.n--;
            buf_puts(&json, ",\"added_tokens\":[{\"id\":5,\"content\":\"ba\"}]}");
            refused(ERR_LIMIT, buf_cstr(&json), "added token 'ba': normalizer: what it makes of a text is too long");
        }
        assert_true(clock_now() - start < 10);
    }
    buf_clear(&json);
    buf_printf(&json, "{" MODEL ",\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"%5000d\"}}", 1);
    refused(ERR_LIMIT, buf_cstr(&json), "normalizer: \"prepend\" is longer than 4096 bytes");
    ids_deinit(&ids);
    buf_deinit(&json);
}

/* Decoders that would blow up a text, or cost much at each token. */
static void test_decoders(void **state)
{
    (void)state;
    static const char step[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"%.*s\"},\"content\":\"%.*s\"}";
    static const char letters[] = "aaaaaaaaaaaaaaaaa";
    char              json[8000], one[400], two[1000];
    snprintf(one, sizeof one, step, 1, letters, 4, letters);
    snprintf(json, sizeof json, "{" MODEL ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[%s,%s,%s]}}", one, one,
             one);
    refused(ERR_LIMIT, json, "decoder: it can make a text more than 16 times as long");
    snprintf(one, sizeof one, step, 1, letters, 17, letters);
    snprintf(json, sizeof json, "{" MODEL ",\"decoder\":%s}", one);
    refused(ERR_LIMIT, json, "more than 16 times");
    snprintf(two, sizeof two, "%257d", 1);
    snprintf(json, sizeof json, "{" MODEL ",\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":\"%s\"}}", two);
    refused(ERR_LIMIT, json, "decoder: a text in it is longer than 256 bytes");
    refused(ERR_LIMIT, "{" MODEL ",\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":0,\"stop\":1025}}",
            "decoder: a Strip takes more than 1024 characters");
}

/* Models whose search would take long, or much memory: long tokens and many of them. */
static void test_long_tokens(void **state)
{
    (void)state;
    static const char *const heads[] = {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[",
                                        "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\",\"continuing_subword_"
                                        "prefix\":\"\",\"max_input_chars_per_word\":1000000000,\"vocab\":{"};
    static char              text[1 << 20], other[1024];
    struct buf               json;
    struct error             e = {0};
    struct ids               ids = {0};
    struct tokenizer        *t;
    memset(text, 'a', sizeof text);
    memset(other, 'b', sizeof other);
    buf_init(&json, 1 << 28);
    for (int words = 0; words < 2; words++) {
        double start = clock_now();
        size_t size = words ? sizeof text : sizeof text / 8; /* each place of which begins 1024 pieces */
        buf_clear(&json);
        buf_puts(&json, heads[words]);
        for (int n = 1; n <= 1024; n++)
            buf_printf(&json, words ? "%s\"%.*s\":%d" : "%s[\"%.*s\",-%d]", n > 1 ? "," : "", n,
                       words && n > 1 ? other : text, n);
        size_t before = json.n;
        buf_puts(&json, words ? "}}}" : "]}}");
        assert_int_equal(tokenizer_load_text(&t, buf_str(&json), "dir/tokenizer.json", NULL, &e), 0);
        ids.n = 0;
        assert_int_equal(tokenizer_encode(t, (struct str){text, size}, 0, &ids, &e), 0);
        assert_true(ids.n >= size / 1024);
        assert_true(clock_now() - start < 15);
        tokenizer_free(t);
        json.n = before;
        buf_printf(&json, words ? ",\"%.*s\":1025}}}" : ",[\"%.*s\",0]]}}", 1025, text);
        refused(ERR_LIMIT, buf_cstr(&json), "model: \"vocab\" has a token of 1025 bytes; the limit is 1024");
        buf_clear(&json);
        buf_puts(&json, heads[words]);
        for (int n = 0; n <= 33000; n++)
            buf_printf(&json, words ? "%s\"%d%.*s\":%d" : "%s[\"%d%.*s\",-%d]", n ? "," : "", n, 1018, text, n);
        buf_puts(&json, words ? "}}}" : "]}}");
        refused(ERR_LIMIT, buf_cstr(&json), "the limit is 33554432");
    }
    ids_deinit(&ids);
    buf_deinit(&json);
}

/* Texts that share an id are all found. */
static void test_aliases(void **state)
{
    (void)state;
    struct error      e;
    struct ids        ids = {0};
    struct tokenizer *t =
        load("{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\",\"max_input_chars_per_word\":100,"
             "\"continuing_subword_prefix\":\"##\",\"vocab\":{\"u\":0,\"a\":1,\"b\":1,\"##c\":2,\"##d\":2}}}",
             &e);
    assert_non_null(t);
    assert_int_equal(tokenizer_encode(t, STR("acd"), 0, &ids, &e), 0);
    assert_int_equal(tokenizer_encode(t, STR("bd"), 0, &ids, &e), 0);
    assert_int_equal(tokenizer_encode(t, STR("b##d"), 0, &ids, &e), 0);
    static const int32_t want[] = {1, 2, 2, 1, 2, 0};
    assert_int_equal(ids.n, 6);
    assert_memory_equal(ids.v, want, sizeof want);
    ids_deinit(&ids);
    tokenizer_free(t);
}

/* An added token that swallows the white space behind it, in nothing but white space. */
static void test_swallowed_space(void **state)
{
    (void)state;
    static char       text[1 << 20];
    struct error      e;
    struct ids        ids = {0};
    double            start = clock_now();
    struct tokenizer *t = load("{" MODEL ",\"added_tokens\":[{\"id\":4,\"content\":\" \",\"rstrip\":true}]}", &e);
    assert_non_null(t);
    memset(text, ' ', sizeof text);
    assert_int_equal(tokenizer_encode(t, (struct str){text, sizeof text}, 0, &ids, &e), 0);
    assert_int_equal(ids.n, sizeof text);
    assert_true(clock_now() - start < 10);
    ids_deinit(&ids);
    tokenizer_free(t);
}

/* As many tokens in tokenizer_config.json as there may be. */
static void test_many_config_tokens(void **state)
{
    (void)state;
    char             *dir = tmp_make();
    struct tokenizer *t;
    struct error      e = {0};
    struct buf        vocab, config;
    double            start = clock_now();
    buf_init(&vocab, 1 << 24);
    buf_init(&config, 1 << 24);
    buf_puts(&vocab, "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0");
    buf_puts(&config, "{\"extra_special_tokens\":[\"a\"");
    for (int i = 1; i < 100000; i++) {
        buf_printf(&vocab, ",\"%d\":%d", i, i);
        buf_printf(&config, ",\"%d\"", i);
    }
    buf_puts(&vocab, "}}}");
    buf_puts(&config, "]}");
    tmp_puts(dir, "tokenizer.json", buf_cstr(&vocab));
    tmp_puts(dir, "tokenizer_config.json", buf_cstr(&config));
    assert_int_equal(tokenizer_load(&t, dir, NULL, &e), 0);
    assert_true(tokenizer_is_special(t, 99999));
    assert_true(clock_now() - start < 10);
    tokenizer_free(t);
    buf_deinit(&vocab);
    buf_deinit(&config);
    tmp_remove(dir);
}

static void count_all(void *ctx, enum log_level level, const char *msg)
{
    (void)level, (void)msg;
    ++*(int *)ctx;
}

/* A warning comes once, also where tokenizer_config.json makes the file be read again. */
static void test_one_warning(void **state)
{
    (void)state;
    char             *dir = tmp_make();
    int               warnings = 0;
    struct log        log = {count_all, &warnings, LOG_WARNING};
    struct tokenizer *t;
    tmp_puts(dir, "tokenizer.json",
             "{\"model\":{\"type\":\"BPE\",\"dropout\":0.5,\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}");
    tmp_puts(dir, "tokenizer_config.json", "{\"pad_token\":\"b\"}");
    assert_int_equal(tokenizer_load(&t, dir, &log, NULL), 0);
    assert_true(tokenizer_is_special(t, 1));
    assert_int_equal(warnings, 1);
    tokenizer_free(t);
    tmp_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth),          cmocka_unit_test(test_decoders),
        cmocka_unit_test(test_long_tokens),     cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_swallowed_space), cmocka_unit_test(test_many_config_tokens),
        cmocka_unit_test(test_one_warning)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
