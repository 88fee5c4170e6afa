/* Encoding: the order of the steps, from a text to ids, and to places where somebody asks for them. See tokenizer.h. */
#include <stdlib.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/tokenizer_int.h"
#include "text/trace.h"

#define TEXT_MAX ((size_t)INT32_MAX)

struct encoder {
    const struct tokenizer   *t;
    unsigned                  flags;
    struct str                whole;
    const struct plain_spans *plain; /* of `whole`; NULL: none */
    struct ids               *out;
    struct error             *e;
    struct normalizer_scratch normal;
    struct pretok_scratch     pretok;
    struct finder_run         find;
    struct model_scratch      model;
    struct tracer            *tracer; /* NULL: nobody asks for places */
};

/* A normalized text between added tokens, at offset `at` of what was normalized. head: bytes of it that stand for the
 * first character of the input. */
static int encode_plain(struct encoder *n, struct str text, size_t at, size_t head)
{
    int status = n->tracer ? trace_begin(n->tracer, &n->pretok, at, text.n, n->e) : 0;
    if (!status)
        status = pretok_run(&n->t->pretok, text, head, &n->pretok, &n->find, n->e);
    for (size_t i = 0; i < n->pretok.now.n && !status; i++) {
        struct piece p = n->pretok.now.v[i];
        struct str   piece = {n->pretok.now.text.p + p.start, p.end - p.start};
        size_t       before = n->out->n;
        status = model_encode(&n->t->model, piece, n->t->pretok.bytes, &n->model, n->out, n->e);
        if (!status && n->tracer)
            status = trace_piece(n->tracer, piece, p.start, n->out->v + before, n->out->n - before, n->e);
    }
    return status;
}

static int encode_token(struct encoder *n, const struct added_token *token)
{
    return ids_push(n->out, token->id) ? 0 : error_nomem(n->e, "token ids");
}

static struct added_walk walk_over(const struct encoder *n, const struct added_finder *f, struct str text,
                                   size_t offset)
{
    return (struct added_walk){
        .f = f, .text = text, .plain = n->plain, .offset = offset, .parse_special = n->flags & TOKENIZE_PARSE_SPECIAL};
}

/* Spans are places in the raw text; in a normalized one they can be found only if it is a part of that. */
static int check_plain(const struct encoder *n, struct str raw, struct str normalized)
{
    size_t start = (size_t)(raw.p - n->whole.p);
    if (!n->plain || (normalized.p >= raw.p && normalized.p + normalized.n <= raw.p + raw.n))
        return 0;
    for (size_t i = 0; i < n->plain->n; i++)
        if (n->plain->v[i].start < start + raw.n && n->plain->v[i].end >= start)
            return error_set(
                n->e, ERR_UNSUPPORTED, NULL,
                "this tokenizer looks for added tokens in normalized text, where those that must stay plain "
                "text cannot be told from others");
    return 0;
}

/* A raw text between added tokens of the raw kind: normalized, then searched for those of the other kind. */
static int encode_raw(struct encoder *n, struct str raw, bool first)
{
    struct str                text, gap;
    const struct added_token *token;
    size_t                    head;
    int                       status = normalizer_run(&n->t->normalizer, raw, &n->normal, &n->find, &text, &head, n->e);
    if (!first)
        head = 0;
    if (!status && n->tracer)
        status = trace_normalized(n->tracer, raw, text, n->e);
    if (status || !n->t->added.normalized.n)
        return status ? status : encode_plain(n, text, 0, head);
    if (n->plain && str_eq(raw, text))
        text = raw;
    if ((status = check_plain(n, raw, text)) != 0)
        return status;
    struct added_walk walk = walk_over(n, &n->t->added.normalized, text, n->plain ? (size_t)(text.p - n->whole.p) : 0);
    for (size_t done = 0; !status && added_next(&walk, &gap, &token); done = walk.done) {
        status = token ? encode_token(n, token) : encode_plain(n, gap, done, head - MIN(head, done));
        if (!status && token && n->tracer)
            status = trace_added(n->tracer, token->id, walk.start, walk.done, n->e);
    }
    return status;
}

static int encode_text(struct encoder *n, struct str text)
{
    struct str                gap;
    const struct added_token *token;
    int                       status = 0;
    struct added_walk         walk = walk_over(n, &n->t->added.raw, text, 0);
    n->whole = text;
    if (n->tracer)
        n->tracer->whole = text;
    for (size_t done = 0; !status && added_next(&walk, &gap, &token); done = walk.done) {
        status = token ? encode_token(n, token) : encode_raw(n, gap, done == 0);
        if (!status && token && n->tracer)
            status = trace_raw(n->tracer, token->id, walk.start, walk.done, n->e);
    }
    return status;
}

