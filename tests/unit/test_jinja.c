/* The Jinja engine against jinja2: small templates (jinja_vectors.def), faults and their messages, and the limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chat/jinja.h"

#define NOW 1764417600 /* 2025-11-29 12:00:00 UTC */

/* Parses and renders; the text is in *out (to be freed by buf_deinit). */
static int run(const char *source, const char *vars, const struct jinja_limits *limits, struct buf *out,
               struct error *e)
{
    struct jinja *j = NULL;
    json_t       *v = json_loads(vars ? vars : "{}", JSON_ALLOW_NUL, NULL);
    assert_non_null(v);
    buf_init(out, SIZE_MAX / 2);
    int rc = jinja_parse(&j, str_of(source), "test.jinja", e);
    if (!rc)
        rc = jinja_render(j, v, NOW, limits, out, e);
    jinja_free(j);
    json_decref(v);
    return rc;
}

static const struct {
    const char *source, *vars, *want;
    size_t      n;
} vectors[] = {
#define VECTOR(source, vars, want) {source, vars, want, sizeof(want) - 1},
#include "jinja_vectors.def"
#undef VECTOR
};

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        struct error e = {0};
        struct buf   out;
        int          rc = run(vectors[i].source, vectors[i].vars, NULL, &out, &e);
        if (rc || !str_eq(buf_str(&out), (struct str){vectors[i].want, vectors[i].n}))
            fail_msg("%s\ngave %s\nnot  %s", vectors[i].source, rc ? e.msg : buf_cstr(&out), vectors[i].want);
        buf_deinit(&out);
    }
}

