/* The option parser against a small table: spellings, ranges, precedence, and what the sentences say. */
#include "base/opt.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"

struct values {
    bool            json, help;
    int64_t         context;
    double          temp;
    const char     *model, *precision, *system, *name, *file;
    struct opt_list stop;
};

enum { ONE = 1, TWO = 2 };
#define AT(field) offsetof(struct values, field)
static const struct opt rows[] = {
    {OPT_TEXT, "-m, --model", "DIR", OPT_REQUIRED, 0, 0, "MLXCEL_MODEL, LLAMA_ARG_MODEL", "Model", ONE | TWO,
     "The model", AT(model)},
    {OPT_INT, "-c, --ctx-size", "N", "0", 0, 4096, "LLAMA_ARG_CTX_SIZE", "Model", ONE, "Tokens of context",
     AT(context)},
    {OPT_REAL, "--temp, --temperature", "T", "0", 0, INFINITY, "MLXCEL_TEMP", "Sampling", ONE, "Temperature", AT(temp)},
    {OPT_REAL, "--temp, --temperature", "T", "0.8", 0, INFINITY, "", "Sampling", TWO, "Temperature", AT(temp)},
    {OPT_CHOICE, "--precision", "default|high", "default", 0, 0, "", "Model", ONE, "Arithmetic", AT(precision)},
    {OPT_LIST, "-r, --stop", "TEXT", NULL, 0, 0, "", "Sampling", ONE, "Ends the answer", AT(stop)},
    {OPT_TEXT, "--name", "NAME", NULL, 0, 0, "MLXCEL_NAME", "Model", ONE, "A name", AT(name)},
    {OPT_TEXT, "--file", "FILE", NULL, 0, 0, "MLXCEL_FILE", "Model", ONE, "Or a file", AT(file)},
    {OPT_TEXT, "-sys, --system", "TEXT", NULL, 0, 0, "", "Prompt", TWO, "System message", AT(system)},
    {OPT_FLAG, "--json", "", NULL, 0, 0, "MLXCEL_JSON", "Output", ONE, "One JSON object", AT(json)},
    {OPT_STOP, "-h, --help", "", NULL, 0, 0, "", "Help", ONE, "This help", AT(help)},
};

struct fixture {
    struct values   v;
    struct opt_list rest;
    struct error    e;
    struct arena    a;
};

static const char *environment[8]; /* name, value, ... */
static const char *lookup(const char *name)
{
    for (size_t i = 0; i + 1 < ARRAY_LEN(environment) && environment[i]; i += 2)
        if (strcmp(environment[i], name) == 0)
            return environment[i + 1];
    return NULL;
}

static const char *bare; /* of the view */

static int parse(struct fixture *f, uint64_t command, const char *line)
{
    static char     words[512];
    static char    *argv[32];
    int             argc = 0;
    struct opt_view view = {
        rows, ARRAY_LEN(rows), command, command == ONE ? "one" : "two", .exclusive = "--name, --file", .bare = bare};
    arena_deinit(&f->a);
    memset(f, 0, sizeof *f);
    arena_init(&f->a, 1 << 20);
    snprintf(words, sizeof words, "%s", line);
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    return opt_parse(&view, argc, argv, lookup, &f->v, &f->rest, &f->a, &f->e);
}

static int setup(void **state)
{
    memset(environment, 0, sizeof environment);
    *state = calloc(1, sizeof(struct fixture));
    return !*state;
}

static int teardown(void **state)
{
    arena_deinit(&((struct fixture *)*state)->a);
    free(*state);
    return 0;
}

static void test_values(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, ONE, "-m dir --temp=-0 -c 7 --json --stop a -r -b in --precision high -- --out"), 0);
    assert_string_equal(f->v.model, "dir");
    assert_string_equal(f->v.precision, "high");
    assert_int_equal(f->v.context, 7);
    assert_true(f->v.json);
    assert_int_equal(f->v.stop.n, 2);
    assert_string_equal(f->v.stop.v[1], "-b");
    assert_int_equal(f->rest.n, 2);
    assert_string_equal(f->rest.v[0], "in");
    assert_string_equal(f->rest.v[1], "--out");
}

