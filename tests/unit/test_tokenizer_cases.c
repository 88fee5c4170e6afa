/* Small cases that random comparison with the reference once found (make text-fuzz), with the reference's answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "text/tokenizer_int.h"

#define VOCAB                                                                                                          \
    "{\"<unk>\":0,\"a\":1,\"b\":2,\"\\u2581\":3,\" \":4,\"\\uac00\":5,\"\\u11a7\":6,\"x\":7,\"y\":8,\"[\":9,\"]\":10}"

static struct tokenizer *make(const char *parts)
{
    char              json[3000];
    struct tokenizer *t;
    struct error      e = {0};
    snprintf(json, sizeof json,
             "{\"model\":{\"type\":\"BPE\",\"vocab\":" VOCAB ",\"merges\":[],\"unk_token\":\"<unk>\"},%s}", parts);
    if (tokenizer_load_text(&t, str_of(json), "tokenizer.json", NULL, &e))
        fail_msg("%s", e.msg);
    return t;
}

static void expect_ids(const char *parts, const char *text, size_t n, const int32_t *want)
{
    struct tokenizer *t = make(parts);
    struct ids        got = {0};
    assert_int_equal(tokenizer_encode(t, str_of(text), TOKENIZE_PARSE_SPECIAL, &got, NULL), 0);
    assert_int_equal(got.n, n);
    assert_memory_equal(got.v, want, n * sizeof *want);
    ids_deinit(&got);
    tokenizer_free(t);
}

#define EXPECT(parts, text, ...)                                                                                       \
    expect_ids(parts, text, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t), (const int32_t[]){__VA_ARGS__})

/* utf8proc takes U+11A7 for a trailing consonant. */
static void test_hangul(void **state)
{
    (void)state;
    EXPECT("\"normalizer\":{\"type\":\"NFKC\"}", "\xea\xb0\x80\xe1\x86\xa7", 5, 6);
    EXPECT("\"normalizer\":{\"type\":\"NFC\"}", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa7", 5, 6);
}

/* "first" is where the text begins, not what is left of it. */
static void test_first(void **state)
{
    (void)state;
#define FIRST                                                                                                          \
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},{\"type\":"            \
    "\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"first\"}]}"
    EXPECT(FIRST, "a b", 3, 1, 2);
    EXPECT(FIRST, " a b", 1, 2);
}

#define ADDED(id, text, special) "{\"id\":" id ",\"content\":\"" text "\",\"normalized\":true,\"special\":" special "}"
#define LOWER "\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":["

/* Of tokens that are normalized to the same the first is found; which one the reference finds changes from run to run. */
static void test_same_spelling(void **state)
{
    (void)state;
    EXPECT(LOWER ADDED("11", "Xx", "false") "," ADDED("12", "xX", "true") "]", "XX", 11);
}

/* A special token is left out by its spelling: one that normalization changes is not. */
static void test_skipped(void **state)
{
    (void)state;
    struct tokenizer *t = make(LOWER ADDED("11", "Xx", "true") "," ADDED("12", "yy", "true") "]");
    struct buf        out;
    buf_init(&out, 100);
    assert_int_equal(tokenizer_decode(t, (int32_t[]){11, 12}, 2, true, &out, NULL), 0);
    assert_string_equal(buf_cstr(&out), "xx");
    assert_true(tokenizer_is_special(t, 11));
    buf_deinit(&out);
    tokenizer_free(t);
}

/* Of texts with one id the last one is what the id decodes to (the reference takes another one in each run), and the next
 * free id is after the number of texts. */
static void test_one_id(void **state)
{
    struct tokenizer *t;
    struct buf        out;
    (void)state;
    assert_int_equal(
        tokenizer_load_text(&t,
                            STR("{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"u\":0,\"b\":1,\"a\":1,"
                                "\"c\":2}},\"added_tokens\":[{\"id\":4,\"content\":\"<n>\"}]}"),
                            "tokenizer.json", NULL, NULL),
        0);
    buf_init(&out, 100);
    assert_int_equal(tokenizer_decode(t, (int32_t[]){1, 2, 4}, 3, false, &out, NULL), 0);
    assert_string_equal(buf_cstr(&out), "a c <n>");
    assert_int_equal(tokenizer_find(t, STR("b")), 1);
    assert_int_equal(tokenizer_find(t, STR("a")), 1);
    assert_int_equal(tokenizer_size(t), 5);
    buf_deinit(&out);
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hangul),  cmocka_unit_test(test_first),  cmocka_unit_test(test_same_spelling),
        cmocka_unit_test(test_skipped), cmocka_unit_test(test_one_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