static void test_faults(void **state)
{
    static const struct {
        const char *source;
        int         code;
        const char *want; /* the beginning of the message */
    } faults[] = {
        /* syntax */
        {"a\n{% foo %}", ERR_FORMAT, "test.jinja:2:4: Encountered unknown tag 'foo'."},
        {"{% if x %}{% foo %}", ERR_FORMAT,
         "test.jinja:1:14: Encountered unknown tag 'foo'. The innermost block that "},
        {"{% for x in y %}", ERR_FORMAT,
         "test.jinja:1:17: Unexpected end of template. The innermost block that needs to"
         " be closed is 'for'."},
        {"{{ 1", ERR_FORMAT, "test.jinja:1:1: '{{' is not closed"},
        {"{% if 1", ERR_FORMAT, "test.jinja:1:1: '{%' is not closed"},
        {"{# a", ERR_FORMAT, "test.jinja:1:1: Missing end of comment tag"},
        {"{% raw %} a", ERR_FORMAT, "test.jinja:1:1: Missing end of raw directive"},
        {"{{ 'a }}", ERR_FORMAT, "test.jinja:1:4: a string is not closed"},
        {"{{ '\\xg' }}", ERR_FORMAT, "test.jinja:1:5: malformed escape in a string"},
        {"{{ '\\ud800' }}", ERR_FORMAT, "test.jinja:1:5: malformed escape in a string"},
        {"{{ 1 + }}", ERR_FORMAT, "test.jinja:1:8: unexpected }}"},
        {"{{ (1 }}", ERR_FORMAT, "test.jinja:1:7: unexpected '}'"},
        {"{{ a b }}", ERR_FORMAT, "test.jinja:1:6: expected '}}', got 'a name'"},
        {"{{ x[, 1] }}", ERR_FORMAT, "test.jinja:1:6: unexpected ,"},
        {"{{ x[1:2:3:4] }}", ERR_FORMAT, "test.jinja:1:11: expected ',', got ':'"},
        {"{{ }}", ERR_FORMAT, "test.jinja:1:4: expected an expression, got }}"},
        {"{{ $ }}", ERR_FORMAT, "test.jinja:1:4: unexpected character U+0024"},
        {"\xff{{ 1 }}", ERR_FORMAT, "test.jinja:1:1: not valid UTF-8"},
        {"{% set true = 1 %}", ERR_FORMAT, "test.jinja:1:8: can't assign to this expression"},
        {"{% macro m(a=1, b) %}{% endmacro %}", ERR_FORMAT, "test.jinja:1:18: non-default argument follows default"},
        {"{% break %}", ERR_FORMAT, "test.jinja:1:10: 'break' outside loop"},
        {"{% block a %}{% endblock %}{% block a %}{% endblock %}", ERR_FORMAT,
         "test.jinja:1:37: block 'a' defined twice"},
        {"{{ f(a=1, 2) }}", ERR_FORMAT, "test.jinja:1:5: invalid syntax for function call expression"},
        {"{{ x is string is none }}", ERR_FORMAT, "test.jinja:1:16: You cannot chain multiple tests with is"},
        {"{{ 1|nope }}", ERR_FORMAT, "test.jinja:1:6: No filter named 'nope'."},
        {"{{ 1 is nope }}", ERR_FORMAT, "test.jinja:1:9: No test named 'nope'."},
        {"{% if 0 %}{% for x in [] %}{{ x|nope }}{% endfor %}{% endif %}", ERR_FORMAT,
         "test.jinja:1:33: No filter named"},
        /* undefined */
        {"\n{{ x.y }}", ERR_INVALID, "test.jinja:2:5: 'x' is undefined"},
        {"{{ d.a.b }}", ERR_INVALID, "test.jinja:1:7: 'dict object' has no attribute 'a'"},
        {"{{ [1][5].x }}", ERR_INVALID, "test.jinja:1:10: list object has no element 5"},
        {"{{ x + 1 }}", ERR_INVALID, "test.jinja:1:6: 'x' is undefined"},
        {"{{ x() }}", ERR_INVALID, "test.jinja:1:5: 'x' is undefined"},
        {"{{ x < 1 }}", ERR_INVALID, "test.jinja:1:6: 'x' is undefined"},
        {"{{ x|tojson }}", ERR_INVALID, "test.jinja:1:6: Object of type Undefined is not JSON serializable"},
        {"{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}", ERR_INVALID,
         "test.jinja:1:21: parameter 'a' was not provided"},
        /* types */
        {"{{ 1 + 'a' }}", ERR_INVALID, "test.jinja:1:6: unsupported operand type(s) for +: 'int' and 'str'"},
        {"{{ 'a' + 1 }}", ERR_INVALID, "test.jinja:1:8: can only concatenate str (not \"int\") to str"},
        {"{{ 1 < 'a' }}", ERR_INVALID, "test.jinja:1:6: '<' not supported between instances of 'int' and 'str'"},
        {"{{ 1 / 0 }}", ERR_INVALID, "test.jinja:1:6: division by zero"},
        {"{{ 1 % 0 }}", ERR_INVALID, "test.jinja:1:6: integer division or modulo by zero"},
        {"{{ none|length }}", ERR_INVALID, "test.jinja:1:9: object of type 'NoneType' has no len()"},
        {"{% for x in none %}{% endfor %}", ERR_INVALID, "test.jinja:1:4: 'NoneType' object is not iterable"},
        {"{{ 'a' in 1 }}", ERR_INVALID, "test.jinja:1:8: argument of type 'int' is not iterable"},
        {"{{ {[]: 1} }}", ERR_INVALID, "test.jinja:1:4: unhashable type, got list"},
        {"{{ 1() }}", ERR_INVALID, "test.jinja:1:5: 'int' object is not callable"},
        {"{% set a, b = [1] %}", ERR_INVALID, "test.jinja:1:4: not enough values to unpack (expected 2, got 1)"},
        {"{% set d = {} %}{% set d.x = 1 %}", ERR_INVALID, "test.jinja:1:20: cannot assign attribute on non-namespace"},
        {"{{ [1].append(2) }}", ERR_INVALID,
         "test.jinja:1:14: access to attribute 'append' of 'list' object is unsafe."},
        {"{{ 'a'|replace('x') }}", ERR_INVALID,
         "test.jinja:1:8: replace() missing 1 required positional argument: 'new'"},
        {"{{ 'a'|trim(1, 2) }}", ERR_INVALID, "test.jinja:1:8: trim() takes 1 positional arguments but 2 were given"},
        {"{{ 'a'|trim(x=1) }}", ERR_INVALID, "test.jinja:1:8: trim() got an unexpected keyword argument 'x'"},
        {"{{ [1]|map('nope')|list }}", ERR_INVALID, "test.jinja:1:20: No filter named 'nope'."},
        {"{% include 'x' %}", ERR_INVALID, "test.jinja:1:4: no loader for this environment specified"},
        {"{% for x in [1] %}{{ loop(x) }}{% endfor %}", ERR_INVALID,
         "test.jinja:1:26: The loop must have the 'recursive'"},
        {"{% if 1 %}{{ 1|nope }}{% endif %}", ERR_INVALID, "test.jinja:1:16: No filter named 'nope'."},
        /* the template's own words */
        {"\n{{ raise_exception('Roles must alternate!') }}", ERR_INVALID, "test.jinja:2:19: Roles must alternate!"},
        {"{% macro m(a) %}{{ raise_exception(a) }}{% endmacro %}{{ m('no') }}", ERR_INVALID, "test.jinja:1:35: no"},
        /* numbers at the ends of 64 bits */
        {"{{ 'abc'|truncate(-2**63) }}", ERR_INVALID, "test.jinja:1:10: expected length >= 3"},
        {"{{ range(0, 10, 2**60)[::2**31] }}", ERR_LIMIT, "test.jinja:1:23: the template exceeds the limit of 64 bits"},
        {"{{ 5|round(-2**63) }}", ERR_LIMIT, "test.jinja:1:6: the template exceeds the limit of 262144 bits"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct error e = {0};
        struct buf   out;
        int          rc = run(faults[i].source, "{\"d\": {}}", NULL, &out, &e);
        if (rc != faults[i].code || e.code != rc || strncmp(e.msg, faults[i].want, strlen(faults[i].want)) != 0)
            fail_msg("%s\ngave %d %s\nnot  %d %s", faults[i].source, rc, rc ? e.msg : buf_cstr(&out), faults[i].code,
                     faults[i].want);
        assert_int_equal(out.n, 0);
        buf_deinit(&out);
    }
}

/* count times text, between head and tail */
static char *repeated(const char *head, const char *text, size_t count, const char *tail)
{
    struct buf b;
    buf_init(&b, SIZE_MAX / 2);
    buf_puts(&b, head);
    while (count--)
        buf_puts(&b, text);
    buf_puts(&b, tail);
    assert_false(b.failed);
    return b.p;
}

/* An expression 400 levels deep. */
static char *nested(const char *open, const char *close)
{
    char *right = repeated("1", close, 400, " }}"), *all = repeated("{{ ", open, 400, right);
    free(right);
    return all;
}

static void expect_limit(const char *source, const struct jinja_limits *limits, const char *what)
{
    struct error e = {0};
    struct buf   out;
    int          rc = run(source, "{}", limits, &out, &e);
    if (rc != ERR_LIMIT || !strstr(e.msg, what))
        fail_msg("%.200s\ngave %d %s\nnot the limit of %s", source, rc, e.msg, what);
    buf_deinit(&out);
}

static void test_limits(void **state)
{
    const struct jinja_limits small = {.output = 1000, .memory = 100000, .steps = 10000, .depth = 100},
                              short_run = {.steps = 10000}, tight = {.memory = 1 << 20, .steps = 1000000};
    (void)state;
    expect_limit("{% for x in range(1000) %}abc{% endfor %}", &small, "1000 bytes of output");
    expect_limit("{% set x = 'a' * 1000 * 1000 %}", &small, "100000 bytes of memory");
    expect_limit("{% set x = [0] * 10000 %}", &small, "100000 bytes of memory");
    expect_limit("{% for x in range(50) %}{% set y %}{{ 'abcdefgh' * 400 }}{% endset %}{% endfor %}", &small, "memory");
    expect_limit("{% set r = range(200) %}{% for x in r %}{% for y in r %}{% endfor %}{% endfor %}", &short_run,
                 "10000 steps");
    expect_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", &small, "100 nested evaluations");
    expect_limit("{{ range(100001) }}", &small, "100000 items of a range");
    /* the defaults */
    expect_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", NULL, "2000 nested evaluations");
    expect_limit("{% set n = namespace() %}{% set n.n = n %}{{ n }}", NULL, "nested evaluations");
    expect_limit("{% set n = namespace(i=[1]) %}{% for i in range(99999) %}{% set n.i = n.i|map('int') %}{% endfor %}"
                 "{{ n.i|list }}",
                 NULL, "nested evaluations");
    expect_limit("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}", NULL, "nested evaluations");
    expect_limit(
        "{% macro a() %}{% call b() %}{% endcall %}{% endmacro %}{% macro b() %}{{ caller() }}{{ a() }}{% endmacro %}"
        "{{ a() }}",
        NULL, "nested evaluations");
    expect_limit("{{ 'a' * 10000000000 }}", NULL, "memory");
    expect_limit("{{ 'a'|center(10000000000) }}", NULL, "memory");
    expect_limit("{{ 'a'.ljust(10000000000) }}", NULL, "memory");
    expect_limit("{% set s = namespace(a='aaaaaaaa') %}{% for i in range(60) %}{% set s.a = s.a + s.a %}{% endfor %}",
                 &tight, "memory");
    expect_limit("{% set s = namespace(a=[1]) %}{% for i in range(60) %}{% set s.a = [s.a, s.a] %}{% endfor %}"
                 "{{ s.a == s.a|list }}",
                 &tight, "steps");
    expect_limit("{% set a = 'a' * 1000000 %}{% set b = 'a' * 500000 + 'b' %}{% for i in range(9999) %}"
                 "{{ a.rfind(b) }}{% endfor %}",
                 NULL, "steps");
}

/* Every vector with too little of everything, up to enough: the limit's message each time, and then the result. */
static void test_sweep(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        for (int kind = 0; kind < 3; kind++) {
            size_t n = 0;
            int    rc;
            do {
                struct jinja_limits limits = {0};
                struct error        e = {0};
                struct buf          out;
                n += kind == 0 ? 16 + n / 64 : 1 + n / 64;
                limits.memory = kind == 0 ? n : 0;
                limits.steps = kind == 1 ? (long)n : 0;
                limits.depth = kind == 2 ? (int)n : 0;
                rc = run(vectors[i].source, vectors[i].vars, &limits, &out, &e);
                if (rc ? rc != ERR_LIMIT : !str_eq(buf_str(&out), (struct str){vectors[i].want, vectors[i].n}))
                    fail_msg("%s\ngave %s", vectors[i].source, rc ? e.msg : buf_cstr(&out));
                buf_deinit(&out);
            } while (rc);
        }
}

static void test_nesting(void **state)
{
    char *deep[] = {
        repeated("{{ ", "(", 100000, "1 }}"),
        repeated("{{ ", "-", 100000, "1 }}"),
        repeated("{{ ", "not ", 100000, "1 }}"),
        repeated("", "{% if x %}", 50000, ""),
        repeated("{{ ", "a if b else ", 50000, "1 }}"),
        nested("[", "]"),
        nested("(", ")"),
        nested("x[", "]"),
        nested("x|trim(", ")"),
        nested("{'a': ", "}"),
    };
    /* long, not deep in the source, but in the tree */
    char *chain = repeated("{{ 1", " + 1", 100000, " }}"), *calls = repeated("{{ x", ".y", 100000, " }}");
    (void)state;
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        struct error e = {0};
        struct buf   out;
        if (run(deep[i], NULL, NULL, &out, &e) != ERR_LIMIT || !strstr(e.msg, "nested deeper than the limit of"))
            fail_msg("%.40s: %s", deep[i], e.msg);
        buf_deinit(&out);
        free(deep[i]);
    }
    expect_limit(chain, NULL, "nested evaluations");
    expect_limit(calls, NULL, "nested evaluations");
    free(chain);
    free(calls);
}

