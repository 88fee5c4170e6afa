/* Runs the decoder's steps over tokens as they come. Every step may hold back what later tokens can still change; see
 * detok.h and decoder.h. */
#include "text/detok.h"

#include "base/num.h"
#include "base/utf8.h"
#include "text/bytelevel.h"
#include "text/hex_token.h"
#include "text/tokenizer_int.h"

static void step_push(struct detok *d, size_t i, struct str s, struct buf *out);

void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special)
{
    *d = (struct detok){.t = t, .skip_special = skip_special};
    for (size_t i = 0; i < DETOK_STEPS_MAX; i++) {
        buf_init(&d->steps[i].held, SIZE_MAX - 1);
        buf_init(&d->steps[i].more, SIZE_MAX - 1);
    }
}

void detok_deinit(struct detok *d)
{
    for (size_t i = 0; i < DETOK_STEPS_MAX; i++) {
        buf_deinit(&d->steps[i].held);
        buf_deinit(&d->steps[i].more);
    }
}

/* --- bytes to characters ---------------------------------------------------------------------------------------- */

/* Drops the first n bytes. Steps empty their buffers by it, too: a failure stays, for status() to tell. */
static void drop(struct buf *b, size_t n)
{
    if (!n)
        return;
    memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
    b->p[b->n] = '\0';
}

/* Passes on the held bytes as characters, U+FFFD for each maximal broken part; keeps an unfinished one unless `end`. */
static void pass_bytes(struct detok *d, size_t i, bool end, struct buf *out)
{
    struct buf *held = &d->steps[i].held;
    size_t      at = 0;
    while (at < held->n) {
        uint32_t cp;
        size_t   n = utf8_valid_prefix(held->p + at, held->n - at);
        if (n)
            step_push(d, i + 1, (struct str){held->p + at, n}, out);
        at += n;
        int bad = utf8_decode(held->p + at, held->n - at, &cp);
        if (at == held->n || (bad == 0 && !end))
            break;
        step_push(d, i + 1, STR("\xef\xbf\xbd"), out);
        at = bad == 0 ? held->n : at + (size_t)-bad;
    }
    drop(held, at);
}

/* Passes on what is held of a run of byte tokens: its text, or as many U+FFFD as it has bytes if any part of it is
 * broken. */
static void pass_run(struct detok *d, size_t i, struct buf *out)
{
    struct detok_step *state = &d->steps[i];
    struct buf        *held = &state->held;
    if (!state->broken && held->n && utf8_valid_prefix(held->p, held->n) == held->n)
        step_push(d, i + 1, buf_str(held), out);
    else
        for (size_t k = 0; k < held->n; k++)
            step_push(d, i + 1, STR("\xef\xbf\xbd"), out);
    drop(held, held->n);
}

/* Adds a byte to a run. From the first one that no further byte can make part of a character, nothing waits any more. */
static void push_byte(struct detok *d, size_t i, char byte, struct buf *out)
{
    struct detok_step *state = &d->steps[i];
    uint32_t           cp;
    buf_putc(&state->held, byte);
    size_t valid = utf8_valid_prefix(state->held.p, state->held.n);
    if (valid < state->held.n)
        state->broken |= utf8_decode(state->held.p + valid, state->held.n - valid, &cp) < 0;
    if (state->broken)
        pass_run(d, i, out);
}

/* --- the other steps -------------------------------------------------------------------------------------------- */

static void replace(struct str in, struct str find, struct str with, struct buf *to)
{
    const char *end = in.p + in.n, *hit;
    while ((hit = memmem(in.p, (size_t)(end - in.p), find.p, find.n)) != NULL) {
        buf_put(to, in.p, (size_t)(hit - in.p));
        buf_put(to, with.p, with.n);
        in.p = hit + find.n;
    }
    buf_put(to, in.p, (size_t)(end - in.p));
}

/* What a step that replaces something looks for, and what it puts there; `edge`: the string is the first (Metaspace) or
 * the last (BPEDecoder). */
static struct str find_of(const struct decoder_step *s)
{
    return s->kind == DECODE_METASPACE ? s->text : s->find;
}

static struct str with_of(const struct decoder_step *s, bool edge)
{
    if (s->kind == DECODE_REPLACE)
        return s->text;
    return edge && (s->kind == DECODE_BPE || s->prefix) ? STR("") : STR(" ");
}

/* Length of the longest end of s that `find` may continue. */
static size_t unfinished(struct str s, struct str find)
{
    size_t n = MIN(find.n - 1, s.n);
    while (n && memcmp(s.p + s.n - n, find.p, n) != 0)
        n--;
    return n;
}

/* A string that is replaced in on its own: out of `held`, into which it is written. */
static void replace_whole(struct detok *d, size_t i, struct str s, bool edge, struct buf *out)
{
    const struct decoder_step *step = &d->t->decoder.v[i];
    struct buf                *held = &d->steps[i].held;
    drop(held, held->n);
    replace(s, find_of(step), with_of(step, edge), held);
    step_push(d, i + 1, buf_str(held), out);
    drop(held, held->n);
}

