/* Where tokens come from: ranges of the input through normalizers, pre-tokenizers, unknown characters and bytes. Ranges of
 * single characters are the reference's offsets; those of composed ones are wider there, see tokenizer.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "text/tokenizer_int.h"

#define VOCAB                                                                                                          \
    "{\"<unk>\":0,\"a\":1,\"b\":2,\"\\u2581\":3,\"\\u2581a\":4,\"\\u00e9\":5,\"<0xC3>\":6,\"<0xB1>\":7,\"ab\":8,"      \
    "\"x\":9}"

/* want: "id:start-end" for each token. */
static void expect(const char *model, const char *parts, struct str text, const char *want)
{
    char                json[3000], got[1000] = "", *p = got;
    struct tokenizer   *t;
    struct token_pieces pieces = {0};
    struct ids          ids = {0};
    struct error        e = {0};
    snprintf(
        json, sizeof json,
        "{\"model\":{%s},\"added_tokens\":[{\"id\":10,\"content\":\"<s>\",\"lstrip\":true,\"normalized\":false}]%s}",
        model, parts);
    if (tokenizer_load_text(&t, str_of(json), "tokenizer.json", NULL, &e) ||
        tokenizer_encode_pieces(t, text, TOKENIZE_ADD_SPECIAL, &pieces, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(tokenizer_encode(t, text, TOKENIZE_ADD_SPECIAL, &ids, &e), 0);
    assert_int_equal(ids.n, pieces.n);
    for (size_t i = 0; i < pieces.n; i++) {
        assert_int_equal(ids.v[i], pieces.v[i].id);
        p += sprintf(p, "%s%d:%zu-%zu", i ? " " : "", pieces.v[i].id, pieces.v[i].start, pieces.v[i].end);
    }
    assert_string_equal(got, want);
    ids_deinit(&ids);
    token_pieces_deinit(&pieces);
    tokenizer_free(t);
}

#define BPE(flags) "\"type\":\"BPE\",\"vocab\":" VOCAB ",\"merges\":[\"\\u2581 a\",\"a b\"]" flags
#define NORMALIZER(steps) ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" steps "]}"
#define LLAMA                                                                                                          \
    NORMALIZER("{\"type\":\"Prepend\",\"prepend\":\"\\u2581\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"  \
               "\"content\":\"\\u2581\"}")

static void test_plain(void **state)
{
    (void)state;
    expect(BPE(""), "", STR("abxb"), "8:0-2 9:2-3 2:3-4");
    expect(BPE(""), "", STR(""), "");
    expect(BPE(""), "", STR("a  <s>b"), "1:0-1 10:1-6 2:6-7"); /* with the white space that it swallows */
    expect(BPE(""), "", STR("a?x"), "1:0-1 9:2-3");            /* no token stands for ? */
    expect(BPE(",\"unk_token\":\"<unk>\""), "",
           STR("a?\xc2\xa0"
               "b"),
           "1:0-1 0:1-2 0:2-4 2:4-5");
    expect(BPE(",\"unk_token\":\"<unk>\",\"fuse_unk\":true"), "",
           STR("a?\xc2\xa0"
               "b??"),
           "1:0-1 0:1-4 2:4-5 0:5-7");
    expect(BPE(",\"byte_fallback\":true"), "",
           STR("a\xc3\xb1"
               "b"),
           "1:0-1 6:1-3 7:1-3 2:3-4");
}

/* A token that begins in the white space that the one before swallows: both have it, as in the reference. */
#define TWICE(normalized)                                                                                              \
    ",\"added_tokens\":[{\"id\":10,\"content\":\"\\n\\n\",\"rstrip\":true,\"normalized\":" normalized "}]"

static void test_swallowed(void **state)
{
    (void)state;
    expect(BPE(""), TWICE("false"), STR("a\n\n\n\n"), "1:0-1 10:1-5 10:3-5");
    expect(BPE(""), TWICE("true"), STR("a\n\n\n\n"), "1:0-1 10:1-5 10:3-5");
}

static void test_rewritten(void **state)
{
    (void)state;
    expect(BPE(""), LLAMA, STR("a a<s>b"), "4:0-1 4:1-3 10:3-6 3:6-7 2:6-7");
    expect(BPE(""), NORMALIZER("{\"type\":\"NFC\"}"), STR("ae\xcc\x81x"), "1:0-1 5:1-4 9:4-5");
    expect(BPE(""), NORMALIZER("{\"type\":\"Lowercase\"}"), STR("A\xc3\x89X"), "1:0-1 5:1-3 9:3-4");
    expect(BPE(""), NORMALIZER("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}"), STR("  a x "),
           "1:2-3 9:4-5");
    /* the first step leaves nothing of the blanks, into which the next one puts nothing */
    expect(BPE(""),
           NORMALIZER("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true},"
                      "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"^\"},\"content\":\"ab\"}"),
           STR("x<s>  "), "8:0-1 9:0-1 10:1-4");
    expect(BPE(""), NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"String\":\"xx\"},\"content\":\"b\"}"), STR("axxa"),
           "8:0-3 1:3-4");
    expect(BPE(""),
           ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"always\"}",
           STR("a b"), "4:0-1 3:1-2 2:2-3");
}

static void test_models(void **state)
{
    (void)state;
    const char *split = ",\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"}";
    expect("\"type\":\"WordPiece\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"unk_token\":"
           "\"<unk>\",\"vocab\":{\"<unk>\":0,"
           "\"a\":1,\"##b\":2,\"##a\":3}",
           split, STR("aba \xc3\xa9t a"), "1:0-1 2:1-2 3:2-3 0:4-7 1:8-9");
    expect("\"type\":\"WordLevel\",\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,\"ab\":1}", split, STR("ab  b ab"),
           "1:0-2 0:4-5 1:6-8");
    expect("\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1],[\"ab\",-1],[\"b\",-3]]", "",
           STR("aab??ab?"), "1:0-1 2:1-3 0:3-5 2:5-7 0:7-8");
}

/* Several texts with one id: each is found. The ids are the reference's. */
static void test_one_id(void **state)
{
    (void)state;
    expect("\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0,\"ab\":2,\"c\":3,\"bc\":2,\"abc\":4},\"merges\":[\"a b\",\"ab "
           "c\"]",
           "", STR("abcbccab"), "4:0-3 0:3-4 3:4-5 3:5-6 2:6-8");
    expect("\"type\":\"WordPiece\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"unk_token\":"
           "\"<unk>\",\"vocab\":{\"<unk>\":0,\"a\":1,\"##b\":1,\"c\":2}",
           "", STR("abb"), "1:0-1 1:1-2 1:2-3");
    expect("\"type\":\"WordLevel\",\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,\"a\":1,\"bb\":1,\"ccc\":1}",
           ",\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"}", STR("a bb ccc"), "1:0-1 1:2-4 1:5-8");
}

/* Places are those of the input, not of what is read for it. */
static void test_broken(void **state)
{
    (void)state;
    expect(BPE(",\"unk_token\":\"<unk>\""), "",
           STR("a\xe2\x82"
               "b\xff"
               "a"),
           "1:0-1 0:1-3 2:3-4 0:4-5 1:5-6");
    expect(BPE(",\"unk_token\":\"<unk>\""), "", STR("\xf0\x9f"), "0:0-2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),  cmocka_unit_test(test_swallowed), cmocka_unit_test(test_rewritten),
        cmocka_unit_test(test_models), cmocka_unit_test(test_broken),    cmocka_unit_test(test_one_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
