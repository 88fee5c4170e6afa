/* The generated tables of letter case; contracts in casefold.h. */
#include "text/casefold.h"

#include "base/num.h"

/* The characters first, first + step, ... last: each equals the one `difference` further on. */
struct fold_run {
    uint32_t first, last, step;
    int32_t  difference;
};

#include "text/fold_table.inc"

static uint32_t folded(uint32_t cp)
{
    for (size_t i = 0; i < ARRAY_LEN(runs) && runs[i].first <= cp; i++)
        if (cp <= runs[i].last && (cp - runs[i].first) % runs[i].step == 0)
            return cp + (uint32_t)runs[i].difference;
    return cp;
}

void charset_fold(struct charset *s)
{
    charset_sort(s);
    size_t         n = s->n;
    struct charset all = {0};
    charset_add_set(&all, s);
    for (size_t i = 0; i < ARRAY_LEN(runs) && n; i++)
        for (uint32_t c = runs[i].first; c <= runs[i].last; c += runs[i].step)
            if (charset_has(s, c))
                charset_add(&all, c + (uint32_t)runs[i].difference, c + (uint32_t)runs[i].difference);
    charset_sort(&all);
    struct charset out = {0};
    charset_add_set(&out, &all);
    for (size_t i = 0; i < ARRAY_LEN(runs) && n; i++)
        for (uint32_t c = runs[i].first; c <= runs[i].last; c += runs[i].step)
            if (charset_has(&all, c + (uint32_t)runs[i].difference))
                charset_add(&out, c, c);
    out.failed |= s->failed || all.failed;
    charset_sort(&out);
    charset_deinit(&all);
    charset_deinit(s);
    *s = out;
}

void charset_fold_strings(struct charset *s)
{
    struct charset more = {0};
    charset_sort(s);
    for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
        bool any = false;
        for (int k = 0; k < FOLD_CHARS_MAX && strings[i].chars[k]; k++)
            any |= charset_has(s, strings[i].chars[k]);
        for (int k = 0; any && k < FOLD_CHARS_MAX && strings[i].chars[k]; k++)
            charset_add(&more, strings[i].chars[k], strings[i].chars[k]);
    }
    charset_add_set(s, &more);
    charset_deinit(&more);
    charset_sort(s);
}

const struct fold_string *fold_string(size_t i)
{
    return i < ARRAY_LEN(strings) ? &strings[i] : NULL;
}

const struct fold_string *fold_string_at(const uint32_t *cp, int n)
{
    const struct fold_string *best = NULL;
    for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
        const struct fold_string *s = &strings[i];
        bool                      same = s->n <= n && (!best || s->n > best->n);
        for (int k = 0; same && k < s->n; k++)
            same = s->text[k] == folded(cp[k]);
        if (same)
            best = s;
    }
    return best;
}

const struct fold_string *fold_string_of(uint32_t cp)
{
    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        for (int k = 0; k < FOLD_CHARS_MAX && strings[i].chars[k]; k++)
            if (strings[i].chars[k] == cp)
                return &strings[i];
    return NULL;
}
