/* See glob.h. After a mismatch only the last '*' takes one character more: earlier ones need never be tried again. */
#include "base/glob.h"

#include <stddef.h>

bool glob_match(const char *pattern, const char *s)
{
    const char *star = NULL, *back = NULL;
    while (*s) {
        if (*pattern == '*') {
            star = ++pattern;
            back = s;
        } else if (*pattern == *s) {
            pattern++;
            s++;
        } else if (star) {
            pattern = star;
            s = ++back;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}
