/* config.json views: values, both spellings, and the words of every kind of fault. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../support/tmp.h"
#include "formats/config.h"

static struct config *parse(const char *text)
{
    struct config *c = NULL;
    struct error   e = {0};
    if (config_parse(&c, str_of(text), "config.json", &e))
        fail_msg("%s", e.msg);
    return c;
}

static void check_report(struct config *c, const char *words)
{
    struct error e = {0};
    assert_int_not_equal(config_report(c, &e), 0);
    if (!strstr(e.msg, words))
        fail_msg("'%s' lacks '%s'", e.msg, words);
    config_free(c);
}

static void check_bad(const char *text, int code, const char *words)
{
    struct config *c;
    struct error   e = {0};
    assert_int_equal(config_parse(&c, str_of(text), "config.json", &e), code);
    if (!strstr(e.msg, words))
        fail_msg("'%s' lacks '%s'", e.msg, words);
}

static void values(void **state)
{
    (void)state;
    struct config *c =
        parse("{\"i\":7,\"f\":10000.0,\"x\":1e-6,\"b\":true,\"s\":\"abc\",\"n\":null,\"l\":[1,2.0,3],\"e\":5,"
              "\"inf\":Infinity,\"ninf\":-Infinity,\"big\":1000000000000000019884624838656,\"t\":\"NaN in 'it'\"}");
    assert_int_equal(config_int(c, "i", 0, 10), 7);
    assert_int_equal(config_int(c, "f", 0, 100000), 10000);
    assert_true(config_num(c, "i", 0, 10) == 7);
    assert_true(config_num(c, "x", 0, 1) == 1e-6);
    assert_true(config_bool_or(c, "b", false));
    assert_string_equal(config_str(c, "s"), "abc");
    assert_string_equal(config_str_or(c, "t", ""), "NaN in 'it'");
    assert_false(config_has(c, "n"));
    assert_false(config_has(c, "absent"));
    assert_int_equal(config_int_or(c, "n", 0, 1, 42), 42);
    assert_true(config_num_or(c, "n", 0, 1, 0.5) == 0.5);
    assert_string_equal(config_str_or(c, "absent", "d"), "d");
    assert_null(config_str_or(c, "absent", NULL));
    assert_int_equal(config_array_len(c, "l"), 3);
    assert_int_equal(config_array_len(c, "e"), 1);
    assert_int_equal(config_array_len(c, "absent"), -1);
    assert_int_equal(config_array_int(c, "l", 1, 0, 9), 2);
    assert_int_equal(config_array_int(c, "e", 0, 0, 9), 5);
    assert_true(isinf(config_num(c, "inf", 0, INFINITY)));
    assert_true(config_num(c, "ninf", -INFINITY, 0) < 0);
    assert_true(config_num(c, "big", 0, 1e31) == 1e30);
    assert_int_equal(config_kind(c, "i"), CONFIG_INT);
    assert_int_equal(config_kind(c, "l"), CONFIG_ARRAY);
    assert_int_equal(config_kind(c, "n"), CONFIG_MISSING);
    assert_int_equal(config_report(c, NULL), 0);
    config_free(c);
}

static void faults_are_worded(void **state)
{
    (void)state;
    struct config *c = parse("{\"s\":\"abc\",\"i\":11,\"text_config\":{\"t\":[1]}}");
    assert_int_equal(config_int(c, "gone", 1, 5), 1);
    check_report(c, "config.json: gone is missing, a whole number from 1 to 5 is needed");

    c = parse("{\"s\":\"abc\",\"i\":11,\"text_config\":{\"t\":[1]}}");
    assert_int_equal(config_int_or(c, "s", 1, 5, 3), 3);
    check_report(c, "config.json: s is the string 'abc', a whole number from 1 to 5 is needed");

    c = parse("{\"s\":\"abc\",\"i\":11,\"text_config\":{\"t\":[1]}}");
    assert_int_equal(config_int(c, "i", 1, 5), 1);
    check_report(c, "config.json: i is 11, a whole number from 1 to 5 is needed");

    c = parse("{\"text_config\":{\"t\":[1]}}");
    assert_true(config_num_or(c, "t", 0, 1, 0.5) == 0.5);
    check_report(c, "config.json: text_config.t is a list, a number from 0 to 1 is needed");

    c = parse("{\"a\":1.5,\"b\":1,\"o\":{\"x\":{}}}");
    config_int(c, "a", 0, 9);
    config_bool_or(c, "b", true);
    assert_string_equal(config_str(c, "o"), "");
    assert_string_equal(config_str(config_object(c, "o"), "x"), "");
    assert_null(config_object(c, "b"));
    config_fault(c, ERR_UNSUPPORTED, "b", "is %d, which is not supported", 1);
    check_report(c, "config.json: a is 1.5, a whole number from 0 to 9 is needed; "
                    "config.json: b is 1, an object is needed; config.json: b is 1, true or false is needed; "
                    "config.json: b is 1, which is not supported; config.json: o is an object, a string is needed; "
                    "config.json: o.x is an object, a string is needed");

    c = parse("{\"x\":NaN}");
    config_num(c, "x", -INFINITY, INFINITY);
    check_report(c, "x is the string 'NaN'");
    c = parse("{\"x\":Infinity}");
    config_num(c, "x", 0, 1);
    check_report(c, "x is the string 'Infinity'");
    c = parse("{\"l\":[1,\"a\"]}");
    config_array_int(c, "l", 1, 0, 5);
    config_array_int(c, "l", 2, 0, 5);
    check_report(
        c,
        "config.json: l has no element 2; config.json: l[1] is the string 'a', a whole number from 0 to 5 is needed");
}

static void text_config_comes_first(void **state)
{
    (void)state;
    struct config *c =
        parse("{\"model_type\":\"outer\",\"h\":1,\"k\":2,\"text_config\":{\"model_type\":\"inner\",\"h\":3,\"k\":null,"
              "\"r\":{\"f\":4}},\"r\":{\"f\":5}}");
    assert_string_equal(config_str(c, "model_type"), "inner");
    assert_string_equal(config_str(config_top(c), "model_type"), "outer");
    assert_int_equal(config_int(c, "h", 0, 9), 3);
    assert_int_equal(config_int(c, "k", 0, 9), 2);
    assert_int_equal(config_int(config_object(c, "r"), "f", 0, 9), 4);
    config_int(config_object(c, "r"), "f", 5, 9);
    config_int(config_top(c), "h", 5, 9);
    check_report(c, "config.json: text_config.r.f is 4, a whole number from 5 to 9 is needed; config.json: h is 1");
}

static void keys_in_order(void **state)
{
    (void)state;
    struct config *c = parse("{\"quantization\":{\"bits\":4,\"z\":false,\"a\":{\"bits\":8}}}");
    struct config *q = config_object(c, "quantization");
    const char    *k = config_next_key(q, NULL);
    assert_string_equal(k, "bits");
    k = config_next_key(q, k);
    assert_string_equal(k, "z");
    assert_int_equal(config_kind(q, k), CONFIG_BOOL);
    k = config_next_key(q, k);
    assert_int_equal(config_kind(q, k), CONFIG_OBJECT);
    assert_null(config_next_key(q, k));
    config_free(c);
}

static void rope_spellings(void **state)
{
    (void)state;
    struct config *c = parse(
        "{\"rope_theta\":5e5,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0},\"partial_rotary_factor\":0.5}");
    struct config_rope r = config_rope(c, NULL, 1e4, 1);
    assert_true(r.theta == 5e5 && r.partial == 0.5);
    assert_string_equal(r.type, "linear");
    assert_true(config_num(r.fields, "factor", 1, 100) == 2);
    config_free(c);

    c = parse("{\"rope_parameters\":{\"rope_type\":\"llama3\",\"type\":\"x\",\"rope_theta\":7,\"factor\":8},\"rope_"
              "theta\":1}");
    r = config_rope(c, NULL, 1e4, 1);
    assert_true(r.theta == 7 && r.partial == 1);
    assert_string_equal(r.type, "llama3");
    config_free(c);

    c = parse("{\"rope_scaling\":null}");
    r = config_rope(c, NULL, 1e4, 1);
    assert_true(r.theta == 1e4);
    assert_string_equal(r.type, "default");
    assert_null(r.fields);
    config_free(c);

    c = parse("{\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1},\"sliding_attention\":{\"rope_theta\":2}}}");
    config_rope(c, NULL, 1e4, 1);
    check_report(c, "config.json: rope_parameters holds one object per layer type");

    c = parse("{\"rope_theta\":-1,\"rope_scaling\":\"x\"}");
    config_rope(c, NULL, 1e4, 1);
    check_report(c, "config.json: rope_scaling is the string 'x', an object is needed; config.json: rope_theta is -1");
}

/* Cases of mlx-lm's convert. */
static void dtype_of_convert(void **state)
{
    static const struct {
        const char *text;
        enum dtype  dtype;
    } cases[] = {
        {"{\"torch_dtype\":\"bfloat16\"}", DTYPE_BF16},
        {"{\"torch_dtype\":\"bfloat16\",\"dtype\":\"float16\"}", DTYPE_BF16},
        {"{\"torch_dtype\":\"float32\",\"text_config\":{\"torch_dtype\":\"float16\",\"dtype\":\"float16\"}}",
         DTYPE_F32},
        {"{\"dtype\":\"float32\",\"text_config\":{\"dtype\":\"float16\"}}", DTYPE_F16},
        {"{\"torch_dtype\":null,\"text_config\":{\"dtype\":\"float16\"}}", DTYPE_F16},
        {"{\"torch_dtype\":\"auto\",\"text_config\":{\"dtype\":\"float16\"}}", DTYPE_NONE},
        {"{\"dtype\":\"float16\"}", DTYPE_NONE},
        {"{\"text_config\":{\"torch_dtype\":\"float16\"}}", DTYPE_NONE},
        {"{\"torch_dtype\":\"float64\"}", DTYPE_NONE},
        {"{\"torch_dtype\":7}", DTYPE_NONE},
        {"{}", DTYPE_NONE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config *c = parse(cases[i].text);
        assert_int_equal(config_dtype(c), cases[i].dtype);
        config_free(c);
    }
}

static void bad_documents(void **state)
{
    (void)state;
    char deep[300];
    check_bad("", ERR_FORMAT, "config.json: not valid JSON");
    check_bad("[1]", ERR_FORMAT, "config.json is not a JSON object");
    check_bad("1", ERR_FORMAT, "config.json is not a JSON object");
    check_bad("{\"a\":1,\"a\":2}", ERR_FORMAT, "duplicate");
    check_bad("{\"a\":1e400}", ERR_FORMAT, "not valid JSON");
    check_bad("{\"a\":nan}", ERR_FORMAT, "not valid JSON");
    check_bad("{\"a\":NaNa}", ERR_FORMAT, "not valid JSON");
    check_bad("{\"a\":+1}", ERR_FORMAT, "not valid JSON");
    check_bad("{\"a\":01234567890123456789}", ERR_FORMAT, "not valid JSON");
    check_bad("{\"a\":\"\xff\"}", ERR_FORMAT, "not valid JSON");
    check_bad("{\"a\":\"\\u0000\"}", ERR_FORMAT, "not valid JSON");
    check_bad("{\"a\":\"x", ERR_FORMAT, "not valid JSON");
    check_bad("{\"a\":\"x\\", ERR_FORMAT, "not valid JSON");
    check_bad("{\"text_config\":3}", ERR_FORMAT, "text_config is not an object");
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    check_bad(deep, ERR_LIMIT, "nesting deeper than 64 levels");
}

static void too_many(int times, const char *item, const char *word)
{
    struct config *c;
    struct error   e = {0};
    struct buf     text;
    buf_init(&text, 1 << 24);
    buf_puts(&text, "{\"a\":[");
    for (int i = 0; i < times; i++)
        buf_puts(&text, item);
    assert_int_equal(config_parse(&c, buf_str(&text), "f", &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, word));
    buf_deinit(&text);
}

static void too_many_values(void **state)
{
    (void)state;
    too_many(200000, "[],", "f: more than 200000 arrays and objects");
    too_many(2000000, "1,", "f: more than 2000000 values");
}

static void files(void **state)
{
    (void)state;
    char          *dir = tmp_make();
    struct config *c;
    struct error   e = {0};
    assert_int_equal(config_load(&c, dir, "config.json", &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, tmp_path(dir, "config.json")));
    tmp_puts(dir, "config.json", "{\"a\":1}");
    assert_int_equal(config_load(&c, dir, "config.json", &e), 0);
    assert_int_equal(config_int(c, "a", 0, 1), 1);
    config_free(c);
    char *big = malloc((16u << 20) + 1);
    memset(big, ' ', (16u << 20) + 1);
    tmp_write(dir, "config.json", big, (16u << 20) + 1);
    assert_int_equal(config_load(&c, dir, "config.json", &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "16777216 bytes"));
    free(big);
    tmp_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),        cmocka_unit_test(faults_are_worded), cmocka_unit_test(text_config_comes_first),
        cmocka_unit_test(keys_in_order), cmocka_unit_test(rope_spellings),    cmocka_unit_test(dtype_of_convert),
        cmocka_unit_test(bad_documents), cmocka_unit_test(too_many_values),   cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