/* A part of the one string that there is. */
static void replace_part(struct detok *d, size_t i, struct str s, struct buf *out)
{
    const struct decoder_step *step = &d->t->decoder.v[i];
    struct buf                *held = &d->steps[i].held;
    struct str                 find = find_of(step), with = with_of(step, true);
    const char                *hit;
    buf_put(held, s.p, s.n);
    s = buf_str(held);
    while (s.n && (hit = memmem(s.p, s.n, find.p, find.n)) != NULL) {
        step_push(d, i + 1, (struct str){s.p, (size_t)(hit - s.p)}, out);
        step_push(d, i + 1, with, out);
        s = (struct str){hit + find.n, s.n - (size_t)(hit - s.p) - find.n};
    }
    size_t keep = unfinished(s, find);
    step_push(d, i + 1, (struct str){s.p, s.n - keep}, out);
    drop(held, held->n - keep);
}

/* A string that waited for the next one has come to be the last, or has not. */
static void pass_word(struct detok *d, size_t i, bool last, struct buf *out)
{
    const struct decoder_step *step = &d->t->decoder.v[i];
    struct detok_step         *state = &d->steps[i];
    if (!state->held.n)
        return;
    drop(&state->more, state->more.n);
    replace(buf_str(&state->held), step->find, with_of(step, last), &state->more);
    drop(&state->held, state->held.n);
    step_push(d, i + 1, buf_str(&state->more), out);
}

/* The end of a word is a space if another string follows, so from there on the string waits for it. Where the next step
 * needs the string whole, all of it does. */
static void push_word(struct detok *d, size_t i, struct str s, struct buf *out)
{
    const struct decoder_step *step = &d->t->decoder.v[i];
    pass_word(d, i, false, out);
    const char *hit = memmem(s.p, s.n, step->find.p, step->find.n);
    size_t      pass = !hit ? s.n : i + 1 == d->t->decoder.n ? (size_t)(hit - s.p) : 0;
    if (!hit || pass)
        step_push(d, i + 1, (struct str){s.p, pass}, out);
    buf_put(&d->steps[i].held, s.p + pass, s.n - pass);
}

