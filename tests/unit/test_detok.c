/* The streaming detokenizer: what is held back and until when, at each kind of decoder; bytes of single tokens. (That
 * the parts add up to the whole, and the whole to the reference's, test_tokenizer.c shows.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/utf8.h"
#include "text/detok.h"
#include "text/tokenizer_int.h"

/* A tokenizer whose vocabulary and decoder are given as JSON; id 0 .. in the order of the list. */
static struct tokenizer *make(const char *vocab, const char *decoder)
{
    char              json[4000];
    struct tokenizer *t;
    struct error      e = {0};
    snprintf(json, sizeof json,
             "{\"model\":{\"type\":\"BPE\",\"vocab\":%s,\"merges\":[]},\"decoder\":%s,"
             "\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true}]}",
             vocab, decoder);
    if (tokenizer_load_text(&t, str_of(json), "tokenizer.json", NULL, &e))
        fail_msg("%s", e.msg);
    return t;
}

/* Pushes ids and compares what each gives; `want` has one string per id and one for the end. */
static void check(const struct tokenizer *t, bool skip, const int32_t *ids, size_t n, const char *const *want)
{
    struct detok d;
    struct buf   out;
    buf_init(&out, 1 << 20);
    detok_init(&d, t, skip);
    for (int twice = 0; twice < 2; twice++) /* after its end it starts anew */
        for (size_t i = 0; i <= n; i++) {
            buf_clear(&out);
            assert_int_equal(i < n ? detok_push(&d, ids[i], &out) : detok_finish(&d, &out), 0);
            assert_string_equal(buf_cstr(&out), want[i]);
        }
    detok_deinit(&d);
    buf_deinit(&out);
}

#define CHECK(t, skip, ids, ...) check(t, skip, ids, sizeof(ids) / sizeof *(ids), (const char *const[]){__VA_ARGS__})

#define BYTES                                                                                                          \
    "{\"\\u0120a\":0,\"\\u00e2\":1,\"\\u0124\":2,\"\\u00ac\":3,\"\\u00f0\":4,\"b\":5,\"\\u00e2\\u0124\\u00acx\":6,"    \
    "\"\\u65e5\":7,\"\":8}"

static void test_bytes(void **state)
{
    (void)state;
    struct tokenizer *t = make(BYTES, "{\"type\":\"ByteLevel\"}");
    int32_t           euro[] = {0, 1, 2, 3, 5};
    CHECK(t, false, euro, " a", "", "", "\xe2\x82\xac", "b", "");
    int32_t broken[] = {1, 5, 1, 2, 1, 4, 6};
    CHECK(t, false, broken, "",
          "\xef\xbf\xbd"
          "b",
          "", "", "\xef\xbf\xbd", "\xef\xbf\xbd", "\xef\xbf\xbd\xe2\x82\xacx", "");
    int32_t tail[] = {5, 1, 2};
    CHECK(t, false, tail, "b", "", "", "\xef\xbf\xbd");
    /* A character outside the spelling stands for itself; unknown ids and skipped tokens leave a character unfinished.
     */
    int32_t odd[] = {7, 8, 1, 99, -1, 2, 9, 3};
    CHECK(t, true, odd, "\xe6\x97\xa5", "", "", "", "", "", "", "\xe2\x82\xac", "");
    int32_t special[] = {1, 9, 2};
    CHECK(t, false, special, "", "\xef\xbf\xbd<s>", "\xef\xbf\xbd", "");
    tokenizer_free(t);
}

#define PIECES                                                                                                         \
    "{\"\\u2581a\":0,\"<0xE2>\":1,\"<0x82>\":2,\"<0xAC>\":3,\"\\u2581\":4,\"b\":5,\"<0xg0>\":6,\"<0x41>\":7,"          \
    "\"\\u2581\\u2581\":8}"
#define LLAMA                                                                                                          \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u2581\"},\"content\":\" "  \
    "\"},"                                                                                                             \
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":%d}]}"

