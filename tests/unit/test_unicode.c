/* The Unicode table against itself and against characters whose class is known; sets of characters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "text/casefold.h"
#include "text/unicode.h"

static void test_classes(void **state)
{
    (void)state;
    static const struct {
        uint32_t              cp;
        enum unicode_category category;
        uint8_t               flags;
    } known[] = {
        {'A', UNICODE_LU, UNICODE_WORD},
        {'z', UNICODE_LL, UNICODE_WORD},
        {'5', UNICODE_ND, UNICODE_WORD},
        {'_', UNICODE_PC, UNICODE_WORD},
        {' ', UNICODE_ZS, UNICODE_SPACE},
        {'\n', UNICODE_CC, UNICODE_SPACE},
        {0x85, UNICODE_CC, UNICODE_SPACE},
        {0xb2, UNICODE_NO, UNICODE_WORD},
        {0x1c5, UNICODE_LT, UNICODE_WORD},
        {0x2b0, UNICODE_LM, UNICODE_WORD},
        {0x301, UNICODE_MN, UNICODE_WORD | UNICODE_NFC_UNSAFE},
        {0x344, UNICODE_MN, UNICODE_WORD | UNICODE_NFC_UNSAFE},
        {0x212b, UNICODE_LU, UNICODE_WORD | UNICODE_NFC_UNSAFE},
        {0x2160, UNICODE_NL, UNICODE_WORD},
        {0x200b, UNICODE_CF, 0},
        {0x3000, UNICODE_ZS, UNICODE_SPACE},
        {0x4e00, UNICODE_LO, UNICODE_WORD},
        {0x1c89, UNICODE_LU, UNICODE_WORD},  /* of Unicode 16 */
        {0x2ebf0, UNICODE_LO, UNICODE_WORD}, /* of 15.1 */
        {0xd800, UNICODE_CS, 0},
        {0xe000, UNICODE_CO, 0},
        {0x10ffff, UNICODE_CN, 0},
        {0x110000, UNICODE_CN, 0},
        {UINT32_MAX, UNICODE_CN, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(unicode_class(known[i].cp), known[i].category | known[i].flags);
}

static void test_runs(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (uint32_t c = 0, end; c < UNICODE_END; c = end, n++) {
        end = unicode_run_end(c);
        assert_true(end > c && end <= UNICODE_END);
        for (uint32_t k = c; k < end; k++)
            assert_int_equal(unicode_class(k), unicode_class(c));
        if (end < UNICODE_END)
            assert_int_not_equal(unicode_class(end), unicode_class(c));
    }
    assert_true(n > 3000);
}

static bool has(const struct charset *s, uint32_t cp)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].lo <= cp && cp <= s->v[i].hi)
            return true;
    return false;
}

static void test_sets(void **state)
{
    (void)state;
    struct charset a = {0}, b = {0};
    charset_add(&a, 'k', 'm');
    charset_add(&a, 'a', 'c');
    charset_add(&a, 'b', 'e');
    charset_add(&a, 'f', 'f');
    charset_sort(&a);
    assert_int_equal(a.n, 2); /* a-f, k-m */
    assert_true(has(&a, 'f') && !has(&a, 'g'));
    charset_add(&b, 'e', 'k');
    charset_intersect(&b, &a);
    assert_true(has(&b, 'e') && has(&b, 'f') && !has(&b, 'g') && has(&b, 'k') && !has(&b, 'l'));
    charset_fold(&b);
    assert_true(has(&b, 'E') && has(&b, 'K') && has(&b, 0x212a) && !has(&b, 'L'));
    charset_negate(&b);
    assert_true(!has(&b, 'E') && has(&b, 0) && has(&b, 0x10ffff) && has(&b, 'g'));
    charset_negate(&b);
    assert_true(has(&b, 'E') && !has(&b, 0));
    charset_deinit(&b);
    charset_add_class(&b, UNICODE_N, UNICODE_SPACE);
    assert_true(has(&b, '7') && has(&b, ' ') && !has(&b, 'a'));
    assert_false(a.failed || b.failed);
    charset_deinit(&a);
    charset_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_classes), cmocka_unit_test(test_runs),
                                       cmocka_unit_test(test_sets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
