/* Which bytes of the input each token stands for.
 *
 * What a normalizer's step did to the text is found out by doing it again to one combining sequence after the other;
 * where that gives something else (it put something before, cut the ends, or replaced across characters) the common
 * beginning and end are paired and the rest stands for the rest. Where the tokens of a piece lie in it, their texts tell.
 * Contracts in trace.h and tokenizer.h. */
#include "text/trace.h"

#include <stdlib.h>

#include "base/num.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "text/bytelevel.h"
#include "text/hex_token.h"
#include "text/unicode.h"

#define ALIASES_TRIED ((size_t)64) /* texts of one id; bounds the time */

void tracer_init(struct tracer *r, const struct tokenizer *t, size_t n, struct token_pieces *out)
{
    *r = (struct tracer){.t = t, .out = out};
    regex_run_init(&r->find.regex, n);
    regex_run_init(&r->small_find.regex, n);
    /* Here each step of the normalizer is a run. */
    size_t total = n * MAX(t->normalizer.n, (size_t)1);
    normalizer_scratch_init(&r->scratch, total);
    normalizer_scratch_init(&r->small, total);
    buf_init(&r->now, SIZE_MAX - 1);
}

void tracer_deinit(struct tracer *r)
{
    align_deinit(&r->normal);
    align_deinit(&r->piece);
    normalizer_scratch_deinit(&r->scratch);
    normalizer_scratch_deinit(&r->small);
    regex_run_deinit(&r->find.regex);
    regex_run_deinit(&r->small_find.regex);
    buf_deinit(&r->now);
}

void token_pieces_deinit(struct token_pieces *p)
{
    free(p->v);
    *p = (struct token_pieces){0};
}

static int put(struct tracer *r, int32_t id, size_t start, size_t end, struct error *e)
{
    struct token_piece *v = vec_room(r->out->v, r->out->n, &r->out->cap, sizeof *v);
    if (!v)
        return error_nomem(e, "token ids");
    r->out->v = v;
    r->out->v[r->out->n++] = (struct token_piece){id, start, end};
    return 0;
}

int trace_raw(struct tracer *r, int32_t id, size_t start, size_t end, struct error *e)
{
    return put(r, id, start, end, e);
}

/* Bytes [start, end) of a text with alignment v are a token. */
static int put_aligned(struct tracer *r, int32_t id, const struct align_span *v, size_t start, size_t end,
                       struct error *e)
{
    return put(r, id, v[start].start, end > start ? v[end - 1].end : v[start].start, e);
}

int trace_added(struct tracer *r, int32_t id, size_t start, size_t end, struct error *e)
{
    return put_aligned(r, id, r->normal.v, start, end, e);
}

/* --- normalizing ------------------------------------------------------------------------------------------------ */

/* Whether a character belongs to the one before: a mark, a vowel or final consonant of a Hangul syllable. */
static bool joins(uint32_t cp)
{
    return unicode_is(cp, UNICODE_M) || (cp >= 0x1160 && cp <= 0x11ff) || (cp >= 0xd7b0 && cp <= 0xd7fb);
}

static size_t sequence_len(struct str s)
{
    uint32_t cp;
    size_t   n = 0;
    do
        n += (size_t)utf8_decode(s.p + n, s.n - n, &cp);
    while (n < s.n && utf8_decode(s.p + n, s.n - n, &cp) > 0 && joins(cp));
    return n;
}

/* The length of what two texts have in common at their beginnings (or ends), in whole characters of both. */
static size_t common(struct str a, struct str b, bool ends)
{
    size_t n = 0, most = MIN(a.n, b.n);
    while (n < most && (ends ? a.p[a.n - 1 - n] == b.p[b.n - 1 - n] : a.p[n] == b.p[n]))
        n++;
    while (n &&
           (ends ? ((unsigned char)a.p[a.n - n] & 0xc0) == 0x80 : n < most && ((unsigned char)a.p[n] & 0xc0) == 0x80))
        n--;
    return n;
}

