/* Regular expressions against the reference's matches (tools/make_regex_reference.py) with PCRE2's compiled code and
 * without, what is refused, and the bounds on patterns and texts that would run for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "text/regex.h"

#define REFERENCE "tests/data/regex/reference.xz"

#define HASH_START 0x811c9dc5u

static const char *reference = REFERENCE;
static bool        live;

struct lines {
    FILE  *f;
    char  *line;
    size_t cap;
};

static bool next_line(struct lines *l)
{
    ssize_t n = getline(&l->line, &l->cap, l->f);
    if (n > 0 && l->line[n - 1] == '\n')
        l->line[n - 1] = '\0';
    return n > 0;
}

static json_t *parse_string(const char *p)
{
    json_error_t why;
    json_t      *s = json_loads(p, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (!json_is_string(s))
        fail_msg("%s: %s", p, why.text);
    return s;
}

static struct str string(const json_t *s)
{
    return (struct str){json_string_value(s), json_string_length(s)};
}

static uint32_t hash_number(uint32_t h, size_t n)
{
    char text[32];
    snprintf(text, sizeof text, "%zu ", n);
    for (const char *p = text; *p; p++)
        h = (h ^ (unsigned char)*p) * 0x01000193u;
    return h;
}

/* Goes on with the hash h of all matches; their number, or -1 with the error's sentence. */
static int hash_matches(const struct regex *re, struct str text, uint32_t *h, struct error *e)
{
    struct regex_run r;
    size_t           start, end;
    bool             found = true;
    int              n = 0;
    regex_run_init(&r, text.n);
    int status = regex_begin(&r, re, text, e);
    while (!status && (status = regex_next(&r, &found, &start, &end, e)) == 0 && found) {
        *h = hash_number(hash_number(*h, start), end);
        n++;
    }
    regex_run_deinit(&r);
    return status ? -1 : n;
}

/* All matches as "number:hash", or the error's sentence. */
static void matches(const struct regex *re, struct str text, char *out, size_t cap)
{
    struct error e = {0};
    uint32_t     h = HASH_START;
    int          n = hash_matches(re, text, &h, &e);
    if (n < 0)
        snprintf(out, cap, "%s", e.msg);
    else
        snprintf(out, cap, "%d:%x", n, h);
}

/* A pattern whose hash is over all texts. */
static int compare_all(const struct regex *re, struct str pattern, json_t *texts, const char *expected, const char *how)
{
    struct error e = {0};
    uint32_t     h = HASH_START;
    char         got[20];
    for (size_t i = 0; i < json_array_size(texts); i++)
        if (hash_matches(re, string(json_array_get(texts, i)), &h, &e) < 0)
            break;
    snprintf(got, sizeof got, "%x", h);
    if (e.code ? e.code == ERR_LIMIT && live : !strcmp(got, expected))
        return 0; /* by chance a pattern may pass our bounds and keep the reference's */
    print_error("%.*s %s: %s\n", (int)pattern.n, pattern.p, how, e.code ? e.msg : "other matches than the reference's");
    return 1;
}

