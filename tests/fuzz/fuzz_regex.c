/* Fuzzes the reading of regular expressions and their run over a text: the input is a pattern, a NUL and a text. */
#include <string.h>

#include "base/utf8.h"
#include "text/regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char      *p = (const char *)data, *cut = size ? memchr(p, '\0', size) : NULL;
    struct str       pattern = {p, cut ? (size_t)(cut - p) : size}, text = {"", 0};
    struct regex    *re;
    struct regex_run r;
    size_t           start, end, last = 0;
    bool             found = true;
    if (cut)
        text = (struct str){cut + 1, size - pattern.n - 1};
    text.n = utf8_valid_prefix(text.p, text.n);
    if (regex_new(&re, pattern, NULL))
        return 0;
    for (int jit = 1; jit >= 0; jit--) {
        if (!jit)
            regex_without_jit(re);
        regex_run_init(&r, text.n);
        int status = regex_begin(&r, re, text, NULL);
        for (last = 0; !status && (status = regex_next(&r, &found, &start, &end, NULL)) == 0 && found; last = end)
            if (start > end || end > text.n || end < last)
                __builtin_trap();
        regex_run_deinit(&r);
    }
    regex_free(re);
    return 0;
}
