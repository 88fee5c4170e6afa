/* Contracts in align.h. */
#include "text/align.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "base/vec.h"

void align_deinit(struct align *a)
{
    free(a->v);
    *a = (struct align){0};
}

bool align_push(struct align *a, struct align_span span, size_t count)
{
    while (count--) {
        struct align_span *v = vec_room(a->v, a->n, &a->cap, sizeof *v);
        if (!v)
            return false;
        a->v = v;
        a->v[a->n++] = span;
    }
    return true;
}

static size_t char_len(struct str s, size_t at)
{
    uint32_t cp;
    int      n = utf8_decode(s.p + at, s.n - at, &cp);
    return n > 0 ? (size_t)n : 1;
}

bool align_text(struct align *a, struct str text, size_t at)
{
    for (size_t i = 0, n; i < text.n; i += n) {
        n = char_len(text, i);
        if (!align_push(a, (struct align_span){(uint32_t)(at + i), (uint32_t)(at + i + n)}, n))
            return false;
    }
    return true;
}

bool align_block(struct align *a, struct str from, const struct align_span *old, struct str to)
{
    bool ok = true;
    if (!to.n)
        return true;
    if (utf8_count(from.p, from.n) != utf8_count(to.p, to.n))
        return align_push(a, (struct align_span){old[0].start, old[from.n - 1].end}, to.n);
    for (size_t i = 0, k = 0; k < to.n && ok; i += char_len(from, i)) {
        size_t n = char_len(to, k);
        ok = align_push(a, old[i], n);
        k += n;
    }
    return ok;
}
