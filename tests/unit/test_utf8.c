/* UTF-8: every scalar value both ways, every byte pair, and the maximal subparts of broken sequences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

static void every_character_goes_both_ways(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char     s[4];
        uint32_t back = 0xdead;
        if (c >= 0xd800 && c < 0xe000)
            continue;
        int n = utf8_encode(c, s);
        assert_int_equal(n, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
        assert_int_equal(utf8_decode(s, (size_t)n, &back), n);
        assert_int_equal(back, c);
        for (int cut = 0; cut < n; cut++) /* the beginning of a character is not a fault, but not a character either */
            assert_int_equal(utf8_decode(s, (size_t)cut, &back), 0);
    }
}

static void what_is_no_character_becomes_the_replacement(void **state)
{
    static const uint32_t bad[] = {0xd800, 0xdbff, 0xdc00, 0xdfff, 0x110000, 0xffffffff};
    char                  s[4];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(utf8_encode(bad[i], s), 3);
        assert_memory_equal(s, "\xef\xbf\xbd", 3);
    }
}

/* The examples of the Unicode standard, section 3.9, and the borders of its table 3-7. */
static void broken_sequences(void **state)
{
    static const struct {
        const char *bytes;
        int         n, result;
    } rows[] = {
        {"\x80", 1, -1},             /* a continuation alone */
        {"\xbf", 1, -1},             /* another */
        {"\xc0\xaf", 2, -1},         /* overlong */
        {"\xc1\xbf", 2, -1},         /* overlong */
        {"\xc2\x41", 2, -1},         /* not continued */
        {"\xc2\xc2", 2, -1},         /* begun twice */
        {"\xe0\x80\xaf", 3, -1},     /* overlong */
        {"\xe0\x9f\xbf", 3, -1},     /* overlong */
        {"\xe0\xa0\x41", 3, -2},     /* a good beginning of two bytes */
        {"\xed\xa0\x80", 3, -1},     /* a surrogate */
        {"\xed\xbf\xbf", 3, -1},     /* a surrogate */
        {"\xe1\x80\xe2", 3, -2},     /* the same before another beginning */
        {"\xf0\x80\x80\xaf", 4, -1}, /* overlong */
        {"\xf0\x8f\xbf\xbf", 4, -1}, /* overlong */
        {"\xf0\x91\x92\x41", 4, -3}, /* a good beginning of three bytes */
        {"\xf1\x80\x41", 3, -2},     /* of two */
        {"\xf4\x90\x80\x80", 4, -1}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", 4, -1}, /* never a first byte */
        {"\xff", 1, -1},             /* nor this */
        {"\xf4\x8f\xbf", 3, 0},      /* may still become U+10FFFF */
        {"\xe0\xa0", 2, 0},          /* may still become U+0800 */
    };
    uint32_t cp;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *copy = malloc((size_t)rows[i].n); /* so that a sanitizer sees a read beyond the end */
        memcpy(copy, rows[i].bytes, (size_t)rows[i].n);
        if (utf8_decode(copy, (size_t)rows[i].n, &cp) != rows[i].result)
            fail_msg("row %zu: %d, not %d", i, utf8_decode(copy, (size_t)rows[i].n, &cp), rows[i].result);
        free(copy);
    }
}

/* Of all 65,536 pairs, exactly those of table 3-7 are characters or beginnings. */
static void all_pairs(void **state)
{
    int two = 0, begun = 0;
    (void)state;
    for (int a = 0x80; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            char     s[2] = {(char)a, (char)b};
            uint32_t cp;
            int      n = utf8_decode(s, 2, &cp);
            two += n == 2;
            begun += n == 0;
            assert_true(n == 2 || n == 0 || n == -1);
        }
    assert_int_equal(two, 30 * 64);
    assert_int_equal(begun, 32 + 14 * 64 + 32 + 48 + 3 * 64 + 16);
}

static void valid_prefix(void **state)
{
    (void)state;
    assert_int_equal(utf8_valid_prefix("", 0), 0);
    assert_int_equal(utf8_valid_prefix("a\xc3\xa9\xf0\x9f\x98\x80", 7), 7);
    assert_int_equal(utf8_valid_prefix("a\xc3\xa9\xf0\x9f\x98", 6), 3);
    assert_int_equal(utf8_valid_prefix("ab\xff"
                                       "c",
                                       4),
                     2);
    assert_int_equal(utf8_valid_prefix("a\0b", 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_goes_both_ways),
        cmocka_unit_test(what_is_no_character_becomes_the_replacement),
        cmocka_unit_test(broken_sequences),
        cmocka_unit_test(all_pairs),
        cmocka_unit_test(valid_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
