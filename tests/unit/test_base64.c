/* Base64 both ways: RFC 4648's examples, every length, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base64.h"
#include "base/num.h"

static void examples(void **state)
{
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xff\xfe\xfb", "//77"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct buf b, back;
        buf_init(&b, 100);
        buf_init(&back, 100);
        base64_encode(pairs[i][0], strlen(pairs[i][0]), &b);
        assert_string_equal(buf_cstr(&b), pairs[i][1]);
        assert_true(base64_decode(buf_str(&b), &back));
        assert_true(str_is(buf_str(&back), pairs[i][0]));
        buf_deinit(&b);
        buf_deinit(&back);
    }
}

static void every_byte(void **state)
{
    unsigned char bytes[256];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 167 + 13);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        struct buf b, back;
        buf_init(&b, 1000);
        buf_init(&back, 1000);
        base64_encode(bytes, n, &b);
        assert_true(base64_decode(buf_str(&b), &back));
        assert_int_equal(back.n, n);
        assert_memory_equal(buf_cstr(&back), bytes, n);
        buf_deinit(&b);
        buf_deinit(&back);
    }
}

static void refused(void **state)
{
    static const char *const bad[] = {"Z",    "Zg",    "Zg=",  "=",    "====",     "Z===",         "Zh==",
                                      "Zm9=", "Zm9v ", "Zm-v", "Z=g=", "Zg==Zg==", "Zm9v\n\n\n\n", "Zm\xc3\xa9"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct buf b;
        buf_init(&b, 100);
        buf_putc(&b, 'x');
        assert_false(base64_decode(str_of(bad[i]), &b));
        assert_int_equal(b.n, 1);
        buf_deinit(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(examples), cmocka_unit_test(every_byte),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