static int compare(const struct regex *re, struct str pattern, json_t *texts, const char *expected, const char *how)
{
    int bad = 0;
    if (!strncmp(expected, "all:", 4))
        return compare_all(re, pattern, texts, expected + 4, how);
    char *copy = strdup(expected), *save = NULL, *want = strtok_r(copy, " ", &save);
    for (size_t i = 0; i < json_array_size(texts); i++, want = strtok_r(NULL, " ", &save)) {
        char got[200];
        matches(re, string(json_array_get(texts, i)), got, sizeof got);
        if (want && !strcmp(got, want))
            continue;
        char *shown = json_dumps(json_array_get(texts, i), JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
        print_error("%.*s %s on %s: %s, reference %s\n", (int)pattern.n, pattern.p, how, shown, got, want);
        free(shown);
        bad++;
    }
    free(copy);
    return bad;
}

/* A line of the file: the pattern, a tab, what is expected. */
static int check_pattern(char *line, json_t *texts)
{
    char *tab = strchr(line, '\t');
    assert_non_null(tab);
    *tab = '\0';
    json_t       *pattern = parse_string(line);
    struct regex *re;
    struct error  e = {0};
    int           status = regex_new(&re, string(pattern), &e), bad = 0;
    int want = !strcmp(tab + 1, "malformed") ? ERR_FORMAT : !strcmp(tab + 1, "unsupported") ? ERR_UNSUPPORTED : 0;
    if (want) {
        bad = want == ERR_FORMAT ? status != ERR_FORMAT && status != ERR_UNSUPPORTED
                                 : status != ERR_UNSUPPORTED && status != ERR_LIMIT;
        bad |= status && !strstr(e.msg, "regular expression");
        if (bad)
            print_error("%s is %s, but: %s\n", line, tab + 1, status ? e.msg : "accepted");
    } else if (status) {
        print_error("%s: %s\n", line, e.msg);
        bad = 1;
    } else {
        bad = compare(re, string(pattern), texts, tab + 1, "compiled");
        regex_without_jit(re);
        bad += compare(re, string(pattern), texts, tab + 1, "interpreted");
    }
    regex_free(re);
    json_decref(pattern);
    return bad;
}

static void test_reference(void **state)
{
    (void)state;
    char         command[500];
    struct lines l = {0};
    json_t      *texts = json_array();
    int          bad = 0, n = 0;
    snprintf(command, sizeof command, "xz -dc '%s'", reference);
    l.f = popen(command, "r");
    assert_non_null(l.f);
    while (next_line(&l) && *l.line)
        json_array_append_new(texts, parse_string(l.line));
    for (; next_line(&l); n++)
        bad += check_pattern(l.line, texts);
    assert_int_equal(pclose(l.f), 0);
    free(l.line);
    json_decref(texts);
    assert_true(n > 200);
    assert_int_equal(bad, 0);
}

/* --- bounds ------------------------------------------------------------------------------------------------------ */

/* The first `hopeless` of them cannot come to an end; of the others it depends. */
static void test_endless(void **state)
{
    (void)state;
    static const char *const patterns[] = {"(a+)+$",      "(?:a|a)*$",   "(?:a?){64}a{64}$", "(a|b|ab)*c", "(a*)*\\1b",
                                           ".*.*.*.*=.*", "(?=(a+)+$)b", "(?:.+)+x$",        "(.*)*\\1$"};
    static char              text[20000];
    const size_t             hopeless = 2;
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 6, "!bcx=!", 6);
    for (size_t i = 0; i < 2 * sizeof patterns / sizeof *patterns; i++) {
        const char   *pattern = patterns[i / 2];
        struct regex *re;
        struct error  e = {0};
        char          got[200];
        assert_int_equal(regex_new(&re, str_of(pattern), &e), 0);
        if (i % 2)
            regex_without_jit(re);
        double began = clock_thread();
        matches(re, (struct str){text, sizeof text}, got, sizeof got);
        double took = clock_thread() - began;
        if (took > 2)
            print_message("%s%s: %.2f s, %s\n", pattern, i % 2 ? " interpreted" : "", took, got);
        assert_true(took < 20); /* a second, and much room for sanitizers */
        if (i / 2 < hopeless)
            assert_non_null(strstr(got, "the tokenizer's regular expression"));
        regex_free(re);
    }
}

/* Every place comes to an end after a hundred thousand steps, or a long run, and there are many of them. */
static void test_many_places(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        size_t      cheap, n; /* places of little work first; all */
    } cases[] = {{"\\Gz|(?:aa?){15}[cd]", 0, 100000},
                 {"(?:aa?){15}[cd]", 200000, 265536},
                 {"\\G\\s|(?:aa?){15}[cd]", 200000, 265536},
                 {"a++[cd]", 0, 1 << 20}};
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
        bool          interpreted = i == sizeof cases / sizeof *cases; /* the first once more */
        size_t        at = interpreted ? 0 : i, n = cases[at].n;
        char         *text = malloc(n), got[200];
        struct regex *re;
        struct error  e = {0};
        assert_non_null(text);
        memset(text, 'a', n);
        memset(text, 'b', cases[at].cheap);
        memcpy(text + n - 2, "!c", 2);
        assert_int_equal(regex_new(&re, str_of(cases[at].pattern), &e), 0);
        if (interpreted)
            regex_without_jit(re);
        double began = clock_thread();
        matches(re, (struct str){text, n}, got, sizeof got);
        double took = clock_thread() - began;
        if (took > 20 || !strstr(got, "takes too long"))
            fail_msg("%s%s: %.2f s, %s", cases[at].pattern, interpreted ? " interpreted" : "", took, got);
        regex_free(re);
        free(text);
    }
}

