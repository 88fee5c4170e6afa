/* Checkpoints without a tokenizer.json against their references (tools/make_source_reference.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "../support/tmp.h"
#include "base/base64.h"
#include "text/tokenizer_int.h"

static const char *current; /* for messages */

static json_t *read_fixture(void)
{
    json_error_t why;
    FILE        *f = popen("xz -dc tests/data/tokenizers/sources.json.xz", "r");
    assert_non_null(f);
    json_t *doc = json_loadf(f, JSON_ALLOW_NUL, &why);
    assert_int_equal(pclose(f), 0);
    if (!doc)
        fail_msg("%s", why.text);
    return doc;
}

static struct str text_of(const json_t *s)
{
    return (struct str){json_string_value(s), json_string_length(s)};
}

/* Writes the files of a case into a new directory. */
static void write_files(const char *dir, const json_t *files, const json_t *blobs)
{
    const char *name;
    json_t     *content;
    json_object_foreach((json_t *)files, name, content)
    {
        struct str s = text_of(content);
        struct buf bytes;
        buf_init(&bytes, 1 << 24);
        if (s.n && s.p[0] == '@') {
            assert_true(base64_decode(text_of(json_object_get(blobs, s.p + 1)), &bytes));
            s = buf_str(&bytes);
        }
        tmp_write(dir, name, s.p, s.n);
        buf_deinit(&bytes);
    }
}

