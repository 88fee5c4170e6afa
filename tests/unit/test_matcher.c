/* The hand-written matching against the general engine: the patterns of published models, and random lists of their
 * alternatives, on random texts of all classes of characters, must give the same matches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/utf8.h"
#include "text/matcher.h"
#include "text/regex.h"
#include "text/split_patterns.h"
#include "text/unicode.h"

#define SHORT "'s|'t|'re|'ve|'m|'ll|'d"
#define FOLDED "(?i:" SHORT ")"
#define HEAD "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define TAIL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE "[^\\r\\n\\p{L}\\p{N}]?"

static const char *const published[] = {
    /* GPT-2 */
    SHORT "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    SPLIT_R50K,
    SPLIT_CL100K,
    SPLIT_LLAMA3,
    SPLIT_QWEN2,
    SPLIT_QWEN3_5,
    SPLIT_O200K,
    SPLIT_TEKKEN,
    /* Bailing */
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|"
    "\\s+(?!\\S)|\\s+",
    /* DeepSeek V3 */
    "\\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+["
    "\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
    /* Digits, WhitespaceSplit */
    "\\p{N}",
    "\\s",
};

/* A small generator of its own, so that the test is the same everywhere. */
static uint64_t seed;
static unsigned roll(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

/* Texts of few characters, so that neighbours of every kind come often: two of each category and flags, and those that
 * patterns name. */
static uint32_t chars[300];
static size_t   n_chars;

static void collect_chars(void)
{
    static const char named[] = "  \r\n\t/''''aAsStTrReEvVmMlLdD09-.[z\x7f";
    unsigned          seen[256] = {0};
    for (size_t i = 0; i + 1 < sizeof named; i++)
        chars[n_chars++] = (unsigned char)named[i];
    static const uint32_t more[] = {0x17f,  0x212a, 0x4e00, 0x9fa5, 0x9fa6, 0x303f,
                                    0x3040, 0x3099, 0x30a0, 0x30ff, 0x3100};
    for (size_t i = 0; i < ARRAY_LEN(more); i++)
        chars[n_chars++] = more[i];
    for (uint32_t c = 0x80; c < UNICODE_END; c++)
        if ((c < 0xd800 || c > 0xdfff) && seen[unicode_class(c)]++ < 2)
            chars[n_chars++] = c;
}

static size_t random_text(char *out, size_t n)
{
    char    *p = out;
    uint32_t again = 'a';
    size_t   few = roll(3) ? n_chars : 40; /* of the named ones only */
    for (size_t i = 0; i < n; i++) {
        if (roll(3))
            again = chars[roll((unsigned)few)];
        p += utf8_encode(again, p);
    }
    return (size_t)(p - out);
}

static void check_text(const struct matcher *m, struct regex_run *run, const struct regex *re, struct str text)
{
    size_t from = 0, start = 0, end = 0, want_start = 0, want_end = 0;
    bool   found = true, want = true;
    assert_int_equal(regex_begin(run, re, text, NULL), 0);
    while (want) {
        assert_int_equal(regex_next(run, &want, &want_start, &want_end, NULL), 0);
        found = matcher_next(m, text, from, &start, &end);
        if (found != want || (want && (start != want_start || end != want_end))) {
            for (size_t i = 0; i < text.n; i++)
                fprintf(stderr, "%02x ", (unsigned char)text.p[i]);
            fail_msg("after byte %zu: %d [%zu, %zu), wanted %d [%zu, %zu)", from, found, start, end, want, want_start,
                     want_end);
        }
        from = end;
    }
}

/* False when the pattern is not known. */
static bool check_pattern(const char *pattern, int n_texts)
{
    struct matcher  *m;
    struct regex    *re;
    struct regex_run run;
    char             text[4 * 40];
    assert_int_equal(matcher_new(&m, str_of(pattern), NULL), 0);
    if (!m)
        return false;
    assert_int_equal(regex_new(&re, str_of(pattern), NULL), 0);
    regex_run_init(&run, 1 << 20);
    for (int i = 0; i < n_texts; i++)
        check_text(m, &run, re, (struct str){text, random_text(text, roll(40))});
    regex_run_deinit(&run);
    regex_free(re);
    matcher_free(m);
    return true;
}

static void test_published(void **state)
{
    (void)state;
    seed = 1;
    for (size_t i = 0; i < ARRAY_LEN(published); i++)
        if (!check_pattern(published[i], 20000))
            fail_msg("not known: %s", published[i]);
}

/* Any alternatives in any order: the published patterns, cut at their bars, and some of the parts joined anew. */
static void random_pattern(char *out)
{
    static const char *const parts[] = {SHORT,
                                        FOLDED,
                                        BEFORE "\\p{L}+",
                                        " ?\\p{L}+",
                                        BEFORE "[\\p{L}\\p{M}]+",
                                        BEFORE HEAD "*" TAIL "+" FOLDED "?",
                                        BEFORE HEAD "+" TAIL "*",
                                        "\\p{N}{1,3}",
                                        " ?\\p{N}+",
                                        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*",
                                        " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*",
                                        " ?[\\p{P}\\p{S}]+[\r\n]*",
                                        "[一-龥\u3040-ゟ゠-ヿ]+",
                                        "\\s*[\\r\\n]+",
                                        "\\s++\\z",
                                        "\\s+(?!\\S)",
                                        "\\s+",
                                        "\\s"};
    *out = '\0';
    for (unsigned k = 0, n = 1 + roll(5); k < n; k++) {
        strcat(out, k ? "|" : "");
        strcat(out, parts[roll(ARRAY_LEN(parts))]);
    }
}

static void test_mixed(void **state)
{
    (void)state;
    int n_known = 0;
    seed = 2;
    for (int i = 0; i < 400; i++) {
        char pattern[1000];
        random_pattern(pattern);
        n_known += check_pattern(pattern, 300);
    }
    assert_true(n_known > 200);
}

static void test_unknown(void **state)
{
    static const char *const patterns[] = {"", "|", "\\s+|", "|\\s+", "\\p{L}", "\\s+?", "(?i)\\s+", "\\s+|x",
                                           "\\p{N}{1,4}", "\\p{N}{1,3}+", "\\s++(?!\\S)", "\\s*+[\\r\\n]+", "\\s+ ",
                                           "[^\\r\\n\\p{L}\\p{N}]?+[\\p{L}\\p{M}]+",
                                           /* what takes time that grows with the square of the text */
                                           "\\s*[\\r\\n]+", "\\s*[\\r\\n]+|\\s", "\\s*[\\r\\n]+|\\s|\\s+",
                                           BEFORE HEAD "*" TAIL "+", BEFORE HEAD "*" TAIL "+|\\p{N}"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        struct matcher *m;
        assert_int_equal(matcher_new(&m, str_of(patterns[i]), NULL), 0);
        assert_null(m);
    }
}

/* Long runs of one character and mixtures in which a match gives much of what it has read back. */
static void check_time(const char *pattern)
{
    static const char *const parts[] = {"A",  "a",  " ", "\n",       "x\n", "\xe6\x97\xa5\x41",
                                        " A", "'s", "1", "\xcc\x81", "- "};
    static char              text[1 << 18];
    struct matcher          *m;
    assert_int_equal(matcher_new(&m, str_of(pattern), NULL), 0);
    for (size_t k = 0; m && k < ARRAY_LEN(parts); k++) {
        size_t n = strlen(parts[k]), start, end = 0;
        for (size_t at = 0; at + n <= sizeof text; at += n)
            memcpy(text + at, parts[k], n);
        memset(text + sizeof text - sizeof text % n, ' ', sizeof text % n);
        text[0] = '\n';
        if (n > 1 && (unsigned char)parts[k][0] >= 0x80)
            memset(text, 'B', n);
        text[sizeof text - 1] = roll(2) ? '!' : ' ';
        double began = clock_thread();
        while (matcher_next(m, (struct str){text, sizeof text}, end, &start, &end))
            ;
        if (clock_thread() - began > 2)
            fail_msg("%s takes too long on '%s'", pattern, parts[k]);
    }
    matcher_free(m);
}

static void test_linear(void **state)
{
    (void)state;
    seed = 3;
    for (size_t i = 0; i < ARRAY_LEN(published); i++)
        check_time(published[i]);
    for (int i = 0; i < 40; i++) {
        char pattern[1000];
        random_pattern(pattern);
        check_time(pattern);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_published), cmocka_unit_test(test_mixed),
                                       cmocka_unit_test(test_unknown), cmocka_unit_test(test_linear)};
    collect_chars();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