static void test_defaults_differ_by_command(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(parse(f, ONE, "-m a --temp 3 --temp 2"), 0);
    assert_true(f->v.temp == 2);
    assert_int_equal(parse(f, ONE, "-m a"), 0);
    assert_true(f->v.temp == 0);
    assert_string_equal(f->v.precision, "default");
    assert_null(f->v.system);
    assert_int_equal(parse(f, TWO, "-m a -sys hello"), 0);
    assert_true(f->v.temp == 0.8);
    assert_string_equal(f->v.system, "hello");
}

static void test_environment(void **state)
{
    struct fixture *f = *state;
    environment[0] = "LLAMA_ARG_MODEL", environment[1] = "llama";
    environment[2] = "MLXCEL_JSON", environment[3] = "on";
    environment[4] = "LLAMA_ARG_CTX_SIZE", environment[5] = "9";
    assert_int_equal(parse(f, ONE, "-c 8"), 0);
    assert_string_equal(f->v.model, "llama");
    assert_true(f->v.json);
    assert_int_equal(f->v.context, 8);
    environment[3] = "False";
    assert_int_equal(parse(f, ONE, ""), 0);
    assert_false(f->v.json);
    environment[3] = "True";
    assert_int_equal(parse(f, ONE, ""), 0);
    assert_true(f->v.json);
    environment[0] = "MLXCEL_MODEL", environment[1] = "";
    assert_int_equal(parse(f, ONE, ""), ERR_USAGE);
    assert_string_equal(f->e.msg, "one needs --model DIR");
    environment[5] = "many";
    assert_int_equal(parse(f, ONE, "-m a"), ERR_USAGE);
    assert_string_equal(f->e.msg, "LLAMA_ARG_CTX_SIZE takes an integer from 0 to 4096, not \"many\"");
}

/* Of two options that exclude each other, the command line's silences the other's variable; a variable alone counts. */
static void test_exclusive(void **state)
{
    struct fixture *f = *state;
    environment[0] = "MLXCEL_NAME", environment[1] = "a";
    assert_int_equal(parse(f, ONE, "-m x"), 0);
    assert_string_equal(f->v.name, "a");
    assert_int_equal(parse(f, ONE, "-m x --file b"), 0);
    assert_null(f->v.name);
    assert_string_equal(f->v.file, "b");
    environment[2] = "MLXCEL_FILE", environment[3] = "c";
    assert_int_equal(parse(f, ONE, "-m x --name d"), 0);
    assert_string_equal(f->v.name, "d");
    assert_null(f->v.file);
    assert_int_equal(parse(f, ONE, "-m x"), 0); /* both: for the caller to refuse */
    assert_string_equal(f->v.name, "a");
    assert_string_equal(f->v.file, "c");
}

static void refused(struct fixture *f, uint64_t command, const char *line, const char *message)
{
    assert_int_equal(parse(f, command, line), ERR_USAGE);
    assert_string_equal(f->e.msg, message);
}

/* The first argument without a name may be an option's value, stronger than its variable and not beside its name. */
static void test_bare(void **state)
{
    struct fixture *f = *state;
    bare = "--name";
    environment[0] = "MLXCEL_NAME", environment[1] = "a";
    assert_int_equal(parse(f, ONE, "-m x b"), 0);
    assert_string_equal(f->v.name, "b");
    assert_int_equal(f->rest.n, 1);
    assert_int_equal(parse(f, ONE, "-m x"), 0);
    assert_string_equal(f->v.name, "a");
    refused(f, ONE, "-m x --name c b", "--name is given twice: once as \"b\" without its name");
    bare = "--nowhere";
    assert_int_equal(parse(f, ONE, "-m x b"), 0);
    assert_string_equal(f->v.name, "a");
    bare = NULL;
}