/* Pairs what two texts have in common at their ends; what is between stands for what is between. */
static bool by_ends(const struct align_span *old, struct str from, struct str to, struct align *a)
{
    const char *hit = to.n ? memmem(from.p, from.n, to.p, to.n) : NULL;
    if (hit || !to.n)
        return !to.n || align_block(a, to, old + (hit - from.p), to);
    size_t     head = common(from, to, false);
    size_t     tail = common((struct str){from.p + head, from.n - head}, (struct str){to.p + head, to.n - head}, true);
    struct str mid_from = {from.p + head, from.n - head - tail}, mid_to = {to.p + head, to.n - head - tail};
    bool       ok = align_block(a, (struct str){from.p, head}, old, (struct str){to.p, head});
    if (ok && mid_from.n)
        ok = align_block(a, mid_from, old + head, mid_to);
    else if (ok)
        ok = align_push(a, old[head ? head - 1 : 0], mid_to.n);
    return ok && align_block(a, (struct str){from.p + from.n - tail, tail}, old + from.n - tail,
                             (struct str){to.p + to.n - tail, tail});
}

/* Does step i to each combining sequence of `from`. *same: that made `to`, and its alignment is in *a. */
static int by_sequence(struct tracer *r, size_t i, struct str from, struct str to, struct align *a, bool *same,
                       struct error *e)
{
    size_t done = 0;
    int    status = 0;
    *same = true;
    for (size_t at = 0, n; at < from.n && *same && !status; at += n) {
        struct str in = {from.p + at, sequence_len((struct str){from.p + at, from.n - at})}, made;
        n = in.n;
        status = normalizer_run_step(&r->t->normalizer, i, in, &r->small, &r->small_find, &made, e);
        if (status)
            return status;
        *same = made.n <= to.n - done && (!made.n || memcmp(made.p, to.p + done, made.n) == 0);
        if (*same && !by_ends(r->normal.v + at, in, made, a))
            return error_nomem(e, "a long text");
        done += made.n;
    }
    *same &= done == to.n;
    return status;
}

/* A step makes nothing of an empty text, see normalizer.c. */
static int trace_step(struct tracer *r, size_t i, struct error *e)
{
    struct str   from = buf_str(&r->now), to;
    struct align a = {0};
    bool         same = false;
    int          status = normalizer_run_step(&r->t->normalizer, i, from, &r->scratch, &r->find, &to, e);
    if (status || str_eq(from, to))
        return status;
    status = by_sequence(r, i, from, to, &a, &same, e);
    if (!status && !same) {
        a.n = 0;
        if (!by_ends(r->normal.v, from, to, &a))
            status = error_nomem(e, "a long text");
    }
    align_deinit(&r->normal);
    r->normal = a;
    struct buf made;
    buf_init(&made, SIZE_MAX - 1);
    buf_put(&made, to.p, to.n);
    buf_deinit(&r->now);
    r->now = made;
    return status || !made.failed ? status : error_nomem(e, "a long text");
}

int trace_normalized(struct tracer *r, struct str raw, struct str normalized, struct error *e)
{
    int status = 0;
    r->normal.n = 0;
    buf_clear(&r->now);
    buf_put(&r->now, raw.p, raw.n);
    if (r->now.failed || !align_text(&r->normal, raw, (size_t)(raw.p - r->whole.p)))
        return error_nomem(e, "a long text");
    for (size_t i = 0; i < r->t->normalizer.n && !status; i++)
        status = trace_step(r, i, e);
    if (!status && (!str_eq(buf_str(&r->now), normalized) || r->normal.n != normalized.n))
        status = error_set(e, ERR_INTERNAL, NULL, "a normalized text could not be followed back");
    return status;
}

/* --- tokens of a piece ------------------------------------------------------------------------------------------ */

int trace_begin(struct tracer *r, struct pretok_scratch *s, size_t at, size_t n, struct error *e)
{
    r->piece.n = 0;
    s->trace = &r->piece;
    for (size_t i = at; i < at + n; i++)
        if (!align_push(&r->piece, r->normal.v[i], 1))
            return error_nomem(e, "a long text");
    return 0;
}

