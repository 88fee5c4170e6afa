/* Loading of the decoders ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, WordPiece, BPEDecoder and Sequence
 * of these. See decoder.h. */
#include "text/decoder.h"

#include <jansson.h>

#include "base/num.h"
#include "base/utf8.h"

static int load_replace(struct component *c, const json_t *o, struct decoder_step *s)
{
    const json_t *pattern = json_object_get(o, "pattern");
    int           status;
    if (json_object_get(pattern, "Regex"))
        return component_unsupported(c, "Replace with a Regex");
    if ((status = field_text(c, pattern, "String", &s->find)) != 0 ||
        (status = field_text(c, o, "content", &s->text)) != 0)
        return status;
    return s->find.n ? 0 : component_malformed(c, "has an empty pattern");
}

static int load_strip(struct component *c, const json_t *o, struct decoder_step *s)
{
    int64_t start = 0, stop = 0;
    int     status = field_text(c, o, "content", &s->text);
    if (status || (status = field_int(c, o, "start", &start)) != 0 || (status = field_int(c, o, "stop", &stop)) != 0)
        return status;
    uint32_t cp;
    if (utf8_decode(s->text.p, s->text.n, &cp) != (int)s->text.n || !s->text.n || start < 0 || stop < 0)
        return component_malformed(c, "has a Strip whose content is not one character or with a negative count");
    s->start = (size_t)start;
    s->stop = (size_t)stop;
    return 0;
}

static int load_metaspace(struct component *c, const json_t *o, struct decoder_step *s)
{
    struct str scheme = {0};
    int        status = field_text(c, o, "replacement", &s->text);
    s->prefix = true;
    if (status || (status = field_bool(c, o, "add_prefix_space", &s->prefix)) != 0 ||
        (status = field_str(c, o, "prepend_scheme", &scheme)) != 0)
        return status;
    if (scheme.p && str_is(scheme, "never"))
        s->prefix = false;
    return s->text.n ? 0 : component_malformed(c, "has an empty \"replacement\"");
}

static int load_wordpiece(struct component *c, const json_t *o, struct decoder_step *s)
{
    int status = field_text(c, o, "prefix", &s->find);
    s->cleanup = true;
    return status ? status : field_bool(c, o, "cleanup", &s->cleanup);
}

static int load_bpe(struct component *c, const json_t *o, struct decoder_step *s)
{
    int status = field_text(c, o, "suffix", &s->find);
    return status || s->find.n ? status : component_malformed(c, "has an empty \"suffix\"");
}

/* Whether a step can take one string that comes in parts. */
static bool takes_parts(enum decoder_kind kind)
{
    return kind != DECODE_BYTE_LEVEL && kind != DECODE_BYTE_FALLBACK && kind != DECODE_WORD_PIECE;
}

static int check_step(struct decoder *d, struct component *c, const struct decoder_step *s)
{
    if (s->find.n > DECODER_TEXT_MAX || s->text.n > DECODER_TEXT_MAX)
        return error_set(c->e, ERR_LIMIT, c->role, "%s: a text in it is longer than %d bytes", c->role,
                         DECODER_TEXT_MAX);
    if (s->start > DECODER_STRIP_MAX || s->stop > DECODER_STRIP_MAX)
        return error_set(c->e, ERR_LIMIT, c->role, "%s: a Strip takes more than %d characters", c->role,
                         DECODER_STRIP_MAX);
    if (s->kind == DECODE_REPLACE && s->text.n > s->find.n)
        d->growth *= (s->text.n + s->find.n - 1) / s->find.n; /* at most 16 * 256 before it is refused */
    if (d->growth > DECODER_GROWTH_MAX)
        return error_set(c->e, ERR_LIMIT, c->role, "%s: it can make a text more than %d times as long", c->role,
                         DECODER_GROWTH_MAX);
    return 0;
}

static int load_step(struct component *c, const char *type, const json_t *o, void *ctx)
{
    static const struct {
        const char       *name;
        enum decoder_kind kind;
        int (*load)(struct component *c, const json_t *o, struct decoder_step *s);
    } kinds[] = {
        {"ByteLevel", DECODE_BYTE_LEVEL, NULL},
        {"Replace", DECODE_REPLACE, load_replace},
        {"ByteFallback", DECODE_BYTE_FALLBACK, NULL},
        {"Fuse", DECODE_FUSE, NULL},
        {"Strip", DECODE_STRIP, load_strip},
        {"Metaspace", DECODE_METASPACE, load_metaspace},
        {"WordPiece", DECODE_WORD_PIECE, load_wordpiece},
        {"BPEDecoder", DECODE_BPE, load_bpe},
    };
    struct decoder *d = ctx;
    size_t          i = 0;
    bool            joined = false;
    while (i < ARRAY_LEN(kinds) && strcmp(type, kinds[i].name) != 0)
        i++;
    if (i == ARRAY_LEN(kinds))
        return component_unsupported(c, type);
    if (d->n == ARRAY_LEN(d->v))
        return component_malformed(c, "has more than 8 steps");
    if (d->n) {
        const struct decoder_step *before = &d->v[d->n - 1];
        joined = before->joined || before->kind == DECODE_BYTE_LEVEL || before->kind == DECODE_FUSE;
    }
    /* These look at whole tokens, which no longer exist then; no published file has them there. */
    if (joined && !takes_parts(kinds[i].kind))
        return component_unsupported(c, "Sequence with ByteLevel, ByteFallback or WordPiece after ByteLevel or Fuse");
    d->v[d->n] = (struct decoder_step){.kind = kinds[i].kind, .joined = joined};
    d->n++;
    int status = kinds[i].load ? kinds[i].load(c, o, &d->v[d->n - 1]) : 0;
    return status ? status : check_step(d, c, &d->v[d->n - 1]);
}

int decoder_load(struct decoder *d, struct component *c, const json_t *o)
{
    d->n = 0;
    d->growth = 1;
    if (o && !json_is_null(o))
        return component_each(c, o, "decoders", load_step, d);
    d->v[d->n++] = (struct decoder_step){.kind = DECODE_JOIN};
    return 0;
}
