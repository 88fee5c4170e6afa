/* Tokenizers against the reference's output (tools/make_tokenizer_reference.py) on hard texts: published files, many
 * combinations of components over SmolLM2's vocabulary, and small tokenizers of other kinds. Decoding is tested whole
 * and streamed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "../support/tmp.h"
#include "base/utf8.h"
#include "text/detok.h"

#define DATA "tests/data/tokenizers/"

/* --- files ------------------------------------------------------------------------------------------------------ */

/* The content of an .xz file, NUL-terminated; to be freed. */
static char *read_xz(const char *path, size_t *n)
{
    char  command[500], *p = NULL;
    FILE *f;
    snprintf(command, sizeof command, "xz -dc '%s'", path);
    f = popen(command, "r");
    assert_non_null(f);
    *n = 0;
    for (size_t got = 1; got; *n += got) {
        p = realloc(p, *n + (1 << 20) + 1);
        assert_non_null(p);
        got = fread(p + *n, 1, 1 << 20, f);
    }
    assert_int_equal(pclose(f), 0);
    p[*n] = '\0';
    return p;
}

static json_t *parse(const char *p, size_t n)
{
    json_error_t why;
    json_t      *doc = json_loadb(p, n, JSON_ALLOW_NUL, &why);
    if (!doc)
        fail_msg("%s", why.text);
    return doc;
}

static json_t *parse_xz(const char *path)
{
    size_t  n;
    char   *p = read_xz(path, &n);
    json_t *doc = parse(p, n);
    free(p);
    return doc;
}

static struct tokenizer *load(const char *dir)
{
    struct tokenizer *t;
    struct error      e = {0};
    if (tokenizer_load(&t, dir, NULL, &e))
        fail_msg("%s", e.msg);
    return t;
}

/* --- comparison ------------------------------------------------------------------------------------------------- */

static const char *current; /* for messages */

static struct str text_of(const json_t *s)
{
    return (struct str){json_string_value(s), json_string_length(s)};
}

static struct ids ids_of(const json_t *list)
{
    struct ids ids = {0};
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_true(ids_push(&ids, (int32_t)json_integer_value(json_array_get(list, i))));
    return ids;
}

static void check_encode(const struct tokenizer *t, struct str text, unsigned flags, const json_t *expected)
{
    struct ids   got = {0}, want = ids_of(expected);
    struct error e = {0};
    if (tokenizer_encode(t, text, flags, &got, &e))
        fail_msg("%s: '%.*s': %s", current, STR_ARG(text), e.msg);
    for (size_t i = 0; i < want.n || i < got.n; i++)
        if (i >= want.n || i >= got.n || got.v[i] != want.v[i])
            fail_msg("%s: flags %u, text '%.*s': id %zu of %zu (%zu wanted) is %d, wanted %d", current, flags,
                     STR_ARG(text), i, got.n, want.n, i < got.n ? got.v[i] : -1, i < want.n ? want.v[i] : -1);
    ids_deinit(&got);
    ids_deinit(&want);
}

static void expect_text(const char *what, const struct buf *got, struct str want)
{
    if (!str_eq(buf_str(got), want))
        fail_msg("%s: %s: '%s', wanted '%.*s'", current, what, buf_cstr(got), STR_ARG(want));
}

/* Pushes the ids one by one; every part must be whole characters. */
static void check_stream(const struct tokenizer *t, const struct ids *ids, bool skip, struct str want)
{
    struct detok d;
    struct buf   all, part;
    buf_init(&all, 1 << 24);
    buf_init(&part, 1 << 24);
    detok_init(&d, t, skip);
    for (size_t i = 0; i <= ids->n; i++) {
        buf_clear(&part);
        assert_int_equal(i < ids->n ? detok_push(&d, ids->v[i], &part) : detok_finish(&d, &part), 0);
        assert_int_equal(utf8_valid_prefix(buf_cstr(&part), part.n), part.n);
        buf_put(&all, part.p, part.n);
    }
    expect_text("streamed", &all, want);
    detok_deinit(&d);
    buf_deinit(&all);
    buf_deinit(&part);
}

static void check_decode(const struct tokenizer *t, const json_t *entry)
{
    struct ids ids = ids_of(json_array_get(entry, 0));
    for (int skip = 0; skip < 2; skip++) {
        struct buf out;
        struct str want = text_of(json_array_get(entry, 1 + (size_t)skip));
        buf_init(&out, 1 << 24);
        assert_int_equal(tokenizer_decode(t, ids.v, ids.n, skip, &out, NULL), 0);
        expect_text("decoded", &out, want);
        check_stream(t, &ids, skip, want);
        buf_deinit(&out);
    }
    ids_deinit(&ids);
}