static int32_t unknown_id(const struct model *m)
{
    return m->kind == &model_kind_bpe         ? m->bpe.unk_id
           : m->kind == &model_kind_unigram   ? m->unigram.unk_id
           : m->kind == &model_kind_wordpiece ? m->wordpiece.unk_id
                                              : m->wordlevel.unk_id;
}

static bool starts(struct str s, struct str with)
{
    return with.n && s.n >= with.n && memcmp(s.p, with.p, with.n) == 0;
}

/* Bytes of `rest`, what is left of a piece, that a token's text stands for; 0 if it does not fit. Models may decorate the
 * text: a prefix where the piece goes on, a suffix where it ends. */
static size_t fit(struct str rest, struct str text, bool goes_on)
{
    if (starts(rest, text))
        return text.n;
    if (rest.n && hex_token_byte(text) == (unsigned char)rest.p[0])
        return 1;
    for (size_t k = 1; k < text.n; k++) {
        if (goes_on && starts(rest, (struct str){text.p + k, text.n - k}))
            return text.n - k;
        if (text.n - k == rest.n && memcmp(rest.p, text.p, rest.n) == 0)
            return rest.n;
    }
    return 0;
}

static size_t fit_text(struct tracer *r, struct str rest, struct str text, bool goes_on)
{
    if (!r->t->pretok.bytes)
        return fit(rest, text, goes_on);
    buf_clear(&r->now);
    bytelevel_read(text, &r->now);
    return fit(rest, buf_str(&r->now), goes_on);
}

/* The id's text, or one of the others that have the id. */
static size_t fit_id(struct tracer *r, struct str rest, int32_t id, bool goes_on)
{
    const struct vocab_alias *a;
    const struct vocab       *v = &r->t->vocab;
    size_t                    len = fit_text(r, rest, vocab_text(v, id), goes_on);
    size_t                    n = len || !v->n_aliases ? 0 : vocab_aliases(v, id, &a);
    for (size_t i = 0; i < MIN(n, ALIASES_TRIED) && !len; i++)
        len = fit_text(r, rest, vocab_alias_text(v, &a[i]), goes_on);
    return len;
}

/* Bytes that an unknown token stands for: the whole word, or characters up to one that the next token fits. */
static size_t unknown_len(struct tracer *r, struct str rest, const int32_t *next)
{
    const struct model *m = &r->t->model;
    uint32_t            cp;
    if (m->kind == &model_kind_wordpiece || m->kind == &model_kind_wordlevel || (!next && rest.n < 5))
        return rest.n;
    bool   fused = m->kind == &model_kind_unigram || m->bpe.fuse_unk;
    size_t n = 0;
    do
        n += (size_t)utf8_decode(rest.p + n, rest.n - n, &cp);
    while (fused && n < rest.n && !(next && fit_id(r, (struct str){rest.p + n, rest.n - n}, *next, true)));
    return n;
}

int trace_piece(struct tracer *r, struct str piece, size_t at, const int32_t *ids, size_t n, struct error *e)
{
    const struct align_span *v = r->piece.v + at;
    int32_t                  unknown = unknown_id(&r->t->model);
    size_t                   done = 0;
    int                      status = 0;
    for (size_t i = 0; i < n && !status; i++) {
        struct str rest = {piece.p + done, piece.n - done};
        size_t     len = fit_id(r, rest, ids[i], done > 0);
        while (!len && ids[i] != unknown && rest.n) { /* characters that no token stands for */
            uint32_t cp;
            int      skip = utf8_decode(rest.p, rest.n, &cp);
            done += skip > 0 ? (size_t)skip : 1;
            rest = (struct str){piece.p + done, piece.n - done};
            len = fit_id(r, rest, ids[i], done > 0);
        }
        if (!len && rest.n)
            len = unknown_len(r, rest, i + 1 < n ? &ids[i + 1] : NULL);
        status = put_aligned(r, ids[i], v, MIN(done, piece.n - 1), MIN(done + len, piece.n), e);
        done += len;
    }
    return status;
}
