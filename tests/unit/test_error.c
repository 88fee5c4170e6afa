/* Error sentences: escaping, cutting, prefixes, and several faults in one. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/utf8.h"

static void sets_code_param_and_sentence(void **state)
{
    struct error e = {0};
    (void)state;
    assert_int_equal(error_set(&e, ERR_INVALID, "top_p", "top_p is %d, needed %s", 3, "less"), ERR_INVALID);
    assert_int_equal(e.code, ERR_INVALID);
    assert_string_equal(e.param, "top_p");
    assert_string_equal(e.msg, "top_p is 3, needed less");
    assert_int_equal(error_set(&e, ERR_IO, NULL, "x"), ERR_IO);
    assert_string_equal(e.param, "");
    assert_int_equal(error_set(NULL, ERR_NOMEM, "a", "b"), ERR_NOMEM); /* nobody cares */
}

static void control_characters_are_escaped(void **state)
{
    struct error e = {0};
    (void)state;
    error_set(&e, ERR_FORMAT, "a\nb", "%s", "tab\there\x1b[31m\x7f \xc2\x9b end");
    assert_string_equal(e.msg, "tab\\x09here\\x1b[31m\\x7f \\xc2\\x9b end");
    assert_string_equal(e.param, "a\\x0ab");
    error_set(&e, ERR_FORMAT, NULL, "%s", "bad \xff\xc3 good \xc3\xa9 cut \xe2\x82");
    assert_string_equal(e.msg, "bad \\xff\\xc3 good \xc3\xa9 cut \\xe2\\x82");
}