static void check_all(const struct tokenizer *t, const json_t *expected)
{
    const json_t *texts = json_object_get(expected, "texts"), *literal = json_object_get(expected, "literal");
    const json_t *ids = json_object_get(expected, "ids"), *plain = json_object_get(expected, "plain"), *entry;
    size_t        i;
    assert_true(json_array_size(texts) > 60);
    for (i = 0; i < json_array_size(texts); i++) {
        struct str text = text_of(json_array_get(texts, i));
        char       key[20];
        snprintf(key, sizeof key, "%zu", i);
        const json_t *as_text = json_object_get(literal, key);
        check_encode(t, text, TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL, json_array_get(ids, i));
        check_encode(t, text, TOKENIZE_PARSE_SPECIAL, json_array_get(plain, i));
        check_encode(t, text, 0, as_text ? as_text : json_array_get(plain, i));
    }
    json_array_foreach((json_t *)json_object_get(expected, "decode"), i, entry) check_decode(t, entry);
}

/* --- tests ------------------------------------------------------------------------------------------------------ */

static void published(const char *name)
{
    char   path[300], *dir = tmp_make();
    size_t n;
    current = name;
    snprintf(path, sizeof path, DATA "%s/tokenizer.json.xz", name);
    char *file = read_xz(path, &n);
    tmp_write(dir, "tokenizer.json", file, n);
    snprintf(path, sizeof path, DATA "%s/expected.json.xz", name);
    json_t           *expected = parse_xz(path);
    struct tokenizer *t = load(dir);
    check_all(t, expected);
    tokenizer_free(t);
    json_decref(expected);
    free(file);
    tmp_remove(dir);
}

static void test_smollm2(void **state)
{
    (void)state;
    published("smollm2");
}

static void test_qwen3(void **state)
{
    (void)state;
    published("qwen3");
}

static void test_deepseek_v3(void **state)
{
    (void)state;
    published("deepseek_v3");
}

static void test_gptoss(void **state)
{
    (void)state;
    published("gptoss");
}

static void test_gemma3(void **state)
{
    (void)state;
    published("gemma3");
}

static void test_llama2(void **state)
{
    (void)state;
    published("llama2");
}

/* The file of `base` with the components of a variant, loaded. */
static struct tokenizer *load_variant(const char *dir, const json_t *base, const json_t *variant)
{
    json_t     *made = json_copy((json_t *)base), *model = json_copy(json_object_get(base, "model")), *value;
    const char *key;
    json_object_foreach((json_t *)variant, key, value) if (strcmp(key, "model") != 0 && strcmp(key, "name") != 0 &&
                                                           strcmp(key, "base") != 0) json_object_set(made, key, value);
    if (json_object_get(variant, "model"))
        json_object_update(model, json_object_get(variant, "model"));
    json_object_set_new(made, "model", model);
    assert_int_equal(json_dump_file(made, tmp_path(dir, "tokenizer.json"), JSON_COMPACT), 0);
    json_decref(made);
    return load(dir);
}

static void test_variants(void **state)
{
    (void)state;
    char   *dir = tmp_make();
    json_t *smollm2 = parse_xz(DATA "smollm2/tokenizer.json.xz"), *llama2 = parse_xz(DATA "llama2/tokenizer.json.xz");
    json_t *expected = parse_xz(DATA "variants.expected.json.xz"),
           *variants = json_load_file(DATA "variants.json", 0, NULL);
    json_t *variant;
    size_t  i;
    assert_int_equal(json_array_size(variants), json_array_size(expected));
    json_array_foreach(variants, i, variant)
    {
        current = json_string_value(json_object_get(variant, "name"));
        struct tokenizer *t = load_variant(dir, json_object_get(variant, "base") ? llama2 : smollm2, variant);
        check_all(t, json_array_get(expected, i));
        tokenizer_free(t);
    }
    json_decref(variants);
    json_decref(expected);
    json_decref(smollm2);
    json_decref(llama2);
    tmp_remove(dir);
}

/* Small tokenizers of the kinds that the published ones lack (tools/make_tokenizer_kinds.py). */
static void test_kinds(void **state)
{
    (void)state;
    char         *dir = tmp_make();
    json_t       *kinds = parse_xz(DATA "kinds.json.xz");
    const json_t *kind;
    size_t        i;
    assert_true(json_array_size(kinds) > 10);
    json_array_foreach(kinds, i, kind)
    {
        current = json_string_value(json_object_get(kind, "name"));
        struct str file = text_of(json_object_get(kind, "tokenizer"));
        tmp_write(dir, "tokenizer.json", file.p, file.n);
        struct tokenizer *t = load(dir);
        check_all(t, json_object_get(kind, "expected"));
        tokenizer_free(t);
    }
    json_decref(kinds);
    tmp_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),  cmocka_unit_test(test_qwen3),  cmocka_unit_test(test_deepseek_v3),
        cmocka_unit_test(test_gptoss),   cmocka_unit_test(test_gemma3), cmocka_unit_test(test_llama2),
        cmocka_unit_test(test_variants), cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