static void test_byte_fallback(void **state)
{
    (void)state;
    char decoder[600];
    snprintf(decoder, sizeof decoder, LLAMA, 0);
    struct tokenizer *t = make(PIECES, decoder);
    int32_t           plain[] = {0, 0, 6, 4, 5};
    CHECK(t, false, plain, "a", " a", "<0xg0>", " ", "b", "");
    int32_t euro[] = {5, 1, 2, 3, 7, 5}; /* a run may still break: it is held to its end */
    CHECK(t, false, euro, "b", "", "", "", "",
          "\xe2\x82\xac"
          "Ab",
          "");
    int32_t hopeless[] = {1, 2, 7, 7, 5, 7}; /* no longer than it may become text */
    CHECK(t, false, hopeless, "", "", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "\xef\xbf\xbd", "b", "", "A");
    int32_t broken[] = {1, 2, 3, 1};
    CHECK(t, false, broken, "", "", "", "", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    int32_t spaces[] = {4, 8, 5};
    CHECK(t, false, spaces, "", "  ", "b", "");
    tokenizer_free(t);
}

static void test_strip_end(void **state)
{
    (void)state;
    char decoder[600];
    snprintf(decoder, sizeof decoder, LLAMA, 2);
    struct tokenizer *t = make(PIECES, decoder);
    int32_t           held[] = {0, 4, 5, 8, 4, 5};
    CHECK(t, false, held, "a", "", " b", "", " ", "  b", "");
    int32_t end[] = {5, 8, 4};
    CHECK(t, false, end, "b", "", " ", "");
    tokenizer_free(t);
}

static void test_other_decoders(void **state)
{
    (void)state;
    int32_t           ids[] = {4, 0, 9, 8};
    struct tokenizer *t = make(PIECES, "null");
    CHECK(t, false, ids, "\xe2\x96\x81",
          " \xe2\x96\x81"
          "a",
          " <s>", " \xe2\x96\x81\xe2\x96\x81", "");
    tokenizer_free(t);
    t = make(PIECES, "{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"always\"}");
    CHECK(t, true, ids, "", " a", "", "  ", "");
    tokenizer_free(t);
    t = make(PIECES, "{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"never\"}");
    CHECK(t, true, ids, " ", " a", "", "  ", "");
    tokenizer_free(t);
}

static void bytes_of(const struct tokenizer *t, int32_t id, const char *want)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    assert_int_equal(tokenizer_token_bytes(t, id, &out), 0);
    assert_string_equal(buf_cstr(&out), want);
    buf_deinit(&out);
}

static void test_token_bytes(void **state)
{
    (void)state;
    struct tokenizer *t = make(BYTES, "{\"type\":\"ByteLevel\"}");
    bytes_of(t, 0, " a");
    bytes_of(t, 1, "\xe2");
    bytes_of(t, 6, "\xe2\x82\xacx");
    bytes_of(t, 7, "\xe6\x97\xa5");
    bytes_of(t, 9, "<s>");
    bytes_of(t, 99, "");
    tokenizer_free(t);
    char decoder[600];
    snprintf(decoder, sizeof decoder, LLAMA, 0);
    t = make(PIECES, decoder);
    bytes_of(t, 0, " a");
    bytes_of(t, 1, "\xe2");
    bytes_of(t, 6, "<0xg0>");
    tokenizer_free(t);
}

/* --- nothing is held back without need ---------------------------------------------------------------------------- */

#define DEPTH 3 /* ids that may follow, at most */

static void decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip, struct buf *out)
{
    buf_clear(out);
    assert_int_equal(tokenizer_decode(t, ids, n, skip, out, NULL), 0);
}

