/* The pull reader: what it accepts and what it refuses, with which words and where; tokens; skipping. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"

/* Reads a whole text from an exact copy (so that a sanitizer sees a read beyond it); NULL when it is accepted. */
static const char *fault_of(const char *text, size_t n)
{
    struct json     j;
    char           *copy = malloc(n + !n);
    enum json_token t;
    memcpy(copy, text, n);
    json_init(&j, copy, n);
    while ((t = json_next(&j)) != JSON_EOF && t != JSON_ERROR)
        ;
    const char *why = t == JSON_ERROR ? j.why : NULL;
    assert_int_equal(json_next(&j), t); /* both ends are final */
    json_deinit(&j);
    free(copy);
    return why;
}

static void accepted(const char *text)
{
    const char *why = fault_of(text, strlen(text));
    if (why)
        fail_msg("%s: %s", text, why);
}

static void refused(const char *text, const char *words)
{
    const char *why = fault_of(text, strlen(text));
    if (!why || !strstr(why, words))
        fail_msg("%s: %s, not %s", text, why ? why : "accepted", words);
}

static void good_texts(void **state)
{
    static const char *const texts[] = {"0",
                                        "-0",
                                        "-1",
                                        "1.5",
                                        "1e5",
                                        "1E+5",
                                        "1e-5",
                                        "-0.0e-0",
                                        "\"\"",
                                        "\"a\"",
                                        "true",
                                        "false",
                                        "null",
                                        "[]",
                                        "{}",
                                        " [ ] ",
                                        "\t{\r\n}\n",
                                        "[1,2]",
                                        "[[],{}]",
                                        "{\"\":0}",
                                        "{\"a\":{\"b\":[null]}}",
                                        "\"\\u0000\"",
                                        "\"\\ud83d\\ude00\"",
                                        "\"\\/\\b\\f\\n\\r\\t\"",
                                        "\"\xf0\x9f\x98\x80\"",
                                        "\"\x7f\"",
                                        "{\"a\":1,\"a\":2}",
                                        "1e308",
                                        "4e-400",
                                        "123456789012345678901234567890",
                                        "\"\xef\xbf\xbf\""};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        accepted(texts[i]);
}

