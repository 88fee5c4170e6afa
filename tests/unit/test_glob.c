/* Patterns over names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/glob.h"
#include "base/num.h"

static void test_matches(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *s;
        bool        match;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"a", "", false},
        {"abc", "abc", true},
        {"abc", "abcd", false},
        {"abcd", "abc", false},
        {"*", "", true},
        {"*", "anything", true},
        {"a*", "abc", true},
        {"*c", "abc", true},
        {"*b*", "abc", true},
        {"*d*", "abc", false},
        {"a*c", "abcbc", true},
        {"a*bc", "abcbcx", false},
        {"**a**", "bab", true},
        {"*aab", "aaaab", true},
        {"a*b*c", "aXbYc", true},
        {"a*b*c", "aXcYb", false},
        {"*.q_proj", "layers.1.q_proj", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (glob_match(cases[i].pattern, cases[i].s) != cases[i].match)
            fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