/* Long texts that a real pattern walks with deep recursion. */
static void test_deep(void **state)
{
    (void)state;
    size_t n = 1 << 20;
    char  *text = malloc(n);
    assert_non_null(text);
    memset(text, 'a', n);
    static const char *const patterns[] = {"(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+", "(?:a|b)+", "\\w+\\s?",
                                           "(?:a|ab?)*"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct regex    *re;
        struct regex_run r;
        struct error     e = {0};
        size_t           start = 1, end = 0;
        bool             found;
        assert_int_equal(regex_new(&re, str_of(patterns[i]), &e), 0);
        regex_run_init(&r, n);
        assert_int_equal(regex_begin(&r, re, (struct str){text, n}, &e), 0);
        if (regex_next(&r, &found, &start, &end, &e))
            fail_msg("%s: %s", patterns[i], e.msg);
        assert_true(found && start == 0 && end == n);
        regex_run_deinit(&r);
        regex_free(re);
    }
    free(text);
}

static void test_limits(void **state)
{
    (void)state;
    static const struct {
        const char *unit, *tail, *says;
        size_t      n;
    } cases[] = {{"(", "", "deeper than 64", 100},
                 {"(?i)", "", "deeper than 64", 100},
                 {"[", "", "deeper than 16", 100},
                 {"a", "", "longer than", 20000},
                 {"(a)", "", "more than 256 groups", 300},
                 {"a", "{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}{2}", "quantifiers in a row", 1},
                 {"(?<=(?:a|bb)", "))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))", "too complex", 62},
                 {"\\X", "", "too complex", 8000},
                 {"(?:", "a{9}){99}", "", 1},
                 {"", "(?:(?:(?:a{999}){999}){999}){999}", "beyond PCRE2", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf    b;
        struct regex *re;
        struct error  e = {0};
        buf_init(&b, 1 << 20);
        for (size_t k = 0; k < cases[i].n; k++)
            buf_puts(&b, cases[i].unit);
        buf_puts(&b, cases[i].tail);
        int status = regex_new(&re, buf_str(&b), &e);
        if (*cases[i].says) {
            assert_int_equal(status, ERR_LIMIT);
            assert_non_null(strstr(e.msg, cases[i].says));
        } else
            assert_int_equal(status, 0);
        regex_free(re);
        buf_deinit(&b);
    }
}

/* A class of every third character has no alphabet of 256 letters: the expression runs over the text itself. */
static void test_many_kinds(void **state)
{
    (void)state;
    struct buf    b;
    struct regex *re;
    struct error  e = {0};
    char          got[200], want[200];
    buf_init(&b, 1 << 20);
    for (unsigned c = 0x400; c < 0x400 + 600; c += 2)
        buf_printf(&b, "%s\\x{%x}", c > 0x400 ? "|" : "", c);
    buf_puts(&b, "|\xc3\xa9+");
    assert_int_equal(regex_new(&re, buf_str(&b), &e), 0);
    matches(re, STR("\xd0\x80\xd0\x81\xd0\x82 \xc3\xa9\xc3\xa9"), got, sizeof got);
    uint32_t h = HASH_START;
    size_t   spans[] = {0, 2, 4, 6, 7, 11};
    for (size_t i = 0; i < 6; i++)
        h = hash_number(h, spans[i]);
    snprintf(want, sizeof want, "3:%x", h);
    assert_string_equal(got, want);
    regex_free(re);
    buf_deinit(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference),   cmocka_unit_test(test_endless),
                                       cmocka_unit_test(test_many_places), cmocka_unit_test(test_deep),
                                       cmocka_unit_test(test_limits),      cmocka_unit_test(test_many_kinds)};
    if (argc > 1) {
        reference = argv[1]; /* fresh texts */
        live = true;
        return cmocka_run_group_tests_name("reference", (const struct CMUnitTest[1]){tests[0]}, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
