/* GGUF files made by hand: what is read, and what is refused with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../support/tmp.h"
#include "base/buf.h"
#include "formats/gguf.h"

/* --- a little builder --------------------------------------------------------------------------------------------- */

static void number(struct buf *b, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        buf_putc(b, (char)(v >> 8 * i));
}

static void text(struct buf *b, const char *z)
{
    number(b, strlen(z), 8);
    buf_puts(b, z);
}

static void head(struct buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_values)
{
    buf_init(b, 1 << 20);
    buf_puts(b, "GGUF");
    number(b, version, 4);
    number(b, n_tensors, 8);
    number(b, n_values, 8);
}

static void key(struct buf *b, const char *k, enum gguf_type t)
{
    text(b, k);
    number(b, t, 4);
}

static void tensor(struct buf *b, const char *name, uint32_t n_dim, uint64_t d0, uint64_t d1, uint32_t type,
                   uint64_t offset)
{
    text(b, name);
    number(b, n_dim, 4);
    if (n_dim > 0)
        number(b, d0, 8);
    for (uint32_t i = 1; i < n_dim && i < 8; i++)
        number(b, d1, 8);
    number(b, type, 4);
    number(b, offset, 8);
}

static void data(struct buf *b, size_t align, size_t n)
{
    while (b->n % align)
        buf_putc(b, 0);
    for (size_t i = 0; i < n; i++)
        buf_putc(b, (char)i);
}

static struct gguf *open_good(struct buf *b)
{
    struct gguf *g = NULL;
    struct error e = {0};
    if (gguf_parse(&g, b->p, b->n, "f.gguf", &e))
        fail_msg("%s", e.msg);
    return g;
}

