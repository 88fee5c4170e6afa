/* Control tokens that people type into messages: the rendered text is the same, the ids are those of plain text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/clock.h"
#include "chat/template_plain.h"
#include "text/tokenizer_int.h"

/* Letters are ids 0 to 25, '<' 26, '>' 27, '|' 28, ' ' 29, '\n' 30; <|a|> is special, the others are not. */
static struct tokenizer *make_tokenizer(const char *more)
{
    char              json[3000], *p = json;
    struct tokenizer *t;
    struct error      e = {0};
    p += sprintf(p, "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (int i = 0; i < 26; i++)
        p += sprintf(p, "\"%c\":%d,", 'a' + i, i);
    sprintf(p,
            "\"<\":26,\">\":27,\"|\":28,\" \":29,\"\\n\":30}},%s\"added_tokens\":["
            "{\"id\":31,\"content\":\"<|a|>\",\"special\":true},{\"id\":32,\"content\":\"<b>\",\"normalized\":%s},"
            "{\"id\":33,\"content\":\"<c>\"},{\"id\":34,\"content\":\"\\n\\n\",\"special\":true}]}",
            more, *more ? "true" : "false");
    if (tokenizer_load_text(&t, str_of(json), "tokenizer.json", NULL, &e))
        fail_msg("%s", e.msg);
    return t;
}

struct fixture {
    struct tokenizer *tokenizer;
    struct chat_template *template;
    json_t            *request;
    struct buf         text;
    struct plain_spans plain;
    struct ids         ids;
    struct error       e;
};

static int run(struct fixture *f, const char *source, const char *content, const char *more)
{
    *f = (struct fixture){.tokenizer = make_tokenizer(more)};
    buf_init(&f->text, 100000);
    assert_int_equal(chat_template_from_source(&f->template, str_of(source), "test", &f->e), 0);
    f->request = json_pack("{s:[{s:s, s:s}]}", "messages", "role", "user", "content", content);
    int rc = chat_template_render_plain(f->template, f->tokenizer, f->request, 0, &f->text, &f->plain, &f->e);
    return rc ? rc
              : tokenizer_encode_plain(f->tokenizer, buf_str(&f->text), &f->plain, TOKENIZE_PARSE_SPECIAL, &f->ids,
                                       &f->e);
}

static void end(struct fixture *f)
{
    tokenizer_free(f->tokenizer);
    chat_template_free(f->template);
    json_decref(f->request);
    buf_deinit(&f->text);
    plain_spans_deinit(&f->plain);
    ids_deinit(&f->ids);
}

static void expect(const char *source, const char *content, const char *text, const int32_t *ids, size_t n)
{
    struct fixture f;
    if (run(&f, source, content, ""))
        fail_msg("%s", f.e.msg);
    assert_string_equal(buf_cstr(&f.text), text);
    for (size_t i = 0; i < n || i < f.ids.n; i++)
        if (i >= n || i >= f.ids.n || f.ids.v[i] != ids[i])
            fail_msg("%s: id %zu of %zu is %d", text, i, f.ids.n, i < f.ids.n ? f.ids.v[i] : -1);
    end(&f);
}

#define EXPECT(source, content, text, ...)                                                                             \
    expect(source, content, text, (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))
#define TURN "<|a|>x{{ messages[0].content|trim }}<b>"

static void test_plain(void **state)
{
    (void)state;
    EXPECT(TURN, "z", "<|a|>xz<b>", 31, 23, 25, 32);
    EXPECT(TURN, "<|a|>", "<|a|>x<|a|><b>", 31, 23, 26, 28, 0, 28, 27, 32);
    EXPECT(TURN, " <b><|a|> ", "<|a|>x<b><|a|><b>", 31, 23, 26, 1, 27, 26, 28, 0, 28, 27, 32);
    /* <c> is not special and not the template's; white space is not a control token */
    EXPECT(TURN, "<c>\n\nz", "<|a|>x<c>\n\nz<b>", 31, 23, 33, 34, 25, 32);
    EXPECT(TURN, "<|<|a|>a|>", "<|a|>x<|<|a|>a|><b>", 31, 23, 26, 28, 26, 28, 0, 28, 27, 0, 28, 27, 32);
    EXPECT("{{ '<' + messages[0].content + '>' }}", "|a|", "<|a|>", 31); /* pieced together by the template */
}

/* Templates that work with the marked text. */
static void test_worked_on(void **state)
{
    (void)state;
    EXPECT("{{ messages[0].content.replace('<|a|>', '') }}", "<|<|a|>a|>", "<|a|>", 26, 28, 0, 28, 27);
    EXPECT("{{ messages[0].content.split('<|a|>')|join }}<|a|>", "z<|a|>z", "zz<|a|>", 25, 25, 31);
    EXPECT("{{ messages[0].content|upper }}", "<|a|>", "<|A|>", 26, 28, 28, 27);
    EXPECT(
        "{{ messages|tojson(ensure_ascii=true)|length }}{{ messages[0].content|tojson(true)|replace('\"', '') }}<|a|>",
        "<|a|>", "50<|a|><|a|>", 26, 28, 0, 28, 27, 31);
    EXPECT("{{ messages[0].content[1:4] }}", "<|a|>", "<|a", 26, 28, 0);
    EXPECT("{{ messages[0].content[:1] }}|a|>", "<|a|>", "|a|>", 28, 0, 28, 27);
}

/* Noncharacters of the request are not taken for marks. */
static void test_marks(void **state)
{
    struct fixture f;
    char           all[200] = "", one[200] = "\xef\xb7\x90<|a|>\xef\xb7\x91\\ufdd2";
    (void)state;
    assert_int_equal(run(&f, "{{ messages[0].content }}", one, ""), 0);
    assert_string_equal(buf_cstr(&f.text), one);
    assert_int_equal(f.plain.n, 1);
    assert_int_equal(f.plain.v[0].start, 3);
    assert_int_equal(f.plain.v[0].end, 8);
    end(&f);
    for (int i = 0; i < 31; i++)
        sprintf(all + 3 * i, "\xef\xb7%c", 0x90 + i);
    assert_int_equal(run(&f, "{{ messages[0].content }}", all, ""), ERR_INVALID);
    assert_string_equal(f.e.param, "messages");
    end(&f);
}

/* Where normalization changes the text, tokens that are looked for in normalized text cannot be told apart. */
static void test_normalized(void **state)
{
    struct fixture f;
    (void)state;
    assert_int_equal(run(&f, TURN, "<b>", "\"normalizer\":{\"type\":\"Lowercase\"},"), 0);
    end(&f);
    assert_int_equal(run(&f, TURN, "Z<b>", "\"normalizer\":{\"type\":\"Lowercase\"},"), ERR_UNSUPPORTED);
    end(&f);
    assert_int_equal(run(&f, TURN, "Z", "\"normalizer\":{\"type\":\"Lowercase\"},"), 0);
    end(&f);
}

/* A long template is searched once for a token, however often people type it. */
static void test_many_tokens(void **state)
{
    struct fixture f;
    struct buf     source, content;
    double         start = clock_thread();
    (void)state;
    buf_init(&source, SIZE_MAX / 2);
    buf_init(&content, SIZE_MAX / 2);
    buf_puts(&source, "{{ messages[0].content }}{#");
    for (int i = 0; i < 100000; i++)
        buf_puts(&source, "< c > < c ");
    buf_puts(&source, "#}");
    for (int i = 0; i < 500000; i++)
        buf_puts(&content, "<c>");
    f = (struct fixture){.tokenizer = make_tokenizer("")};
    buf_init(&f.text, SIZE_MAX / 2);
    assert_int_equal(chat_template_from_source(&f.template, buf_str(&source), "test", &f.e), 0);
    f.request = json_pack("{s:[{s:s, s:s}]}", "messages", "role", "user", "content", buf_cstr(&content));
    assert_int_equal(chat_template_render_plain(f.template, f.tokenizer, f.request, 0, &f.text, &f.plain, &f.e), 0);
    assert_int_equal(f.text.n, content.n);
    assert_int_equal(f.plain.n, 0);
    assert_true(clock_thread() - start < 10);
    end(&f);
    buf_deinit(&source);
    buf_deinit(&content);
}

/* Tokens are found by their contents also where they are looked for in another spelling, and quickly. */
static void test_respelled_tokens(void **state)
{
    struct tokenizer *t;
    struct error      e = {0};
    struct buf        json, text;
    double            start = clock_thread();
    size_t            at = 0;
    int32_t           id = -1;
    (void)state;
    buf_init(&json, SIZE_MAX / 2);
    buf_init(&text, SIZE_MAX / 2);
    buf_puts(&json, "{\"normalizer\":{\"type\":\"Lowercase\"},\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{"
                    "\"z\":0}},\"added_tokens\":[{\"id\":1,\"content\":\"ZZ\",\"normalized\":false}");
    for (int i = 2; i < 8000; i++)
        buf_printf(&json, ",{\"id\":%d,\"content\":\"Z%d\",\"normalized\":true}", i, i);
    buf_puts(&json, "]}");
    for (int i = 0; i < 2000000; i++)
        buf_putc(&text, 'z');
    buf_puts(&text, "Z7777ZZ");
    if (tokenizer_load_text(&t, buf_str(&json), "tokenizer.json", NULL, &e))
        fail_msg("%s", e.msg);
    assert_true(tokenizer_next_added(t, buf_str(&text), &at, &id));
    assert_int_equal(at, 2000000);
    assert_int_equal(id, 7777);
    at += 5;
    assert_true(tokenizer_next_added(t, buf_str(&text), &at, &id));
    assert_int_equal(at, 2000005);
    assert_int_equal(id, 1);
    at += 2;
    assert_false(tokenizer_next_added(t, buf_str(&text), &at, &id));
    assert_true(clock_thread() - start < 10);
    tokenizer_free(t);
    buf_deinit(&json);
    buf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),      cmocka_unit_test(test_worked_on),   cmocka_unit_test(test_marks),
        cmocka_unit_test(test_normalized), cmocka_unit_test(test_many_tokens), cmocka_unit_test(test_respelled_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
