/* The text of an answer: stop strings across tokens' borders, overlapping ones, what is held back and when it comes out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "run/answer.h"
#include "text/tokenizer.h"

#define TEXT_MAX ((size_t)1 << 20)

static struct tokenizer *tokenizer;

static int load(void **state)
{
    struct error e = {0};
    (void)state;
    return tokenizer_load(&tokenizer, "tests/data/tiny", NULL, &e);
}

static int unload(void **state)
{
    (void)state;
    tokenizer_free(tokenizer);
    return 0;
}

/* One answer under test: what came out so far. */
struct probe {
    struct answer answer;
    struct buf    out;
    const char   *hit;
};

static void probe_open(struct probe *p, const char *const *stop, size_t n)
{
    struct error e = {0};
    memset(p, 0, sizeof *p);
    buf_init(&p->out, TEXT_MAX);
    if (answer_init(&p->answer, tokenizer, false, stop, n, &e))
        fail_msg("%s", e.msg);
}

static void probe_close(struct probe *p)
{
    buf_deinit(&p->out);
    answer_deinit(&p->answer);
}

/* Pushes the ids of a piece of text until a stop string is hit. The tokens of this model are single bytes but for a few
 * like "he", "ll", "hell". */
static void push(struct probe *p, const char *text, size_t n)
{
    struct ids ids = {0};
    assert_int_equal(tokenizer_encode(tokenizer, (struct str){text, n}, 0, &ids, NULL), 0);
    for (size_t i = 0; i < ids.n && !p->hit; i++) {
        assert_int_equal(answer_push(&p->answer, ids.v[i], &p->out, &p->hit), 0);
        assert_int_equal(utf8_valid_prefix(buf_cstr(&p->out), p->out.n), p->out.n);
    }
    ids_deinit(&ids);
}

static void say(struct probe *p, const char *text)
{
    push(p, text, strlen(text));
}

static void finish(struct probe *p)
{
    if (!p->hit)
        assert_int_equal(answer_finish(&p->answer, &p->out, &p->hit), 0);
}

#define STOPS(...) (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

static void test_without_stops(void **state)
{
    struct probe p;
    (void)state;
    probe_open(&p, NULL, 0);
    say(&p, "hello ");
    assert_string_equal(buf_cstr(&p.out), "hello ");
    say(&p, "world");
    finish(&p);
    assert_string_equal(buf_cstr(&p.out), "hello world");
    assert_null(p.hit);
    probe_close(&p);
}

static void test_spans_tokens(void **state)
{
    struct probe p;
    (void)state;
    probe_open(&p, STOPS("", "END."));
    say(&p, "text E");
    assert_string_equal(buf_cstr(&p.out), "text ");
    say(&p, "N");
    say(&p, "D");
    assert_string_equal(buf_cstr(&p.out), "text ");
    assert_null(p.hit);
    say(&p, ".");
    assert_string_equal(p.hit, "END.");
    assert_string_equal(buf_cstr(&p.out), "text ");
    probe_close(&p);
}

static void test_held_text_comes_out(void **state)
{
    struct probe p;
    (void)state;
    probe_open(&p, STOPS("END."));
    say(&p, "EN");
    assert_string_equal(buf_cstr(&p.out), "");
    say(&p, "E"); /* not that one, perhaps this */
    assert_string_equal(buf_cstr(&p.out), "EN");
    say(&p, "ND");
    assert_string_equal(buf_cstr(&p.out), "EN");
    finish(&p);
    assert_string_equal(buf_cstr(&p.out), "ENEND");
    assert_null(p.hit);
    probe_close(&p);
}

static void test_first_and_longest_wins(void **state)
{
    struct probe p;
    (void)state;
    probe_open(&p, STOPS("el", "he", "hel", "hello!"));
    say(&p, "xhell"); /* "hell" is one token */
    assert_string_equal(p.hit, "hel");
    assert_string_equal(buf_cstr(&p.out), "x");
    probe_close(&p);
    probe_open(&p, STOPS("a", "ab"));
    say(&p, "ab"); /* two tokens: the longer is not waited for, the text is the same */
    assert_string_equal(p.hit, "a");
    assert_string_equal(buf_cstr(&p.out), "");
    probe_close(&p);
}

/* "abcd" may still come when "bc" is complete: it begins earlier, so it decides where the text ends. */
static void test_waits_for_the_earlier(void **state)
{
    struct probe p;
    (void)state;
    probe_open(&p, STOPS("bc", "abcd"));
    say(&p, "xabc");
    assert_null(p.hit);
    assert_string_equal(buf_cstr(&p.out), "x");
    say(&p, "d");
    assert_string_equal(p.hit, "abcd");
    assert_string_equal(buf_cstr(&p.out), "x");
    probe_close(&p);
    probe_open(&p, STOPS("bc", "abcd"));
    say(&p, "xabce");
    assert_string_equal(p.hit, "bc");
    assert_string_equal(buf_cstr(&p.out), "xa");
    probe_close(&p);
    probe_open(&p, STOPS("bc", "abcd"));
    say(&p, "xabc");
    finish(&p);
    assert_string_equal(p.hit, "bc");
    assert_string_equal(buf_cstr(&p.out), "xa");
    probe_close(&p);
}