static void test_source_limit(void **state)
{
    char         *source = malloc(JINJA_SOURCE_MAX + 1);
    struct jinja *j = NULL;
    struct error  e = {0};
    (void)state;
    assert_non_null(source);
    memset(source, 'a', JINJA_SOURCE_MAX + 1);
    assert_int_equal(jinja_parse(&j, (struct str){source, JINJA_SOURCE_MAX + 1}, "big", &e), ERR_LIMIT);
    assert_int_equal(jinja_parse(&j, (struct str){source, JINJA_SOURCE_MAX}, "big", &e), 0);
    jinja_free(j);
    free(source);
}

static void test_strftime(void **state)
{
    struct error e = {0};
    struct buf   out;
    (void)state;
    assert_int_equal(
        run("{{ strftime_now('%Y-%m-%d %H:%M %d %b %Y %%') }}[{{ strftime_now('') }}]", NULL, NULL, &out, &e), 0);
    assert_string_equal(buf_cstr(&out), "2025-11-29 12:00 29 Nov 2025 %[]");
    buf_deinit(&out);
    assert_int_equal(run("{{ strftime_now('%9999d') }}", NULL, NULL, &out, &e), ERR_INVALID);
    buf_deinit(&out);
}

/* Variables are read from the caller's JSON and stay as they are; the output is appended. */
static void test_render_twice(void **state)
{
    struct jinja *j = NULL;
    struct error  e = {0};
    struct buf    out;
    json_t       *vars = json_pack("{s:[s,s]}", "a", "x", "y");
    (void)state;
    buf_init(&out, 100);
    assert_int_equal(jinja_parse(&j, STR("{% set a = a + ['z'] %}{{ a|join }}"), "t", &e), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(jinja_render(j, vars, 0, NULL, &out, &e), 0);
    assert_string_equal(buf_cstr(&out), "xyzxyz");
    assert_int_equal(json_array_size(json_object_get(vars, "a")), 2);
    jinja_free(j);
    json_decref(vars);
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),      cmocka_unit_test(test_faults),   cmocka_unit_test(test_limits),
        cmocka_unit_test(test_nesting),      cmocka_unit_test(test_strftime), cmocka_unit_test(test_source_limit),
        cmocka_unit_test(test_render_twice), cmocka_unit_test(test_sweep),
    };
    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