static void check_refused(struct buf *b, int code, const char *words)
{
    struct gguf *g;
    struct error e = {0};
    /* An exact copy, so that the sanitizer sees a read beyond the end. */
    char *copy = malloc(b->n + !b->n);
    memcpy(copy, buf_cstr(b), b->n);
    int got = gguf_parse(&g, copy, b->n, "f.gguf", &e);
    free(copy);
    buf_deinit(b);
    if (got != code || !strstr(e.msg, words))
        fail_msg("%d '%s' lacks %d '%s'", got, e.msg, code, words);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void reads_values(void **state)
{
    (void)state;
    struct buf b;
    head(&b, 3, 0, 9);
    key(&b, "u8", GGUF_U8), number(&b, 200, 1);
    key(&b, "i8", GGUF_I8), number(&b, 0xff, 1);
    key(&b, "f32", GGUF_F32), number(&b, 0x3fc00000, 4);
    key(&b, "f64", GGUF_F64), number(&b, 0xc000000000000000, 8);
    key(&b, "yes", GGUF_BOOL), number(&b, 1, 1);
    key(&b, "str", GGUF_STR), text(&b, "h\xff");
    key(&b, "u64", GGUF_U64), number(&b, UINT64_MAX, 8);
    key(&b, "ints", GGUF_ARRAY), number(&b, GGUF_I16, 4), number(&b, 2, 8), number(&b, 0xfffe, 2), number(&b, 7, 2);
    key(&b, "strs", GGUF_ARRAY), number(&b, GGUF_STR, 4), number(&b, 3, 8), text(&b, "a"), text(&b, ""), text(&b, "bc");
    struct gguf      *g = open_good(&b);
    struct gguf_array a;
    struct error      e;
    struct str        s;
    int64_t           i;
    double            d;
    bool              y;
    assert_int_equal(gguf_value_count(g), 9);
    assert_string_equal(gguf_key_at(g, 0), "f32");
    assert_string_equal(gguf_name(g), "f.gguf");
    assert_true(gguf_has(g, "u8") && !gguf_has(g, "u9"));
    assert_int_equal(gguf_get_int(g, "u8", 0, 255, &i, NULL), 0);
    assert_int_equal(i, 200);
    assert_int_equal(gguf_get_int(g, "i8", -1, 0, &i, NULL), 0);
    assert_int_equal(i, -1);
    assert_int_equal(gguf_get_num(g, "f32", &d, NULL), 0);
    assert_true(d == 1.5);
    assert_int_equal(gguf_get_num(g, "f64", &d, NULL), 0);
    assert_true(d == -2);
    assert_int_equal(gguf_get_num(g, "i8", &d, NULL), 0);
    assert_true(d == -1);
    assert_int_equal(gguf_get_bool(g, "yes", &y, NULL), 0);
    assert_true(y);
    assert_int_equal(gguf_get_str(g, "str", &s, NULL), 0);
    assert_true(str_is(s, "h\xff"));
    assert_int_equal(gguf_get_array(g, "ints", GGUF_KIND_INT, &a, NULL), 0);
    assert_int_equal(a.left, 2);
    assert_int_equal(gguf_next_int(&a), -2);
    assert_true(gguf_next_num(&a) == 7);
    assert_int_equal(gguf_next_int(&a), 0);
    assert_int_equal(gguf_get_array(g, "strs", GGUF_KIND_STR, &a, NULL), 0);
    assert_true(str_is(gguf_next_str(&a), "a"));
    assert_true(str_is(gguf_next_str(&a), ""));
    assert_true(str_is(gguf_next_str(&a), "bc"));
    assert_int_equal(gguf_next_str(&a).n, 0);
    assert_int_equal(gguf_get_int(g, "gone", 0, 1, &i, &e), ERR_NOT_FOUND);
    assert_string_equal(e.msg, "f.gguf: the value 'gone' is missing, a whole number is needed");
    assert_int_equal(gguf_get_int(g, "u64", 0, 9, &i, &e), ERR_FORMAT);
    assert_non_null(strstr(e.msg, "is 9223372036854775807, 0 to 9 are allowed"));
    assert_int_equal(gguf_get_int(g, "f32", 0, 9, &i, &e), ERR_FORMAT);
    assert_string_equal(e.msg, "f.gguf: the value 'f32' has the type f32, a whole number is needed");
    assert_int_equal(gguf_get_str(g, "ints", &s, &e), ERR_FORMAT);
    assert_string_equal(e.msg, "f.gguf: the value 'ints' has the type array of i16, a string is needed");
    assert_int_equal(gguf_get_array(g, "str", GGUF_KIND_STR, &a, &e), ERR_FORMAT);
    gguf_close(g);
    buf_deinit(&b);
}

static void reads_tensors(void **state)
{
    (void)state;
    struct buf b;
    head(&b, 2, 3, 1);
    key(&b, "general.alignment", GGUF_U32), number(&b, 8, 4);
    tensor(&b, "q", 2, 64, 3, GGML_Q4_1, 8);
    tensor(&b, "f", 1, 2, 0, GGML_F32, 0);
    tensor(&b, "odd", 1, 5, 0, 99, 128);
    data(&b, 8, 8 + 120 + 8);
    struct gguf              *g = open_good(&b);
    const struct gguf_tensor *q = gguf_tensor_find(g, "q"), *odd = gguf_tensor_find(g, "odd");
    char                      name[24];
    assert_int_equal(gguf_tensor_count(g), 3);
    assert_string_equal(gguf_tensor_at(g, 0)->name, "f");
    assert_int_equal(q->shape[0], 3);
    assert_int_equal(q->shape[1], 64);
    assert_int_equal(q->size, 3 * 2 * 20);
    assert_int_equal(*(const char *)q->data, 8);
    assert_null(odd->data);
    assert_string_equal(ggml_type_name(odd->type, name), "type 99");
    assert_string_equal(ggml_type_name(q->type, name), "Q4_1");
    assert_null(gguf_tensor_find(g, "z"));
    gguf_close(g);
    buf_deinit(&b);
    /* Without data the padding before it may be missing. */
    head(&b, 3, 1, 1);
    key(&b, "general.alignment", GGUF_U32), number(&b, 1 << 20, 4);
    tensor(&b, "none", 1, 0, 0, GGML_F32, 0);
    g = open_good(&b);
    assert_ptr_equal(gguf_tensor_at(g, 0)->data, b.p + b.n);
    gguf_close(g);
    buf_deinit(&b);
}

static void refuses_header(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 99);
    check_refused(&b, ERR_FORMAT, "does not begin with 'GGUF'");
    buf_puts(&b, "GGUX0000000000000000000000");
    check_refused(&b, ERR_FORMAT, "does not begin with 'GGUF'");
    buf_puts(&b, "GGUF");
    check_refused(&b, ERR_FORMAT, "ends inside the header");
    head(&b, 1, 0, 0);
    check_refused(&b, ERR_UNSUPPORTED, "GGUF version 1 is not supported");
    head(&b, 0x03000000, 0, 0);
    check_refused(&b, ERR_UNSUPPORTED, "big-endian");
    head(&b, 3, UINT64_MAX, 0);
    check_refused(&b, ERR_FORMAT, "claims 18446744073709551615 tensors");
    head(&b, 3, 0, 1000);
    check_refused(&b, ERR_FORMAT, "claims 1000 values");
}