/* Shortens *common to what it shares with the text of every list that begins with the n ids and has up to `depth` more. */
static void share(const struct tokenizer *t, bool skip, int32_t *ids, size_t n, int depth, struct buf *common,
                  struct buf *text)
{
    size_t k = 0;
    decode(t, ids, n, skip, text);
    while (k < common->n && k < text->n && common->p[k] == text->p[k])
        k++;
    common->n = k;
    for (int32_t id = 0; depth && id < tokenizer_size(t); id++) {
        ids[n] = id;
        share(t, skip, ids, n + 1, depth - 1, common, text);
    }
}

/* Streams random lists; after each id the text so far must be all that every continuation shares. */
static void check_tight(const struct tokenizer *t, bool skip, uint32_t seed)
{
    struct detok d;
    struct buf   so_far, common, text;
    buf_init(&so_far, 1 << 20);
    buf_init(&common, 1 << 20);
    buf_init(&text, 1 << 20);
    for (int round = 0; round < 12; round++) {
        int32_t ids[6 + DEPTH];
        buf_clear(&so_far);
        detok_init(&d, t, skip);
        for (size_t n = 0; n < 6; n++) {
            seed = seed * 1664525 + 1013904223;
            ids[n] = (int32_t)((seed >> 16) % (uint32_t)tokenizer_size(t));
            assert_int_equal(detok_push(&d, ids[n], &so_far), 0);
            decode(t, ids, n + 1, skip, &common);
            share(t, skip, ids, n + 1, DEPTH, &common, &text);
            common.n = utf8_valid_prefix(buf_cstr(&common), common.n);
            if (!str_eq(buf_str(&so_far), buf_str(&common)))
                fail_msg("after %zu ids, the last being %d: '%s' is out, '%.*s' is certain", n + 1, ids[n],
                         buf_cstr(&so_far), (int)common.n, buf_cstr(&common));
        }
        detok_deinit(&d);
    }
    buf_deinit(&so_far);
    buf_deinit(&common);
    buf_deinit(&text);
}

static void tight(const char *vocab, const char *decoder)
{
    struct tokenizer *t = make(vocab, decoder);
    for (int skip = 0; skip < 2; skip++)
        check_tight(t, skip, 7);
    tokenizer_free(t);
}

#define SOME_BYTES                                                                                                     \
    "{\"\\u0120a\":0,\"\\u00e2\":1,\"\\u0124\":2,\"\\u00ac\":3,\"\\u00f0\":4,\"\\u0141\":5,"                           \
    "\"\\u00e2\\u0124\\u00acx\":6,"                                                                                    \
    "\"\\u00c3\":7,\"\\u00b1\":8}"
#define SOME_PIECES                                                                                                    \
    "{\"\\u2581a\":0,\"<0xE2>\":1,\"<0x82>\":2,\"<0xAC>\":3,\"\\u2581\":4,\"b\":5,\"<0xF0>\":6,\"<0x9F>\":7,\"<0x20>"  \
    "\":8}"

#define SPACE_PIECES "{\"\\u2581a\":0,\"b\":1,\"\\u2581\":2,\"\\u2581\\u2581\":3,\"a\\u2581b\":4,\"c\\u2581\":5}"

static void test_tight(void **state)
{
    (void)state;
    char decoder[600];
    tight(SOME_BYTES, "{\"type\":\"ByteLevel\"}");
    snprintf(decoder, sizeof decoder, LLAMA, 0);
    tight(SOME_PIECES, decoder);
    for (int stop = 1; stop < 3; stop++) {
        snprintf(decoder, sizeof decoder, LLAMA, stop);
        tight(SPACE_PIECES, decoder);
    }
    tight(SOME_PIECES,
          "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u2581\"},"
          "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}");
    tight(SOME_PIECES, "{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"always\"}");
    tight(SOME_PIECES, "{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"never\"}");
    tight(SOME_PIECES, "null");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),          cmocka_unit_test(test_byte_fallback), cmocka_unit_test(test_strip_end),
        cmocka_unit_test(test_other_decoders), cmocka_unit_test(test_token_bytes),   cmocka_unit_test(test_tight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