static void check_ids(const struct tokenizer *t, struct str text, unsigned flags, const json_t *want)
{
    struct ids   got = {0};
    struct error e = {0};
    size_t       n = json_array_size(want);
    if (tokenizer_encode(t, text, flags, &got, &e))
        fail_msg("%s: '%.*s': %s", current, STR_ARG(text), e.msg);
    for (size_t i = 0; i < n || i < got.n; i++)
        if (i >= n || i >= got.n || got.v[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("%s: flags %u, text '%.*s': id %zu of %zu (%zu wanted) is %d, wanted %d", current, flags,
                     STR_ARG(text), i, got.n, n, i < got.n ? got.v[i] : -1,
                     (int)json_integer_value(json_array_get(want, i)));
    ids_deinit(&got);
}

static void check_text(const struct tokenizer *t, const json_t *entry)
{
    const json_t *list = json_array_get(entry, 0);
    struct ids    ids = {0};
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_true(ids_push(&ids, (int32_t)json_integer_value(json_array_get(list, i))));
    for (int skip = 0; skip < 2; skip++) {
        struct str want = text_of(json_array_get(entry, 1 + (size_t)skip));
        struct buf got;
        buf_init(&got, 1 << 20);
        assert_int_equal(tokenizer_decode(t, ids.v, ids.n, skip, &got, NULL), 0);
        if (!str_eq(buf_str(&got), want))
            fail_msg("%s: decoded '%s', wanted '%.*s'", current, buf_cstr(&got), STR_ARG(want));
        buf_deinit(&got);
    }
    ids_deinit(&ids);
}

static void check_case(const json_t *c, const json_t *texts, const json_t *blobs)
{
    char             *dir = tmp_make();
    struct tokenizer *t;
    struct error      e = {0};
    size_t            i;
    json_t           *text, *entry;
    current = json_string_value(json_object_get(c, "name"));
    write_files(dir, json_object_get(c, "files"), blobs);
    if (tokenizer_load(&t, dir, NULL, &e))
        fail_msg("%s: %s", current, e.msg);
    json_array_foreach((json_t *)texts, i, text)
    {
        check_ids(t, text_of(text), TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL,
                  json_array_get(json_object_get(c, "ids"), i));
        check_ids(t, text_of(text), TOKENIZE_PARSE_SPECIAL, json_array_get(json_object_get(c, "plain"), i));
    }
    json_array_foreach(json_object_get(c, "decode"), i, entry) check_text(t, entry);
    tokenizer_free(t);
    tmp_remove(dir);
}

static void references(void **state)
{
    json_t *doc = read_fixture(), *c;
    size_t  i;
    (void)state;
    json_array_foreach(json_object_get(doc, "cases"), i, c)
        check_case(c, json_object_get(doc, "texts"), json_object_get(doc, "blobs"));
    assert_true(i > 30);
    json_decref(doc);
}

/* How many ids the tokenizer of dir has. */
static int size_of(const char *dir)
{
    struct tokenizer *t;
    struct error      e = {0};
    if (tokenizer_load(&t, dir, NULL, &e))
        fail_msg("%s", e.msg);
    int n = tokenizer_size(t);
    tokenizer_free(t);
    return n;
}

static void put_blob(const char *dir, const char *name, const json_t *doc, const char *blob)
{
    struct buf bytes;
    buf_init(&bytes, 1 << 24);
    assert_true(base64_decode(text_of(json_object_get(json_object_get(doc, "blobs"), blob)), &bytes));
    tmp_write(dir, name, bytes.p, bytes.n);
    buf_deinit(&bytes);
}

/* Files are added from the last of the order to the first; each one takes over. */
static void order_of_files(void **state)
{
    static const struct {
        const char *name, *text;
    } files[] = {{"vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\n"},
                 {"vocab.json", "{\"a\":0,\"b\":1,\"ab\":2}"},
                 {"qwen.tiktoken", NULL},
                 {"tokenizer.model", NULL},
                 {"tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}"}};
    static const int  sizes[] = {6, 4, 900 + 208, 900, 1};
    json_t           *doc = read_fixture();
    char             *dir = tmp_make();
    struct error      e = {0};
    struct tokenizer *t;
    (void)state;
    assert_int_equal(tokenizer_load(&t, dir, NULL, &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.msg, "vocab.json with merges.txt"));
    tmp_puts(dir, "merges.txt", "#version: 0.2\na b\n");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (files[i].text)
            tmp_puts(dir, files[i].name, files[i].text);
        else
            put_blob(dir, files[i].name, doc, i == 2 ? "ranks" : "bpe_bytes");
        assert_int_equal(size_of(dir), sizes[i]);
    }
    tmp_remove(dir);
    json_decref(doc);
}

/* What the class defaults to is named although no file says it. */
static void named_tokens(void **state)
{
    json_t           *doc = read_fixture();
    char             *dir = tmp_make();
    struct tokenizer *t;
    (void)state;
    put_blob(dir, "tokenizer.model", doc, "bpe_bytes");
    tmp_puts(dir, "tokenizer_config.json", "{\"tokenizer_class\":\"LlamaTokenizer\",\"unk_token\":null}");
    assert_int_equal(tokenizer_load(&t, dir, NULL, NULL), 0);
    assert_true(str_is(t->special[NAMED_BOS], "<s>"));
    assert_null(t->special[NAMED_UNK].p);
    assert_int_equal(tokenizer_eos(t), 2);
    tokenizer_free(t);
    tmp_remove(dir);
    json_decref(doc);
}

static void keep_line(void *to, enum log_level level, const char *msg)
{
    (void)level;
    buf_printf(to, "%s\n", msg);
}

/* Loads the files [name, text, ...] and expects ids; no token may come to another id than a file says. */
static void expect_ids(const char *const *files, struct str text, const char *want)
{
    char             *dir = tmp_make(), got[200] = "", *p = got;
    struct tokenizer *t;
    struct ids        ids = {0};
    struct error      e = {0};
    struct buf        warnings;
    struct log        log = {keep_line, &warnings, LOG_WARNING};
    buf_init(&warnings, 10000);
    for (; *files; files += 2)
        tmp_puts(dir, files[0], files[1]);
    if (tokenizer_load(&t, dir, &log, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(tokenizer_encode(t, text, TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL, &ids, NULL), 0);
    for (size_t i = 0; i < ids.n; i++)
        p += sprintf(p, "%s%d", i ? " " : "", ids.v[i]);
    assert_string_equal(got, want);
    assert_string_equal(buf_cstr(&warnings), "");
    buf_deinit(&warnings);
    ids_deinit(&ids);
    tokenizer_free(t);
    tmp_remove(dir);
}

#define FILES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define BERT "{\"tokenizer_class\":\"BertTokenizer\",\"additional_special_tokens\":[\"<n>\"]}"
#define GPT2                                                                                                           \
    "{\"tokenizer_class\":\"GPT2Tokenizer\",\"additional_special_tokens\":[\"<n>\"],\"add_bos_token\":true,\"bos_"     \
    "token\":\"<b>\"}"

/* Vocabularies with gaps and with equal lines: the next id is the number of texts, and the token around a text has the
 * id that it has in a text. The ids are AutoTokenizer's. */
static void next_ids(void **state)
{
    (void)state;
    expect_ids(FILES("vocab.txt", "[UNK]\n[SEP]\n[PAD]\na\na\nb\n[MASK]\n", "tokenizer_config.json", BERT),
               STR("a b <n>"), "6 4 5 7 1");
    expect_ids(FILES("vocab.json", "{\"a\":0,\"b\":1,\"ab\":2,\"<|endoftext|>\":9}", "merges.txt", "a b\n",
                     "tokenizer_config.json", GPT2),
               STR("ab<n><b>"), "4 2 5 4");
}

/* White space at a line's end is Unicode's; a NUL or a control character is none. */
static void line_ends(void **state)
{
    char             *dir = tmp_make();
    struct tokenizer *t;
    struct error      e = {0};
    struct str file = STR("[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\t \r\nb\xc2\xa0\nc\0\nd\x1c\ne\xe3\x80\x80\f\n\n");
    (void)state;
    tmp_write(dir, "vocab.txt", file.p, file.n);
    if (tokenizer_load(&t, dir, NULL, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(tokenizer_find(t, STR("a")), 5);
    assert_int_equal(tokenizer_find(t, STR("b")), 6);
    assert_int_equal(tokenizer_find(t, STR("c\0")), 7);
    assert_int_equal(tokenizer_find(t, STR("d\x1c")), 8);
    assert_int_equal(tokenizer_find(t, STR("e")), 9);
    assert_int_equal(tokenizer_find(t, STR("")), 10);
    tokenizer_free(t);
    tmp_remove(dir);
}

/* A megabyte of one letter and of words without a space, one piece for a model without a pre-tokenizer. */
static void long_texts(void **state)
{
    static char       text[1 << 20];
    json_t           *doc = read_fixture();
    char             *dir = tmp_make();
    struct tokenizer *t;
    struct ids        ids = {0};
    (void)state;
    put_blob(dir, "tokenizer.model", doc, "bpe_bytes");
    assert_int_equal(tokenizer_load(&t, dir, NULL, NULL), 0);
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = kind ? "thecatinthe"[i % 11] : 'e';
        ids.n = 0;
        assert_int_equal(tokenizer_encode(t, (struct str){text, sizeof text}, 0, &ids, NULL), 0);
        assert_true(ids.n > 1000);
    }
    ids_deinit(&ids);
    tokenizer_free(t);
    tmp_remove(dir);
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(references),   cmocka_unit_test(order_of_files),
                                       cmocka_unit_test(named_tokens), cmocka_unit_test(next_ids),
                                       cmocka_unit_test(line_ends),    cmocka_unit_test(long_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