/* The space before a word's first token, and what is tidied up in it: in this order, each everywhere in the string. */
static void put_wordpiece(const struct decoder_step *step, struct str s, bool first, struct buf *a, struct buf *b)
{
    static const char *const tidy[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                          {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                          {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    bool                     inside = !first && s.n >= step->find.n && memcmp(s.p, step->find.p, step->find.n) == 0;
    drop(a, a->n);
    if (!first && !inside)
        buf_putc(a, ' ');
    if (inside)
        s = (struct str){s.p + step->find.n, s.n - step->find.n};
    buf_put(a, s.p, s.n);
    for (size_t i = 0; step->cleanup && i < ARRAY_LEN(tidy); i++) {
        struct buf t = *a;
        drop(b, b->n);
        replace(buf_str(a), str_of(tidy[i][0]), str_of(tidy[i][1]), b);
        *a = *b;
        *b = t;
    }
}

static bool starts(struct str s, struct str with)
{
    return s.n >= with.n && memcmp(s.p, with.p, with.n) == 0;
}

/* Length of up to `max` copies of c at the end of s. */
static size_t trailing(struct str s, struct str c, size_t max)
{
    size_t n = 0;
    while (max-- && n + c.n <= s.n && memcmp(s.p + s.n - n - c.n, c.p, c.n) == 0)
        n += c.n;
    return n;
}

static void strip(struct detok *d, size_t i, struct str s, struct buf *out)
{
    const struct decoder_step *step = &d->t->decoder.v[i];
    struct detok_step         *state = &d->steps[i];
    if (!step->joined)
        state->count = 0;
    while (state->count < step->start && starts(s, step->text)) {
        s.p += step->text.n;
        s.n -= step->text.n;
        state->count++;
    }
    if (s.n)
        state->count = step->start; /* something else has come: stripping at the front is over */
    if (!step->joined) {
        s.n -= trailing(s, step->text, step->stop);
        step_push(d, i + 1, s, out);
        return;
    }
    if (!step->stop) {
        step_push(d, i + 1, s, out);
        return;
    }
    buf_put(&state->held, s.p, s.n);
    size_t pass = state->held.n - trailing(buf_str(&state->held), step->text, step->stop);
    step_push(d, i + 1, (struct str){buf_cstr(&state->held), pass}, out);
    drop(&state->held, pass);
}

/* Gives a string to step i. */
static void step_push(struct detok *d, size_t i, struct str s, struct buf *out)
{
    const struct decoder *dec = &d->t->decoder;
    struct detok_step    *state = &d->steps[i];
    if (i == dec->n) {
        buf_put(out, s.p, s.n);
        return;
    }
    const struct decoder_step *step = &dec->v[i];
    switch (step->kind) {
    case DECODE_JOIN:
        if (state->started)
            step_push(d, i + 1, STR(" "), out);
        step_push(d, i + 1, s, out);
        break;
    case DECODE_BYTE_LEVEL:
        bytelevel_read(s, &state->held);
        pass_bytes(d, i, false, out);
        break;
    case DECODE_BYTE_FALLBACK: {
        int b = hex_token_byte(s);
        if (b >= 0)
            push_byte(d, i, (char)b, out);
        else {
            pass_run(d, i, out);
            state->broken = false;
            step_push(d, i + 1, s, out);
        }
        break;
    }
    case DECODE_FUSE:
        step_push(d, i + 1, s, out);
        break;
    case DECODE_STRIP:
        strip(d, i, s, out);
        break;
    case DECODE_REPLACE:
    case DECODE_METASPACE:
        if (step->joined)
            replace_part(d, i, s, out);
        else
            replace_whole(d, i, s, !state->started, out);
        break;
    case DECODE_BPE:
        if (step->joined)
            replace_part(d, i, s, out);
        else
            push_word(d, i, s, out);
        break;
    case DECODE_WORD_PIECE:
        put_wordpiece(step, s, !state->started, &state->held, &state->more);
        step_push(d, i + 1, buf_str(&state->held), out);
        drop(&state->held, state->held.n);
        break;
    }
    state->started = true;
}

static int status(const struct detok *d, const struct buf *out)
{
    bool failed = out->failed;
    for (size_t i = 0; i < DETOK_STEPS_MAX; i++)
        failed |= d->steps[i].held.failed || d->steps[i].more.failed;
    return failed ? ERR_NOMEM : 0;
}

/* Whether a text is that of a special token: the reference asks for the text, not the id. */
static bool is_special(const struct tokenizer *t, struct str s)
{
    int32_t i = vocab_find(&t->added_index, s);
    return i >= 0 && t->added.v[i].special;
}

int detok_push(struct detok *d, int32_t id, struct buf *out)
{
    struct str s = tokenizer_spelling(d->t, id);
    if (s.p && !(d->skip_special && is_special(d->t, s)))
        step_push(d, 0, s, out);
    return status(d, out);
}

int detok_finish(struct detok *d, struct buf *out)
{
    for (size_t i = 0; i < d->t->decoder.n; i++) {
        const struct decoder_step *step = &d->t->decoder.v[i];
        if (step->kind == DECODE_BYTE_LEVEL)
            pass_bytes(d, i, true, out);
        else if (step->kind == DECODE_BYTE_FALLBACK)
            pass_run(d, i, out);
        else if (step->kind == DECODE_BPE && !step->joined)
            pass_word(d, i, true, out);
        else if (step->joined && step->kind != DECODE_STRIP) /* what a Strip still holds is stripped */
            step_push(d, i + 1, buf_str(&d->steps[i].held), out);
    }
    int result = status(d, out);
    for (size_t i = 0; i < DETOK_STEPS_MAX; i++) {
        buf_clear(&d->steps[i].held);
        buf_clear(&d->steps[i].more);
        d->steps[i].count = 0;
        d->steps[i].started = d->steps[i].broken = false;
    }
    return result;
}

int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special, struct buf *out,
                     struct error *e)
{
    struct detok d;
    int          result = 0;
    detok_init(&d, t, skip_special);
    for (size_t i = 0; i < n && !result; i++)
        result = detok_push(&d, ids[i], out);
    if (!result)
        result = detok_finish(&d, out);
    detok_deinit(&d);
    return result ? error_nomem(e, "decoded text") : 0;
}

int tokenizer_token_bytes(const struct tokenizer *t, int32_t id, struct buf *out)
{
    struct buf a, b;
    struct str s = tokenizer_spelling(t, id);
    buf_init(&a, SIZE_MAX - 1);
    buf_init(&b, SIZE_MAX - 1);
    buf_put(&a, s.p, s.n);
    for (size_t i = 0; i < t->decoder.n; i++) {
        const struct decoder_step *step = &t->decoder.v[i];
        char                       byte = (char)hex_token_byte(buf_str(&a));
        drop(&b, b.n);
        if (step->kind == DECODE_WORD_PIECE) {
            struct buf word;
            buf_init(&word, SIZE_MAX - 1);
            buf_put(&word, a.p, a.n);
            put_wordpiece(step, buf_str(&word), false, &a, &b);
            a.failed |= word.failed;
            buf_deinit(&word);
            continue;
        }
        if (step->kind == DECODE_BYTE_LEVEL)
            bytelevel_read(buf_str(&a), &b);
        else if (step->kind == DECODE_REPLACE || step->kind == DECODE_METASPACE || step->kind == DECODE_BPE)
            replace(buf_str(&a), find_of(step), with_of(step, false), &b);
        else if (step->kind == DECODE_BYTE_FALLBACK && hex_token_byte(buf_str(&a)) >= 0)
            buf_put(&b, &byte, 1);
        else
            continue;
        struct buf swap = a;
        a = b;
        b = swap;
    }
    buf_put(out, a.p, a.n);
    bool failed = a.failed || b.failed || out->failed;
    buf_deinit(&a);
    buf_deinit(&b);
    return failed ? ERR_NOMEM : 0;
}
