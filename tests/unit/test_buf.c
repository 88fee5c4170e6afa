/* Growable buffers: content, the maximum, sticky failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void content_is_terminated(void **state)
{
    struct buf b;
    (void)state;
    buf_init(&b, 1000);
    assert_string_equal(buf_cstr(&b), "");
    buf_puts(&b, "ab");
    buf_putc(&b, 'c');
    buf_put(&b, "\0d", 2);
    buf_printf(&b, "%d%s", 42, "!");
    assert_int_equal(b.n, 8);
    assert_memory_equal(b.p, "abc\0d42!", 9);
    assert_true(str_eq(buf_str(&b), STR("abc\0d42!")));
    buf_put(&b, NULL, 0);
    assert_int_equal(b.n, 8);
    buf_deinit(&b);
    assert_int_equal(b.n, 0);
    assert_null(b.p);
}

static void the_maximum_holds_exactly(void **state)
{
    (void)state;
    for (size_t max = 0; max < 200; max++) {
        struct buf b;
        buf_init(&b, max);
        for (size_t i = 0; i < max; i++)
            buf_putc(&b, 'x');
        assert_false(b.failed);
        assert_int_equal(b.n, max);
        buf_putc(&b, 'y');
        assert_true(b.failed && b.full);
        assert_int_equal(b.n, max);
        assert_int_equal(strlen(buf_cstr(&b)), max);
        buf_deinit(&b);
    }
}

static void failure_is_sticky_until_cleared(void **state)
{
    struct buf b;
    (void)state;
    buf_init(&b, 4);
    buf_puts(&b, "ab");
    buf_puts(&b, "cde"); /* does not fit: nothing of it is written */
    buf_puts(&b, "f");
    buf_printf(&b, "%d", 1);
    assert_true(b.failed && b.full);
    assert_string_equal(buf_cstr(&b), "ab");
    assert_false(buf_reserve(&b, 0));
    buf_clear(&b);
    assert_false(b.failed || b.full);
    assert_string_equal(buf_cstr(&b), "");
    buf_puts(&b, "wxyz");
    assert_false(b.failed);
    buf_printf(&b, "%s", "1");
    assert_true(b.full);
    buf_deinit(&b);
}

static void sizes_cannot_overflow(void **state)
{
    struct buf b;
    (void)state;
    buf_init(&b, SIZE_MAX);
    buf_puts(&b, "a");
    assert_false(buf_reserve(&b, SIZE_MAX));
    assert_true(b.failed && b.full);
    buf_clear(&b);
    buf_puts(&b, "a");
    assert_false(buf_reserve(&b, SIZE_MAX - 1));
    assert_true(b.failed);
    buf_deinit(&b);
}

static void grows_by_doubling(void **state)
{
    struct buf b;
    size_t     moves = 0, cap = 0;
    (void)state;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 1 << 20; i++) {
        buf_putc(&b, (char)i);
        moves += b.cap != cap;
        cap = b.cap;
    }
    assert_false(b.failed);
    assert_true(moves < 20);
    assert_true(cap <= (1 << 20) + 1);
    for (int i = 0; i < 1 << 20; i++)
        assert_true(b.p[i] == (char)i);
    buf_deinit(&b);
}

static void strings(void **state)
{
    (void)state;
    assert_true(str_eq(STR(""), (struct str){NULL, 0}));
    assert_true(str_is(STR("abc"), "abc"));
    assert_false(str_is(STR("abc"), "ab"));
    assert_false(str_is(STR("ab"), "abc"));
    assert_false(str_eq(STR("a\0b"), STR("a\0c")));
    assert_int_equal(STR("a\0b").n, 3);
    assert_int_equal(str_of("four").n, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_is_terminated),
        cmocka_unit_test(the_maximum_holds_exactly),
        cmocka_unit_test(failure_is_sticky_until_cleared),
        cmocka_unit_test(sizes_cannot_overflow),
        cmocka_unit_test(grows_by_doubling),
        cmocka_unit_test(strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
