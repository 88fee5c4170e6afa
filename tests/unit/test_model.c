/* The kinds of models on their own: what they do without a token for the unknown, what a failure leaves, and texts of a
 * megabyte without a border. What they give is compared with the reference's output by test_tokenizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/clock.h"
#include "text/tokenizer_int.h"

#define MEGABYTE ((size_t)1 << 20)
#define UNIGRAM(rest) "{\"model\":{\"type\":\"Unigram\",\"vocab\":[" rest "]}}"
#define PIECES "[\"<unk>\",0],[\"a\",0],[\"b\",0],[\"c\",0],[\"d\",0],[\"cd\",1],[\"ab\",2],[\"abc\",5],[\"abcd\",10]"
#define WORDPIECE(rest)                                                                                                \
    "{\"model\":{\"type\":\"WordPiece\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":2000000,"    \
    "\"unk_token\":\"?\",\"vocab\":{" rest "}}}"

static struct tokenizer *load(const char *json)
{
    struct tokenizer *t;
    struct error      e = {0};
    if (tokenizer_load_text(&t, str_of(json), "t.json", NULL, &e))
        fail_msg("%s", e.msg);
    return t;
}

static void gives(const char *json, const char *text, size_t n, const int32_t *want)
{
    struct tokenizer *t = load(json);
    struct ids        got = {0};
    assert_int_equal(tokenizer_encode(t, str_of(text), 0, &got, NULL), 0);
    assert_int_equal(got.n, n);
    assert_memory_equal(got.v, want, n * sizeof *want);
    ids_deinit(&got);
    tokenizer_free(t);
}

/* One error that names the text; the ids before stay. */
static void unknown(const char *json, const char *text, const char *named)
{
    struct tokenizer *t = load(json);
    struct ids        ids = {0};
    struct error      e = {0};
    assert_true(ids_push(&ids, 77));
    assert_int_equal(tokenizer_encode(t, str_of(text), 0, &ids, &e), ERR_INVALID);
    if (!strstr(e.msg, named))
        fail_msg("%s", e.msg);
    assert_int_equal(ids.n, 1);
    ids_deinit(&ids);
    tokenizer_free(t);
}

static void test_unigram(void **state)
{
    (void)state;
    gives("{\"model\":{\"unk_id\":0,\"vocab\":[" PIECES "]}}", "abcdacdxx", 4, (int32_t[]){8, 1, 5, 0});
    /* Of equal pieces the last counts; pieces with a gap in no kind of order; a piece that is never reached. */
    gives(UNIGRAM("[\"a\",-1],[\"a\",-2],[\"\",0]"), "aa", 2, (int32_t[]){1, 1});
    gives("{\"model\":{\"unk_id\":0,\"byte_fallback\":true,\"vocab\":[[\"?\",0],[\"<0xC3>\",0],[\"<0xA9>\",0]]}}",
          "\xc3\xa9", 2, (int32_t[]){1, 2});
    unknown(UNIGRAM("[\"a\",-1]"), "aab", "'b'");
}

static void test_words(void **state)
{
    (void)state;
    gives(WORDPIECE("\"?\":0,\"ab\":1,\"a\":2,\"##c\":3,\"##cd\":4"), "abcdc", 3, (int32_t[]){1, 4, 3});
    gives(WORDPIECE("\"?\":0,\"ab\":1,\"a\":2,\"##c\":3"), "abcx", 1, (int32_t[]){0});
    unknown(WORDPIECE("\"ab\":1"), "abc", "'abc'");
    unknown("{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0},\"unk_token\":\"?\"}}", "b", "'b'");
}

/* A megabyte of one letter (and of one that is unknown) takes time in proportion, whatever the kind; the bound is far
 * above what it needs, for slow and instrumented builds. */
static void test_long(void **state)
{
    static const char *const files[] = {
        UNIGRAM(PIECES), "{\"model\":{\"unk_id\":0,\"vocab\":[" PIECES ",[\"aaaaaaaaaaaaaaaa\",1]]}}",
        WORDPIECE("\"?\":0,\"a\":1,\"##a\":2,\"##aaaaaaaa\":3"),
        ("{\"model\":{\"type\":\"BPE\",\"continuing_subword_prefix\":\"##\",\"end_of_word_suffix\":\"$\",\"vocab\":"
         "{\"a\":0,\"##a\":1,\"##a$\":2,\"aa\":3,\"##aa\":4},\"merges\":[\"##a ##a\",\"a ##a\"]}}")};
    char *text = malloc(MEGABYTE);
    (void)state;
    assert_non_null(text);
    memset(text, 'a', MEGABYTE);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct tokenizer *t = load(files[i]);
        struct ids        ids = {0};
        double            start = clock_now();
        assert_int_equal(tokenizer_encode(t, (struct str){text, MEGABYTE}, 0, &ids, NULL), 0);
        assert_true(ids.n > 0);
        assert_true(clock_now() - start < 10);
        ids_deinit(&ids);
        tokenizer_free(t);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unigram), cmocka_unit_test(test_words),
                                       cmocka_unit_test(test_long)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