static void bad_structure(void **state)
{
    static const char *const early[] = {"",       " ",       "[",        "{",         "[1", "[1,",
                                        "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "[[]"};
    (void)state;
    for (size_t i = 0; i < sizeof early / sizeof *early; i++)
        assert_non_null(fault_of(early[i], strlen(early[i])));
    refused("", "ends early");
    refused("[1,]", "unexpected character");
    refused("[,1]", "unexpected character");
    refused("[1 2]", "no comma");
    refused("[1,,2]", "unexpected character");
    refused("{\"a\":1,}", "not a string");
    refused("{,}", "not a string");
    refused("{\"a\" 1}", "no colon");
    refused("{\"a\"", "no colon");
    refused("{\"a\"}", "no colon");
    refused("{1:2}", "not a string");
    refused("{a:2}", "not a string");
    refused("{\"a\":}", "unexpected character");
    refused("[}", "unexpected character");
    refused("[1}", "nothing opened");
    refused("{\"a\":1]", "nothing opened");
    refused("]", "unexpected character");
    refused("[]]", "after the end");
    refused("1 2", "after the end");
    refused("{}{}", "after the end");
    refused("null,", "after the end");
    refused("// x\n1", "unexpected character");
    refused("[1] /* x */", "after the end");
    refused("\xef\xbb\xbf[]", "unexpected character");
    refused("\v1", "unexpected character");
    refused("'a'", "unexpected character");
}

static void bad_words(void **state)
{
    static const char *const texts[] = {"tru",      "True",      "truex",     "nul", "NULL", "fals", "NaN",
                                        "Infinity", "-Infinity", "undefined", "t",   "n",    "f"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_non_null(fault_of(texts[i], strlen(texts[i])));
}

static void bad_numbers(void **state)
{
    static const char *const texts[] = {"-",   "+1",   ".5",    "1.",  "1.e5", "01",   "-01",   "00",    "1e",  "1e+",
                                        "1E-", "0x10", "1_000", "--1", "-a",   "1..2", "1e5.5", "1e1e1", "-.5", "2e"};
    char                     big[600];
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_non_null(fault_of(texts[i], strlen(texts[i])));
    refused("1e309", "range of double");
    refused("[-1e999]", "range of double");
    memset(big, '1', sizeof big);
    assert_non_null(strstr(fault_of(big, 512), "511 digits"));
    assert_non_null(strstr(fault_of(big, 511), "range of double"));
    assert_null(fault_of(big, 300));
}

static void bad_strings(void **state)
{
    static const char *const texts[] = {
        "\"\\ud800\"", "\"\\udc00\"",  "\"\\ud800\\ud800\"", "\"\\ud800x\"", "\"\\ud83d\\n\"",
        "\"\\u12\"",   "\"\\u12g4\"",  "\"\\x41\"",          "\"\\'\"",      "\"\\",
        "\"\\u",       "\"\\ud83d\\u", "\"\\U0041\"",        "\"\\ud83d\\"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_non_null(fault_of(texts[i], strlen(texts[i])));
    refused("\"abc", "does not end");
    refused("\"abc\\\"", "does not end");
    refused("\"a\nb\"", "control character");
    refused("\"a\tb\"", "control character");
    refused("\"\xff\"", "UTF-8");
    refused("\"\xc0\xaf\"", "UTF-8");
    refused("\"\xed\xa0\x80\"", "UTF-8");
    refused("\"\xe2\x82\"", "UTF-8");
    refused("\"\xe2\x82", "UTF-8");
    assert_non_null(strstr(fault_of("\"a\0b\"", 5), "control character"));
    assert_non_null(fault_of("1\0", 2));
    assert_non_null(fault_of("\0", 1));
}

static void every_cut_of_a_text_is_refused(void **state)
{
    static const char text[] =
        "{\"k\\u00e9\": [1, -2.5e3, true, false, null, \"\\ud83d\\ude00\xe2\x82\xac\"], \"o\": {}}";
    (void)state;
    accepted(text);
    for (size_t n = 0; n < strlen(text); n++)
        assert_non_null(fault_of(text, n));
}

static void depth_has_a_limit(void **state)
{
    char text[2 * JSON_DEPTH_MAX + 10];
    (void)state;
    for (int depth = JSON_DEPTH_MAX - 1; depth <= JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        const char *why = fault_of(text, 2 * (size_t)depth);
        assert_true((why != NULL) == (depth > JSON_DEPTH_MAX));
    }
    char *open = malloc(1000000);
    memset(open, '[', 1000000);
    assert_non_null(strstr(fault_of(open, 1000000), "deeper"));
    free(open);
}

static void tokens_come_in_order(void **state)
{
    static const char            text[] = " {\"a\": [1, -2.5, \"x\\ny\", true, false, null], \"\": {}} ";
    static const enum json_token want[] = {
        JSON_OBJECT, JSON_KEY,       JSON_ARRAY, JSON_INT,    JSON_REAL,       JSON_STRING,     JSON_TRUE, JSON_FALSE,
        JSON_NULL,   JSON_ARRAY_END, JSON_KEY,   JSON_OBJECT, JSON_OBJECT_END, JSON_OBJECT_END, JSON_EOF,  JSON_EOF};
    struct json j;
    (void)state;
    json_init(&j, text, strlen(text));
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(json_next(&j), want[i]);
        if (i == 1)
            assert_true(str_is(j.text, "a"));
        if (want[i] == JSON_INT)
            assert_true(j.i == 1 && j.d == 1);
        if (want[i] == JSON_REAL)
            assert_true(j.d == -2.5);
        if (want[i] == JSON_STRING)
            assert_true(str_eq(j.text, STR("x\ny")));
        if (i == 10)
            assert_int_equal(j.text.n, 0);
        assert_true(*json_token_name(want[i]));
    }
    json_deinit(&j);
}

static void numbers(void **state)
{
    static const struct {
        const char     *text;
        enum json_token t;
        int64_t         i;
        double          d;
    } rows[] = {{"-0", JSON_INT, 0, 0},
                {"999999999999999999", JSON_INT, 999999999999999999, 1e18},
                {"9223372036854775806", JSON_INT, INT64_MAX - 1, 9223372036854775807.0},
                {"-9223372036854775807", JSON_INT, -INT64_MAX, -9223372036854775807.0},
                {"9223372036854775808", JSON_REAL, 0, 9223372036854775808.0},
                {"123456789012345678901", JSON_REAL, 0, 123456789012345678901.0},
                {"0.1", JSON_REAL, 0, 0.1},
                {"1e2", JSON_REAL, 0, 100},
                {"5e-324", JSON_REAL, 0, 5e-324},
                {"2.2250738585072011e-308", JSON_REAL, 0, 2.2250738585072011e-308}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json j;
        json_init(&j, rows[i].text, strlen(rows[i].text));
        assert_int_equal(json_next(&j), rows[i].t);
        if (rows[i].t == JSON_INT)
            assert_true(j.i == rows[i].i);
        assert_true(j.d == rows[i].d);
        json_deinit(&j);
    }
}

static void escapes(void **state)
{
    static const char text[] = "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00E9\\u20ac\\ud83d\\ude00\\u0000z\"";
    static const char want[] = "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\0z";
    struct json       j;
    (void)state;
    json_init(&j, text, strlen(text));
    assert_int_equal(json_next(&j), JSON_STRING);
    assert_int_equal(j.text.n, sizeof want - 1);
    assert_memory_equal(j.text.p, want, sizeof want - 1);
    json_deinit(&j);
    json_init(&j, "[\"plain\"]", 9); /* without escapes: a view of the input */
    json_next(&j);
    json_next(&j);
    assert_ptr_equal(j.text.p, j.start + 2);
    json_deinit(&j);
}

static void skipping(void **state)
{
    static const char text[] = "{\"a\": [[1, {\"x\": []}], 2], \"b\": \"s\", \"c\": 3, \"d\": {\"e\": [}";
    struct json       j;
    (void)state;
    json_init(&j, text, strlen(text));
    assert_int_equal(json_next(&j), JSON_OBJECT);
    for (const char *key = "abc"; *key; key++) {
        assert_int_equal(json_next(&j), JSON_KEY);
        assert_true(j.text.n == 1 && *j.text.p == *key);
        assert_true(json_skip(&j, json_next(&j)));
    }
    assert_int_equal(json_next(&j), JSON_KEY);
    assert_false(json_skip(&j, json_next(&j)));
    assert_int_equal(json_next(&j), JSON_ERROR);
    assert_false(json_skip(&j, JSON_ERROR));
    json_deinit(&j);
}

static void faults_say_where(void **state)
{
    static const char text[] = "{\n  \"a\": 1,\n  \"b\": oops\n}";
    struct json       j;
    struct error      e = {0};
    (void)state;
    json_init(&j, text, strlen(text));
    while (json_next(&j) != JSON_ERROR)
        ;
    assert_int_equal(json_fault(&j, &e, "config.json"), ERR_FORMAT);
    assert_string_equal(
        e.msg, "config.json: not valid JSON at line 3, column 8: an unexpected character where a value belongs");
    json_deinit(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_texts),        cmocka_unit_test(bad_structure),
        cmocka_unit_test(bad_words),         cmocka_unit_test(bad_numbers),
        cmocka_unit_test(bad_strings),       cmocka_unit_test(every_cut_of_a_text_is_refused),
        cmocka_unit_test(depth_has_a_limit), cmocka_unit_test(tokens_come_in_order),
        cmocka_unit_test(numbers),           cmocka_unit_test(escapes),
        cmocka_unit_test(skipping),          cmocka_unit_test(faults_say_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
