/* The finder is a sorted array: the tokens that agree with the text so far are a range of it, which each further byte
 * narrows. Contracts in added.h. */
#include "text/added.h"

#include <stdlib.h>

#include "base/num.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "text/component_char.h"
#include "text/unicode.h"

void added_deinit(struct added *a)
{
    free(a->v);
    free(a->raw.sorted);
    free(a->normalized.sorted);
    free(a->contents.sorted);
    free(a->of_id);
    *a = (struct added){0};
}

bool added_put(struct added *a, const struct added_token *t)
{
    struct added_token *v = vec_room(a->v, a->n, &a->cap, sizeof *v);
    if (!v)
        return false;
    a->v = v;
    a->v[a->n++] = *t;
    return true;
}

/* Tokens with the same text keep their order: the first one counts. (Which one, the reference leaves to chance.) */
static int by_text(const void *x, const void *y)
{
    const struct added_entry *a = x, *b = y;
    int                       c = memcmp(a->text.p, b->text.p, MIN(a->text.n, b->text.n));
    if (c || a->text.n != b->text.n)
        return c ? c : a->text.n < b->text.n ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

/* Which tokens a finder has: by spelling those of one kind, or by content all. */
enum which { RAW, NORMALIZED, CONTENTS };

static bool index_finder(struct added_finder *f, const struct added *a, enum which which)
{
    f->sorted = malloc((a->n + 1) * sizeof *f->sorted);
    if (!f->sorted)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct added_token *t = &a->v[i];
        struct added_entry        entry = {which == CONTENTS ? t->content : t->spelling, t};
        bool                      wanted = which == CONTENTS || t->normalized == (which == NORMALIZED);
        if (wanted && t->id >= 0 && a->of_id[t->id] == (int32_t)i && entry.text.n)
            f->sorted[f->n++] = entry;
    }
    qsort(f->sorted, f->n, sizeof *f->sorted, by_text);
    for (size_t b = 0, i = 0; b <= 256; b++) {
        while (i < f->n && (unsigned char)f->sorted[i].text.p[0] < b)
            i++;
        f->first[b] = (uint32_t)i;
    }
    f->only = f->n ? (unsigned char)f->sorted[0].text.p[0] : -1;
    if (f->n && f->sorted[f->n - 1].text.p[0] != f->sorted[0].text.p[0])
        f->only = -1;
    return true;
}

/* The first place from `from` on where a token may begin. */
static size_t candidate(const struct added_finder *f, struct str text, size_t from)
{
    const unsigned char *p = (const unsigned char *)text.p;
    if (!f->n || from >= text.n)
        return text.n;
    if (f->only >= 0) {
        const char *hit = memchr(text.p + from, f->only, text.n - from);
        return hit ? (size_t)(hit - text.p) : text.n;
    }
    while (from < text.n && f->first[p[from]] == f->first[p[from] + 1])
        from++;
    return from;
}

bool added_index(struct added *a, size_t n_ids)
{
    a->of_id = malloc((n_ids + 1) * sizeof *a->of_id);
    if (!a->of_id)
        return false;
    a->n_ids = n_ids;
    for (size_t i = 0; i < n_ids; i++)
        a->of_id[i] = -1;
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].id >= 0)
            a->of_id[a->v[i].id] = (int32_t)i;
    return index_finder(&a->raw, a, RAW) && index_finder(&a->normalized, a, NORMALIZED) &&
           index_finder(&a->contents, a, CONTENTS);
}

void added_numbering_init(struct added_numbering *n, const struct vocab *vocab, size_t texts)
{
    *n = (struct added_numbering){.vocab = vocab, .texts = (int64_t)texts, .greatest = -1};
    added_next_list(n);
}

void added_next_list(struct added_numbering *n)
{
    n->next = MAX(n->greatest + 1, n->texts);
}

int32_t added_number(struct added_numbering *n, struct str content)
{
    int64_t id = vocab_find(n->vocab, content);
    if (id < 0)
        id = n->next++;
    n->greatest = MAX(n->greatest, id);
    return (int32_t)id;
}