static void refuses_values(void **state)
{
    (void)state;
    struct buf b;
    head(&b, 3, 0, 1), number(&b, 1 << 30, 8), buf_puts(&b, "abcdefgh");
    check_refused(&b, ERR_FORMAT, "ends inside a key");
    head(&b, 3, 0, 1), key(&b, "k", (enum gguf_type)77), number(&b, 0, 8);
    check_refused(&b, ERR_FORMAT, "'k' has the type 77");
    head(&b, 3, 0, 1), key(&b, "k", GGUF_ARRAY), number(&b, GGUF_ARRAY, 4), number(&b, 1, 8);
    check_refused(&b, ERR_FORMAT, "element type 9");
    head(&b, 3, 0, 1), key(&b, "k", GGUF_ARRAY), number(&b, GGUF_U64, 4), number(&b, UINT64_MAX / 4, 8);
    check_refused(&b, ERR_FORMAT, "ends inside the value 'k'");
    head(&b, 3, 0, 1), key(&b, "k", GGUF_ARRAY), number(&b, GGUF_STR, 4), number(&b, UINT64_MAX, 8), text(&b, "a");
    check_refused(&b, ERR_FORMAT, "ends inside the value 'k'");
    head(&b, 3, 0, 1), key(&b, "k", GGUF_STR), number(&b, UINT64_MAX, 8);
    check_refused(&b, ERR_FORMAT, "ends inside the value 'k'");
    head(&b, 3, 0, 1), key(&b, "k", GGUF_U32);
    check_refused(&b, ERR_FORMAT, "ends inside");
    head(&b, 3, 0, 2), key(&b, "k", GGUF_U8), number(&b, 1, 1), key(&b, "k", GGUF_U8), number(&b, 1, 1);
    check_refused(&b, ERR_FORMAT, "the key 'k' occurs twice");
    head(&b, 3, 0, 1), number(&b, 2, 8), buf_put(&b, "a\0", 2), number(&b, GGUF_U8, 4), number(&b, 0, 8);
    check_refused(&b, ERR_FORMAT, "holds a NUL");
    head(&b, 3, 0, 1), number(&b, 2000, 8), data(&b, 1, 3000);
    check_refused(&b, ERR_FORMAT, "a key of 2000 bytes");
    head(&b, 3, 0, 1), key(&b, "general.alignment", GGUF_U32), number(&b, 24, 4);
    check_refused(&b, ERR_FORMAT, "a power of two is needed");
    head(&b, 3, 0, 1), key(&b, "general.alignment", GGUF_U32), number(&b, 0, 4);
    check_refused(&b, ERR_FORMAT, "general.alignment' is 0");
    head(&b, 3, 0, 1), key(&b, "general.alignment", GGUF_STR), text(&b, "x");
    check_refused(&b, ERR_FORMAT, "has the type string");
}

/* One tensor description of these facts and n bytes of data. */
static void one(struct buf *b, uint32_t n_dim, uint64_t d0, uint64_t d1, uint32_t type, uint64_t offset, size_t n)
{
    head(b, 3, 1, 0);
    tensor(b, "t", n_dim, d0, d1, type, offset);
    data(b, 32, n);
}

