/* Loading a chat template, adapting a request and rendering it while the n-th allocation fails, for every n: each time
 * one error, no crash, and (under the address sanitizer) no leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "../support/fail_alloc.h"
#include "../support/tmp.h"
#include "chat/jinja.h"
#include "chat/template.h"

static const char source[] =
    "{% macro show(m, sep='\\n') %}<{{ m.role }}>{{ m.content|trim }}{{ sep }}{{ varargs }}{{ caller() }}{% endmacro %}"
    "{% set ns = namespace(n=0, seen={}) %}{% for m in messages if m.content is defined %}{% set ns.n = ns.n + 1 %}"
    "{% call show(m, ' ', 1, *[2]) %}{{ loop.index ~ '/' ~ loop.length }}{% endcall %}{% endfor %}"
    "{% set block %}{{ tools|tojson(indent=2, sort_keys=true) }}{% endset %}{{ block|indent|upper|replace('A', 'b') }}"
    "{{ [3, 1, 2]|sort|map('string')|join('-') }}{{ messages|selectattr('role', 'equalto', 'user')|list }}"
    "{{ 'a,b'.split(',')[::-1] }}{{ '%s %05d'|format('x', 7) }}{{ '{:>5}'.format(1.5) }}{{ dict(a=1, **{'b': "
    "2})|dictsort }}"
    "{{ messages|groupby('role')|list|length }}{{ strftime_now('%Y') }}{{ bos_token }}";

static int load_and_render(const char *dir, const struct chat_template_choice *choice, json_t *request, struct error *e)
{
    struct chat_template *t = NULL;
    struct buf            out;
    json_t               *copy = json_deep_copy(request);
    int                   rc = copy ? chat_template_load(&t, dir, choice, e) : error_nomem(e, "the test's copy");
    buf_init(&out, 1 << 20);
    if (!rc)
        rc = chat_template_adapt(t, copy, e);
    if (!rc)
        rc = chat_template_render(t, copy, 0, &out, e);
    buf_deinit(&out);
    chat_template_free(t);
    json_decref(copy);
    return rc;
}

/* Every allocation fails once; every third under the sanitizer, where it takes five times as long. */
#ifdef __SANITIZE_ADDRESS__
enum { STEP = 3 };
#else
enum { STEP = 1 };
#endif

static void sweep(const char *dir, const struct chat_template_choice *choice, const char *text)
{
    json_t *request = json_loads(text, 0, NULL);
    long    n = 0;
    int     rc;
    assert_non_null(request);
    do {
        struct error e = {0};
        failed = false;
        countdown = n += STEP;
        rc = load_and_render(dir, choice, request, &e);
        countdown = -1;
        /* jansson's parser words some of its own allocation failures as syntax errors */
        if (rc && rc != ERR_NOMEM && !strstr(e.msg, "not valid JSON"))
            fail_msg("allocation %ld: code %d: %s", n, rc, e.msg);
        if (rc)
            assert_true(failed);
    } while ((rc || failed) && n < 100000);
    assert_int_equal(rc, 0);
    assert_false(failed);
    print_message("%ld allocations\n", n - STEP);
    json_decref(request);
}

static void write_file(const char *dir, const char *name, const char *text)
{
    FILE *f = fopen(tmp_path(dir, name), "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && !fclose(f));
}

static void test_every_allocation(void **state)
{
    char *dir = tmp_make();
    (void)state;
    write_file(dir, "chat_template.jinja", source);
    write_file(dir, "tokenizer_config.json", "{\"bos_token\":{\"content\":\"<s>\"}}");
    sweep(dir, NULL,
          "{\"messages\":[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\","
          "\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":\"c \"}],\"tools\":[{\"a\":[1,2.5,null]}],"
          "\"continue_final_message\":false}");
    tmp_remove(dir);
}

/* A built-in template that wants most of what messages can be changed in. */
static void test_adapting(void **state)
{
    char *dir = tmp_make();
    (void)state;
    write_file(dir, "tokenizer_config.json", "{\"chat_template\":[{\"name\":\"default\",\"template\":\"x\"}]}");
    sweep(
        dir, &(struct chat_template_choice){.name = "gemma"},
        "{\"messages\":[{\"role\":\"developer\",\"content\":\"a\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\","
        "\"text\":\"b\"}]},{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"assistant\",\"content\":null,\"thinking\":"
        "\"h\","
        "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]},"
        "{\"role\":\"tool\",\"content\":\"d\"},{\"role\":\"user\",\"content\":\"e\"}]}");
    tmp_remove(dir);
}

/* Parses and renders one small template. */
static int parse_and_render(const char *text, const json_t *vars, struct error *e)
{
    struct jinja *j = NULL;
    struct buf    out;
    int           rc = jinja_parse(&j, str_of(text), "test", e);
    buf_init(&out, 1 << 20);
    if (!rc)
        rc = jinja_render(j, vars, 0, NULL, &out, e);
    buf_deinit(&out);
    jinja_free(j);
    return rc;
}

static void test_vectors(void **state)
{
    static const struct {
        const char *text, *vars;
    } vectors[] = {
#define VECTOR(text, vars, result) {text, vars},
#include "../unit/jinja_vectors.def"
#undef VECTOR
    };
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        json_t *vars = json_loads(vectors[i].vars ? vectors[i].vars : "{}", 0, NULL);
        long    n = 0;
        int     rc;
        assert_non_null(vars);
        do {
            struct error e = {0};
            failed = false;
            countdown = ++n;
            rc = parse_and_render(vectors[i].text, vars, &e);
            countdown = -1;
            if (rc && rc != ERR_NOMEM)
                fail_msg("%s, allocation %ld: code %d: %s", vectors[i].text, n, rc, e.msg);
            if (rc)
                assert_true(failed);
        } while (failed && n < 100000);
        assert_int_equal(rc, 0);
        json_decref(vars);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation), cmocka_unit_test(test_adapting),
                                       cmocka_unit_test(test_vectors)};
    json_set_alloc_funcs(__wrap_malloc, free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