/* The first of sorted[lo..hi) whose byte at `depth` is at least `byte`; all agree up to depth, none is shorter. */
static size_t lower_bound(const struct added_finder *f, size_t lo, size_t hi, size_t depth, unsigned byte)
{
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if ((unsigned char)f->sorted[mid].text.p[depth] < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const struct added_token *added_at(const struct added_finder *f, const char *p, size_t n)
{
    const struct added_token *best = NULL;
    unsigned                  b = (unsigned char)*p;
    size_t                    lo = f->first[b], hi = f->first[b + 1];
    for (size_t depth = 1; lo < hi; depth++) {
        /* Tokens that end here stand before those that go on; of equal ones the first counts. */
        if (f->sorted[lo].text.n == depth)
            best = f->sorted[lo].token;
        while (lo < hi && f->sorted[lo].text.n == depth)
            lo++;
        if (depth == n)
            break;
        b = (unsigned char)p[depth];
        lo = lower_bound(f, lo, hi, depth, b);
        hi = lower_bound(f, lo, hi, depth, b + 1);
    }
    return best;
}

const struct added_token *added_find(const struct added_finder *f, struct str text, size_t *at)
{
    for (; (*at = candidate(f, text, *at)) < text.n; ++*at) {
        const struct added_token *t = added_at(f, text.p + *at, text.n - *at);
        if (t)
            return t;
    }
    return NULL;
}

/* --- the walk --------------------------------------------------------------------------------------------------- */

/* Of the character at a place; false at the text's end. */
static bool is_space(struct str t, size_t at)
{
    uint32_t cp;
    return at < t.n && utf8_decode(t.p + at, t.n - at, &cp) > 0 && unicode_class(cp) & UNICODE_SPACE;
}

static bool is_word(struct str t, size_t at)
{
    uint32_t cp;
    return at < t.n && utf8_decode(t.p + at, t.n - at, &cp) > 0 && component_word(cp);
}

static size_t previous(struct str t, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)t.p[at] & 0xc0) == 0x80);
    return at;
}

/* Whether a match has a byte of a span, or reaches across an empty one. */
static bool is_plain(const struct plain_spans *s, size_t start, size_t end)
{
    size_t lo = 0, hi = s ? s->n : 0;
    while (lo < hi) { /* the first span that ends behind the match's start */
        size_t mid = (lo + hi) / 2;
        if (s->v[mid].end <= start)
            lo = mid + 1;
        else
            hi = mid;
    }
    return s && lo < s->n && s->v[lo].start < end;
}

static bool accepts(const struct added_walk *w, const struct added_token *t, size_t start, size_t end)
{
    if ((t->special && !w->parse_special) || is_plain(w->plain, w->offset + start, w->offset + end))
        return false;
    if (!t->single_word)
        return true;
    bool word_before = start > 0 && is_word(w->text, previous(w->text, start));
    return !word_before && !is_word(w->text, end);
}

/* Widens a match over the white space that the token swallows, to the left not beyond what was given out. A token that
 * widens to the left gives up what was given out already, which may leave nothing of it. */
static void widen(struct added_walk *w, const struct added_token *t, size_t *start, size_t *end)
{
    while (t->lstrip && *start > w->done && is_space(w->text, previous(w->text, *start)))
        *start = previous(w->text, *start);
    if (t->lstrip)
        *start = MAX(*start, w->done);
    if (!t->rstrip)
        return;
    *end = MAX(*end, w->space_end); /* where the last one swallowed up to, all is white space from here on too */
    while (is_space(w->text, *end)) {
        uint32_t cp;
        *end += (size_t)utf8_decode(w->text.p + *end, w->text.n - *end, &cp);
    }
    w->space_end = *end;
}

/* A refused match is skipped whole, and the search goes on at the end of the match itself even where its token swallows
 * more; both as in the reference. */
bool added_next(struct added_walk *w, struct str *gap, const struct added_token **token)
{
    *token = NULL;
    for (; (w->from = candidate(w->f, w->text, w->from)) < w->text.n; w->from++) {
        const struct added_token *t = added_at(w->f, w->text.p + w->from, w->text.n - w->from);
        if (!t)
            continue;
        size_t start = w->from, end = start + t->spelling.n;
        if (!accepts(w, t, start, end)) {
            w->from += t->spelling.n - 1;
            continue;
        }
        widen(w, t, &start, &end);
        if (start >= end) { /* swallowed whole by the token before, see widen */
            w->from += t->spelling.n - 1;
            continue;
        }
        if (start > w->done) {
            *gap = (struct str){w->text.p + w->done, start - w->done};
            w->done = start; /* the token is found again by the next call */
            return true;
        }
        w->from += t->spelling.n;
        w->start = start;
        w->done = end;
        *token = t;
        return true;
    }
    if (w->done >= w->text.n)
        return false;
    *gap = (struct str){w->text.p + w->done, w->text.n - w->done};
    w->done = w->text.n;
    return true;
}