static void refuses_tensors(void **state)
{
    (void)state;
    struct buf b;
    one(&b, 0, 0, 0, GGML_F32, 0, 4);
    check_refused(&b, ERR_FORMAT, "has 0 dimensions");
    one(&b, 5, 1, 1, GGML_F32, 0, 4);
    check_refused(&b, ERR_FORMAT, "has 5 dimensions");
    one(&b, 1, 33, 0, GGML_Q8_0, 0, 68);
    check_refused(&b, ERR_FORMAT, "rows of 33 elements, not a multiple of 32");
    one(&b, 2, UINT64_C(1) << 40, UINT64_C(1) << 40, GGML_F32, 0, 4);
    check_refused(&b, ERR_FORMAT, "size of tensor 't' overflows");
    one(&b, 1, UINT64_MAX, 0, GGML_F32, 0, 4);
    check_refused(&b, ERR_FORMAT, "size of tensor 't' overflows");
    one(&b, 1, INT64_MAX, 0, GGML_F32, 0, 4);
    check_refused(&b, ERR_FORMAT, "size of tensor 't' overflows");
    one(&b, 1, 2, 0, GGML_F32, 0, 4);
    check_refused(&b, ERR_FORMAT, "(F32) takes 8 bytes at offset 0, but the data has only 4");
    one(&b, 1, 1, 0, GGML_F32, 16, 64);
    check_refused(&b, ERR_FORMAT, "at offset 16, not a multiple of 32");
    one(&b, 1, 1, 0, GGML_F32, UINT64_MAX - 31, 64);
    check_refused(&b, ERR_FORMAT, "cut short");
    one(&b, 1, 1, 0, 99, 4096, 64);
    check_refused(&b, ERR_FORMAT, "(type 99)");
    head(&b, 3, 2, 0), tensor(&b, "a", 1, 16, 0, GGML_F32, 0), tensor(&b, "b", 1, 1, 0, GGML_F32, 32), data(&b, 32, 64);
    check_refused(&b, ERR_FORMAT, "tensor 'b' at offset 32 overlaps");
    head(&b, 3, 2, 0), tensor(&b, "a", 1, 1, 0, GGML_F32, 0), tensor(&b, "a", 1, 1, 0, GGML_F32, 32), data(&b, 32, 64);
    check_refused(&b, ERR_FORMAT, "tensor 'a' is described twice");
    head(&b, 3, 1, 0), tensor(&b, "t", 1, 1, 0, GGML_F32, 0);
    check_refused(&b, ERR_FORMAT, "cut short");
}

/* A good file cut at any place is refused or, within the last padding, good; never read beyond its end. */
static void every_cut(void **state)
{
    (void)state;
    struct buf b;
    head(&b, 3, 1, 2);
    key(&b, "strs", GGUF_ARRAY), number(&b, GGUF_STR, 4), number(&b, 2, 8), text(&b, "a"), text(&b, "bc");
    key(&b, "x", GGUF_F64), number(&b, 0, 8);
    tensor(&b, "t", 2, 32, 2, GGML_Q4_0, 0);
    data(&b, 32, 36);
    for (size_t n = 0; n < b.n; n++) {
        struct buf cut;
        buf_init(&cut, 1 << 20);
        buf_put(&cut, b.p, n);
        check_refused(&cut, ERR_FORMAT, "");
    }
    gguf_close(open_good(&b));
    buf_deinit(&b);
}

static void files(void **state)
{
    (void)state;
    char        *dir = tmp_make();
    struct gguf *g;
    struct error e;
    struct buf   b;
    assert_int_equal(gguf_open(&g, tmp_path(dir, "f.gguf"), &e), ERR_NOT_FOUND);
    one(&b, 1, 1, 0, GGML_F32, 0, 4);
    tmp_write(dir, "f.gguf", b.p, b.n);
    buf_deinit(&b);
    assert_int_equal(gguf_open(&g, tmp_path(dir, "f.gguf"), &e), 0);
    assert_int_equal(gguf_tensor_at(g, 0)->size, 4);
    gguf_close(g);
    gguf_close(NULL);
    tmp_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_values),   cmocka_unit_test(reads_tensors),   cmocka_unit_test(refuses_header),
        cmocka_unit_test(refuses_values), cmocka_unit_test(refuses_tensors), cmocka_unit_test(every_cut),
        cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