/* Copies text with U+FFFD for each maximal invalid part. */
static void put_valid(struct str text, struct buf *out)
{
    while (text.n) {
        uint32_t cp;
        size_t   n = utf8_valid_prefix(text.p, text.n);
        buf_put(out, text.p, n);
        if (n == text.n)
            break;
        int bad = utf8_decode(text.p + n, text.n - n, &cp);
        n += bad < 0 ? (size_t)-bad : text.n - n;
        buf_puts(out, "\xef\xbf\xbd");
        text = (struct str){text.p + n, text.n - n};
    }
}

/* The tokens that the post-processor puts on one side. */
static int encode_frame(struct encoder *n, const struct ids *frame)
{
    for (size_t i = 0; i < frame->n; i++) {
        if (!ids_push(n->out, frame->v[i]))
            return error_nomem(n->e, "token ids");
        if (n->tracer && trace_raw(n->tracer, frame->v[i], 0, 0, n->e))
            return ERR_NOMEM;
    }
    return 0;
}

/* The whole way, for valid UTF-8. */
static int encode_valid(struct encoder *n, struct str text)
{
    bool frame = n->flags & TOKENIZE_ADD_SPECIAL;
    int  status = frame ? encode_frame(n, &n->t->postproc.before) : 0;
    normalizer_scratch_init(&n->normal, text.n);
    pretok_scratch_init(&n->pretok, text.n);
    model_scratch_init(&n->model);
    regex_run_init(&n->find.regex, text.n);
    if (!status)
        status = encode_text(n, text);
    if (!status && frame)
        status = encode_frame(n, &n->t->postproc.after);
    normalizer_scratch_deinit(&n->normal);
    pretok_scratch_deinit(&n->pretok);
    regex_run_deinit(&n->find.regex);
    model_scratch_deinit(&n->model);
    return status;
}

static int too_long(struct error *e)
{
    return error_set(e, ERR_LIMIT, NULL, "a text of more than 2 GiB cannot be tokenized");
}

static int encode(struct encoder *n, struct str text)
{
    size_t     before = n->out->n;
    struct buf valid;
    int        status = 0;
    if (text.n > TEXT_MAX)
        return too_long(n->e);
    buf_init(&valid, TEXT_MAX);
    if (utf8_valid_prefix(text.p, text.n) != text.n) {
        put_valid(text, &valid);
        text = buf_str(&valid);
        if (valid.failed)
            status = valid.full ? too_long(n->e) : error_nomem(n->e, "a long text");
    }
    if (!status)
        status = encode_valid(n, text);
    if (status)
        n->out->n = before;
    buf_deinit(&valid);
    return status;
}

int tokenizer_encode(const struct tokenizer *t, struct str text, unsigned flags, struct ids *out, struct error *e)
{
    return tokenizer_encode_plain(t, text, NULL, flags, out, e);
}

int tokenizer_encode_plain(const struct tokenizer *t, struct str text, const struct plain_spans *plain, unsigned flags,
                           struct ids *out, struct error *e)
{
    struct encoder n = {.t = t, .flags = flags, .plain = plain, .out = out, .e = e};
    return encode(&n, text);
}

/* Turns places in the text with U+FFFD for each broken part into places in the text itself. They ascend from call to call,
 * but for the post-processor's. */
struct mending {
    struct str text;
    size_t     at, mended; /* the same place in the text and in the other one */
};

static size_t place(struct mending *m, size_t mended)
{
    if (mended < m->mended)
        m->at = m->mended = 0;
    while (m->mended < mended) {
        uint32_t cp;
        int      n = utf8_decode(m->text.p + m->at, m->text.n - m->at, &cp);
        m->at += n > 0 ? (size_t)n : n < 0 ? (size_t)-n : m->text.n - m->at;
        m->mended += n > 0 ? (size_t)n : 3;
    }
    return m->at;
}

int tokenizer_encode_pieces(const struct tokenizer *t, struct str text, unsigned flags, struct token_pieces *out,
                            struct error *e)
{
    struct tracer  r;
    struct ids     ids = {0};
    struct encoder n = {.t = t, .flags = flags, .out = &ids, .e = e, .tracer = &r};
    struct mending start = {.text = text}, end = {.text = text};
    size_t         before = out->n;
    bool           broken = utf8_valid_prefix(text.p, text.n) != text.n;
    tracer_init(&r, t, text.n, out);
    int status = encode(&n, text);
    if (status)
        out->n = before;
    for (size_t i = before; i < out->n && broken; i++) {
        out->v[i].start = place(&start, out->v[i].start);
        out->v[i].end = place(&end, out->v[i].end);
    }
    tracer_deinit(&r);
    ids_deinit(&ids);
    return status;
}