static void test_multi_byte(void **state)
{
    struct probe p;
    (void)state;
    probe_open(&p, STOPS("\xf0\x9f\x98\x80", "\xc3\xa9\xc3\xa9"));
    say(&p, "\xe2\x82\xac\xc3\xa9\xf0\x9f\x98\x81"); /* begins as both do */
    assert_string_equal(buf_cstr(&p.out), "\xe2\x82\xac\xc3\xa9\xf0\x9f\x98\x81");
    say(&p, "\xf0\x9f\x98\x80."); /* a token a byte */
    assert_string_equal(p.hit, "\xf0\x9f\x98\x80");
    assert_string_equal(buf_cstr(&p.out), "\xe2\x82\xac\xc3\xa9\xf0\x9f\x98\x81");
    probe_close(&p);
}

/* Random texts over three letters, cut into random tokens, against the definition: the text before the least place at which a
 * stop string begins. */
static void test_against_definition(void **state)
{
    uint64_t n = 0;
    (void)state;
    for (int round = 0; round < 4000; round++) {
        char        text[24], stop[3][6];
        const char *stops[3] = {stop[0], stop[1], stop[2]};
        size_t      len = (size_t)(rng_uniform(1, 0, n++) * 23), cut = len;
        for (size_t i = 0; i < len; i++)
            text[i] = "hel"[(int)(rng_uniform(1, 0, n++) * 3)];
        text[len] = '\0';
        for (int k = 0; k < 3; k++) {
            size_t m = 1 + (size_t)(rng_uniform(1, 0, n++) * 5);
            for (size_t i = 0; i < m; i++)
                stop[k][i] = "hel"[(int)(rng_uniform(1, 0, n++) * 3)];
            stop[k][m] = '\0';
            const char *at = strstr(text, stop[k]);
            cut = MIN(cut, at ? (size_t)(at - text) : len);
        }
        struct probe p;
        probe_open(&p, stops, 3);
        for (size_t i = 0; i < len && !p.hit;) {
            size_t m = 1 + (size_t)(rng_uniform(1, 0, n++) * 4);
            m = MIN(m, len - i);
            push(&p, text + i, m);
            if (p.out.n > cut)
                fail_msg("text %s, stops %s %s %s: too much came out: \"%s\"", text, stop[0], stop[1], stop[2],
                         buf_cstr(&p.out));
            i += m;
        }
        finish(&p);
        if (p.out.n != cut || memcmp(buf_cstr(&p.out), text, cut) != 0)
            fail_msg("text %s, stops %s %s %s: got \"%s\"", text, stop[0], stop[1], stop[2], buf_cstr(&p.out));
        assert_int_equal(p.hit != NULL, cut < len);
        probe_close(&p);
    }
}

static void refused(const char *const *stop, size_t n, const char *say_)
{
    struct answer a;
    struct error  e = {0};
    assert_int_equal(answer_init(&a, tokenizer, false, stop, n, &e), ERR_INVALID);
    assert_string_equal(e.param, "stop");
    assert_non_null(strstr(e.msg, say_));
    answer_deinit(&a);
}

static void test_limits(void **state)
{
    const char *many[65], *longs[2] = {"x"};
    char        big[4098];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = "stop";
    refused(many, ARRAY_LEN(many), "65 strings");
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    longs[1] = big;
    refused(longs, 2, "4097 bytes");
    struct answer a;
    assert_int_equal(answer_init(&a, tokenizer, false, many, 64, NULL), 0);
    answer_deinit(&a);
}

static void test_without_tokenizer(void **state)
{
    struct answer a;
    struct buf    out;
    const char   *hit;
    (void)state;
    buf_init(&out, TEXT_MAX);
    assert_int_equal(answer_init(&a, NULL, false, STOPS("x"), NULL), 0);
    assert_int_equal(answer_push(&a, 5, &out, &hit), 0);
    assert_int_equal(answer_finish(&a, &out, &hit), 0);
    assert_null(hit);
    assert_int_equal(out.n, 0);
    answer_deinit(&a);
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_stops),         cmocka_unit_test(test_spans_tokens),
        cmocka_unit_test(test_held_text_comes_out),   cmocka_unit_test(test_first_and_longest_wins),
        cmocka_unit_test(test_waits_for_the_earlier), cmocka_unit_test(test_multi_byte),
        cmocka_unit_test(test_against_definition),    cmocka_unit_test(test_limits),
        cmocka_unit_test(test_without_tokenizer),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