static void test_help_comes_before_other_checks(void **state)
{
    struct fixture *f = *state;
    environment[0] = "LLAMA_ARG_CTX_SIZE", environment[1] = "many";
    assert_int_equal(parse(f, ONE, "--temp 1 -h --nothing"), 0);
    assert_true(f->v.help);
    assert_int_equal(parse(f, ONE, "-m -h -c 1"), 0);
    assert_false(f->v.help);
    refused(f, ONE, "--nothing --help", "unknown option --nothing");
}

static void test_refusals(void **state)
{
    struct fixture *f = *state;
    refused(f, ONE, "--temprature 1", "unknown option --temprature; did you mean --temperature?");
    refused(f, ONE, "--jsno", "unknown option --jsno; did you mean --json?");
    refused(f, ONE, "--zzzzzz", "unknown option --zzzzzz");
    refused(f, ONE, "-q", "unknown option -q");
    refused(f, TWO, "-c 4", "-c is not an option of two");
    refused(f, ONE, "-c 4097", "-c takes an integer from 0 to 4096, not \"4097\"");
    refused(f, ONE, "-c 4x", "-c takes an integer from 0 to 4096, not \"4x\"");
    refused(f, ONE, "-c 99999999999999999999", "-c takes an integer from 0 to 4096, not \"99999999999999999999\"");
    refused(f, ONE, "--temp -1", "--temp takes a number of at least 0, not \"-1\"");
    refused(f, ONE, "--temp=nan", "--temp takes a number of at least 0, not \"nan\"");
    refused(f, ONE, "--precision=hig", "--precision takes one of default|high, not \"hig\"");
    refused(f, ONE, "--precision=", "--precision takes one of default|high, not \"\"");
    refused(f, ONE, "--json=1", "--json takes no value");
    refused(f, ONE, "-m", "-m needs a value: DIR");
    refused(f, ONE, "", "one needs --model DIR");
}

static void test_help(void **state)
{
    struct opt_view view = {rows, ARRAY_LEN(rows), TWO, "two", .bare = NULL};
    struct buf      b;
    (void)state;
    buf_init(&b, 1 << 16);
    opt_help(&view, &b);
    assert_string_equal(buf_cstr(&b), "\nModel:\n"
                                      "  -m, --model DIR\n"
                                      "      The model. Required. Environment: MLXCEL_MODEL, LLAMA_ARG_MODEL.\n"
                                      "\nSampling:\n"
                                      "  --temp, --temperature T\n"
                                      "      Temperature. Default: 0.8.\n"
                                      "\nPrompt:\n"
                                      "  -sys, --system TEXT\n"
                                      "      System message.\n");
    buf_clear(&b);
    view.command = ONE;
    opt_markdown(&view, &b);
    assert_non_null(strstr(buf_cstr(&b), "| `--precision default\\|high` | Arithmetic | default |  |\n"));
    buf_deinit(&b);
}

static void test_wrap(void **state)
{
    struct buf b;
    (void)state;
    buf_init(&b, 1 << 16);
    for (int i = 0; i < 30; i++)
        opt_wrap(&b, "a word or two, then some more; quite enough of them, so that the line is folded at its end here",
                 8);
    for (const char *p = buf_cstr(&b); *p; p = strchr(p, '\n') + 1)
        assert_true(strcspn(p, "\n") <= 100 && strncmp(p, "        ", 8) == 0);
    buf_deinit(&b);
}

static void test_nearest(void **state)
{
    static const char *const words[] = {"run", "generate", "tokenize", "detokenize"};
    (void)state;
    assert_string_equal(opt_nearest("genrate", words, 4), "generate");
    assert_string_equal(opt_nearest("rnu", words, 4), "run");
    assert_string_equal(opt_nearest("tokenise", words, 4), "tokenize");
    assert_string_equal(opt_nearest("gen", words, 4), "generate");
    assert_null(opt_nearest("gem", words, 4));
    assert_null(opt_nearest("quantum", words, 4));
    assert_null(opt_nearest("x", words, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_defaults_differ_by_command, setup, teardown),
        cmocka_unit_test_setup_teardown(test_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exclusive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bare, setup, teardown),
        cmocka_unit_test_setup_teardown(test_help_comes_before_other_checks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
