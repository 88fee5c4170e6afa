/* See charset.h. */
#include "text/charset.h"

#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"
#include "text/unicode.h"

void charset_deinit(struct charset *s)
{
    free(s->v);
    *s = (struct charset){0};
}

void charset_add(struct charset *s, uint32_t lo, uint32_t hi)
{
    if (s->n && s->v[s->n - 1].hi + 1 == lo) {
        s->v[s->n - 1].hi = hi;
        return;
    }
    struct char_range *v = s->failed ? NULL : vec_room(s->v, s->n, &s->cap, sizeof *v);
    if (!v) {
        s->failed = true;
        return;
    }
    s->v = v;
    s->v[s->n++] = (struct char_range){lo, hi};
}

void charset_add_set(struct charset *s, const struct charset *from)
{
    for (size_t i = 0; i < from->n; i++)
        charset_add(s, from->v[i].lo, from->v[i].hi);
    s->failed |= from->failed;
}

void charset_add_class(struct charset *s, uint32_t categories, uint8_t flags)
{
    for (uint32_t c = 0, end; c < UNICODE_END; c = end) {
        end = unicode_run_end(c);
        if (unicode_is(c, categories) || (unicode_class(c) & flags))
            charset_add(s, c, end - 1);
    }
}

static int by_lo(const void *a, const void *b)
{
    const struct char_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

void charset_sort(struct charset *s)
{
    size_t n = 0;
    if (s->n)
        qsort(s->v, s->n, sizeof *s->v, by_lo);
    for (size_t i = 0; i < s->n; i++) {
        if (n && s->v[i].lo <= s->v[n - 1].hi + 1)
            s->v[n - 1].hi = MAX(s->v[n - 1].hi, s->v[i].hi);
        else
            s->v[n++] = s->v[i];
    }
    s->n = n;
}

void charset_negate(struct charset *s)
{
    struct charset out = {.failed = s->failed};
    uint32_t       from = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->v[i].lo > from)
            charset_add(&out, from, s->v[i].lo - 1);
        from = s->v[i].hi + 1;
    }
    if (from < UNICODE_END)
        charset_add(&out, from, UNICODE_END - 1);
    charset_deinit(s);
    *s = out;
}

void charset_intersect(struct charset *s, const struct charset *with)
{
    struct charset out = {.failed = s->failed || with->failed};
    for (size_t i = 0, j = 0; i < s->n && j < with->n;) {
        struct char_range a = s->v[i], b = with->v[j];
        uint32_t          lo = MAX(a.lo, b.lo), hi = MIN(a.hi, b.hi);
        if (lo <= hi)
            charset_add(&out, lo, hi);
        if (a.hi < b.hi)
            i++;
        else
            j++;
    }
    charset_deinit(s);
    *s = out;
}

bool char_ranges_have(const struct char_range *v, size_t n, uint32_t cp)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (v[mid].hi < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && v[lo].lo <= cp;
}

bool charset_has(const struct charset *s, uint32_t cp)
{
    return char_ranges_have(s->v, s->n, cp);
}