/* Whatever is put in, the sentence ends within the limit, at a character's border. */
static void long_texts_are_cut_at_a_border(void **state)
{
    static const char *const fills[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x01", "\xff"};
    static char              big[3 * ERROR_MSG_MAX];
    struct error             e;
    (void)state;
    for (size_t f = 0; f < sizeof fills / sizeof *fills; f++)
        for (size_t shift = 0; shift < 4; shift++) {
            size_t n = strlen(fills[f]), o = shift;
            memset(big, 'x', sizeof big);
            for (; o + n < sizeof big; o += n)
                memcpy(big + o, fills[f], n);
            big[sizeof big - 1] = '\0';
            error_set(&e, ERR_FORMAT, big, "%s", big);
            assert_true(strlen(e.msg) < ERROR_MSG_MAX && strlen(e.msg) >= ERROR_MSG_MAX - 5);
            assert_true(strlen(e.param) < ERROR_PARAM_MAX);
            assert_int_equal(utf8_valid_prefix(e.msg, strlen(e.msg)), strlen(e.msg));
            assert_int_equal(utf8_valid_prefix(e.param, strlen(e.param)), strlen(e.param));
            error_prefix(&e, "%s", big);
            assert_true(strlen(e.msg) < ERROR_MSG_MAX);
        }
}

static void prefix_goes_before(void **state)
{
    struct error e = {0};
    (void)state;
    error_set(&e, ERR_MISFIT, "w", "w is missing");
    assert_int_equal(error_prefix(&e, "%s", "model.safetensors"), ERR_MISFIT);
    assert_string_equal(e.msg, "model.safetensors: w is missing");
    assert_string_equal(e.param, "w");
}

static void system_errors_have_codes(void **state)
{
    struct error e = {0};
    (void)state;
    assert_int_equal(error_errno(&e, ENOENT, "open", "/a/b"), ERR_NOT_FOUND);
    assert_string_equal(e.msg, "cannot open /a/b: No such file or directory");
    assert_int_equal(error_errno(&e, ENOMEM, "map", "x"), ERR_NOMEM);
    assert_int_equal(error_errno(&e, EACCES, "open", "x"), ERR_IO);
    assert_int_equal(error_nomem(&e, "the cache"), ERR_NOMEM);
    assert_string_equal(e.msg, "out of memory for the cache");
}

static void facts_of_every_code(void **state)
{
    (void)state;
    assert_int_equal(error_http_status(ERR_OK), 200);
    assert_int_equal(error_http_status(ERR_INVALID), 400);
    assert_int_equal(error_http_status(ERR_BUSY), 503);
    assert_string_equal(error_api_type(ERR_CONTEXT), "context_length_exceeded");
    for (int code = 1; code < ERR_COUNT; code++) {
        assert_in_range(error_http_status(code), 400, 599);
        assert_non_null(error_api_type(code));
        assert_true(*error_api_type(code));
    }
    assert_int_equal(error_http_status(-1), 500);
    assert_int_equal(error_http_status(ERR_COUNT), 500);
    assert_string_equal(error_api_type(999), "server_error");
}

static void no_fault_is_success(void **state)
{
    struct faults f = {0};
    struct error  e = {.code = 7, .msg = "untouched"};
    (void)state;
    assert_int_equal(faults_report(&f, &e), 0);
    assert_string_equal(e.msg, "untouched");
    faults_deinit(&f);
}

static void faults_are_sorted_and_joined(void **state)
{
    struct faults f = {0};
    struct error  e = {0};
    (void)state;
    faults_add(&f, ERR_MISFIT, "b", "b is %d", 2);
    faults_add(&f, ERR_FORMAT, "a", "a is odd");
    faults_add(&f, ERR_FORMAT, "a", "a is long");
    faults_add(&f, ERR_FORMAT, "a", "a is odd");         /* said once */
    assert_int_equal(faults_report(&f, &e), ERR_MISFIT); /* the first that was added */
    assert_string_equal(e.msg, "a is long; a is odd; b is 2");
    assert_string_equal(e.param, "a");
    faults_deinit(&f);
    assert_int_equal(f.n, 0);
}

static void twenty_faults_are_named(void **state)
{
    (void)state;
    for (int n = 19; n <= 22; n++) {
        struct faults f = {0};
        struct error  e = {0};
        char          name[16], more[32];
        for (int i = n; i-- > 0;) {
            snprintf(name, sizeof name, "t%03d", i);
            faults_add(&f, ERR_MISFIT, name, "%s is wrong", name);
        }
        assert_int_equal(faults_report(&f, &e), ERR_MISFIT);
        snprintf(more, sizeof more, "; and %d more", n - 20);
        assert_true((strstr(e.msg, "more") != NULL) == (n > 20));
        if (n > 20)
            assert_string_equal(e.msg + strlen(e.msg) - strlen(more), more);
        assert_true((strstr(e.msg, "t019 is wrong") != NULL) == (n > 19));
        assert_null(strstr(e.msg, "t020"));
        faults_deinit(&f);
    }
}

/* Long sentences: as many as fit are named, the count of the others is right, the limit holds. */
static void long_faults_fit(void **state)
{
    struct faults f = {0};
    struct error  e = {0};
    char          text[900];
    (void)state;
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 15; i++)
        faults_add(&f, ERR_MISFIT, "n", "%02d%s", i, text);
    faults_report(&f, &e);
    assert_true(strlen(e.msg) < ERROR_MSG_MAX);
    assert_non_null(strstr(e.msg, "; and 11 more"));
    faults_deinit(&f);
    f = (struct faults){0};
    static char huge[2 * ERROR_MSG_MAX];
    memset(huge, 'z', sizeof huge - 1);
    faults_add(&f, ERR_MISFIT, "n", "%s", huge);
    faults_add(&f, ERR_MISFIT, "n", "%s", huge);
    assert_int_equal(faults_report(&f, &e), ERR_MISFIT);
    assert_true(strlen(e.msg) < ERROR_MSG_MAX);
    faults_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_code_param_and_sentence),
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(long_texts_are_cut_at_a_border),
        cmocka_unit_test(prefix_goes_before),
        cmocka_unit_test(system_errors_have_codes),
        cmocka_unit_test(facts_of_every_code),
        cmocka_unit_test(no_fault_is_success),
        cmocka_unit_test(faults_are_sorted_and_joined),
        cmocka_unit_test(twenty_faults_are_named),
        cmocka_unit_test(long_faults_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
