/* The normalizers NFC, NFD, NFKC, NFKD, Lowercase, Replace, Prepend, Strip, StripAccents, BertNormalizer, Nmt,
 * Precompiled, ByteLevel and Sequence of these; BertNormalizer is up to four steps.
 *
 * NFC, which stands in most files and nearly always changes nothing, looks only at stretches around characters that the
 * table of unicode.h marks as unsafe: a safe character is a border, since nothing before it can change because of it.
 * The forms are utf8proc's, cut down to the reference's older tables.
 */
#include "text/normalizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <utf8proc.h>

#include "base/base64.h"
#include "base/num.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "text/bytelevel.h"
#include "text/charset.h"
#include "text/charsmap.h"
#include "text/charwise.h"
#include "text/growth.h"
#include "text/unicode.h"

enum kind {
    NFC,
    NFD,
    NFKC,
    NFKD,
    LOWERCASE,
    REPLACE,
    PREPEND,
    STRIP,
    STRIP_MARKS,
    NMT,
    PRECOMPILED,
    BYTE_LEVEL,
    CLEAN, /* this and the next two are parts of BertNormalizer */
    SPACE_IDEOGRAPHS,
    STRIP_ACCENTS
};

struct normalizer_step {
    enum kind       kind;
    struct finder   find;        /* REPLACE */
    struct str      text;        /* what REPLACE and PREPEND put */
    bool            left, right; /* STRIP */
    struct charsmap charsmap;    /* PRECOMPILED */
};

/* By kind, as far as they are one step. */
static const char *const names[] = {"NFC",     "NFD",   "NFKC",         "NFKD", "Lowercase",   "Replace",
                                    "Prepend", "Strip", "StripAccents", "Nmt",  "Precompiled", "ByteLevel"};

/* --- loading ---------------------------------------------------------------------------------------------------- */

static int add_step(struct normalizer *z, struct component *c, enum kind kind, struct normalizer_step **out)
{
    struct normalizer_step *v = vec_room(z->v, z->n, &z->cap, sizeof *v);
    if (!v)
        return error_nomem(c->e, "a tokenizer");
    z->v = v;
    z->v[z->n] = (struct normalizer_step){.kind = kind};
    *out = &z->v[z->n++];
    return 0;
}

static int load_bert(struct normalizer *z, struct component *c, const json_t *o)
{
    static const enum kind  kinds[] = {CLEAN, SPACE_IDEOGRAPHS, NFD, STRIP_ACCENTS, LOWERCASE};
    struct normalizer_step *s;
    bool                    clean = true, ideographs = true, lower = true, accents;
    int                     status;
    if ((status = field_bool(c, o, "clean_text", &clean)) != 0 ||
        (status = field_bool(c, o, "handle_chinese_chars", &ideographs)) != 0 ||
        (status = field_bool(c, o, "lowercase", &lower)) != 0)
        return status;
    accents = lower;
    status = field_bool(c, o, "strip_accents", &accents);
    const bool on[] = {clean, ideographs, accents, accents, lower};
    for (size_t i = 0; i < ARRAY_LEN(kinds) && !status; i++)
        status = on[i] ? add_step(z, c, kinds[i], &s) : 0;
    return status;
}

int normalizer_add_charsmap(struct normalizer *z, struct component *c, struct str blob)
{
    struct normalizer_step *s = NULL;
    int                     status = add_step(z, c, PRECOMPILED, &s);
    if (!status && (status = charsmap_load(&s->charsmap, blob, c->arena, c->e)) != 0)
        error_prefix(c->e, "%s", c->role);
    return status;
}

static int load_charsmap(struct normalizer *z, struct component *c, const json_t *o)
{
    struct str text = {0};
    struct buf blob;
    int        status = field_str(c, o, "precompiled_charsmap", &text);
    if (status)
        return status;
    buf_init(&blob, SIZE_MAX - 1);
    if (!text.p || !base64_decode(text, &blob))
        status = component_malformed(c, "has a \"precompiled_charsmap\" that is not base64");
    else
        status = blob.failed ? error_nomem(c->e, "a tokenizer") : normalizer_add_charsmap(z, c, buf_str(&blob));
    buf_deinit(&blob);
    return status;
}

static int load_step(struct component *c, const char *type, const json_t *o, void *ctx)
{
    struct normalizer      *z = ctx;
    struct normalizer_step *s = NULL;
    size_t                  kind = 0;
    int                     status;
    if (!strcmp(type, "BertNormalizer") || !strcmp(type, "Bert"))
        return load_bert(z, c, o);
    while (kind < ARRAY_LEN(names) && strcmp(type, names[kind]) != 0)
        kind++;
    if (kind == ARRAY_LEN(names))
        return component_unsupported(c, type);
    if (kind == PRECOMPILED)
        return load_charsmap(z, c, o);
    if ((status = add_step(z, c, (enum kind)kind, &s)) != 0)
        return status;
    if (kind == REPLACE && (status = finder_load(&s->find, c, json_object_get(o, "pattern"))) == 0)
        status = field_text(c, o, "content", &s->text);
    if (kind == PREPEND)
        status = field_text(c, o, "prepend", &s->text);
    if (kind == STRIP && (status = field_bool(c, o, "strip_left", &s->left)) == 0)
        status = field_bool(c, o, "strip_right", &s->right);
    return status;
}

int normalizer_load(struct normalizer *z, struct component *c, const json_t *o)
{
    return component_each(c, o, "normalizers", load_step, z);
}

void normalizer_deinit(struct normalizer *z)
{
    for (size_t i = 0; i < z->n; i++)
        finder_deinit(&z->v[i].find);
    free(z->v);
    *z = (struct normalizer){0};
}

/* --- running ---------------------------------------------------------------------------------------------------- */

void normalizer_scratch_init(struct normalizer_scratch *s, size_t total)
{
    s->left = growth_max(total);
    buf_init(&s->a, SIZE_MAX - 1);
    buf_init(&s->b, SIZE_MAX - 1);
}

void normalizer_scratch_deinit(struct normalizer_scratch *s)
{
    buf_deinit(&s->a);
    buf_deinit(&s->b);
}

/* Characters that the reference's tables of normal forms (Unicode 9) do not have: it leaves them as they are and takes
 * them as a border, and so must we, whatever the library knows. */
static const struct char_range newer[] = {
    {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},
    {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xa82c, 0xa82c},   {0xab69, 0xab69},   {0x105c0, 0x105ff},
    {0x10781, 0x107ba}, {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x11382, 0x113d0},
    {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11930}, {0x11938, 0x11943}, {0x119e0, 0x119e0},
    {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d45}, {0x11d97, 0x11d97},
    {0x11f41, 0x11f42}, {0x1611e, 0x1612f}, {0x16d63, 0x16d6a}, {0x16ff0, 0x16ff1}, {0x1ccd6, 0x1ccf9},
    {0x1e030, 0x1e06d}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
    {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9}};

static bool is_newer(uint32_t cp)
{
    return char_ranges_have(newer, ARRAY_LEN(newer), cp);
}

static int map(struct str text, enum kind kind, struct buf *out, struct error *e)
{
    static const int  options[] = {UTF8PROC_COMPOSE, UTF8PROC_DECOMPOSE, UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                   UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    utf8proc_uint8_t *form = NULL;
    utf8proc_ssize_t  n = utf8proc_map((const utf8proc_uint8_t *)text.p, (utf8proc_ssize_t)text.n, &form,
                                       (utf8proc_option_t)(UTF8PROC_STABLE | options[kind]));
    if (n == UTF8PROC_ERROR_NOMEM)
        return error_nomem(e, "normalising text");
    if (n < 0)
        return error_set(e, ERR_INTERNAL, NULL, "normalising text failed: %s", utf8proc_errmsg(n));
    buf_put(out, form, (size_t)n);
    free(form);
    return 0;
}

/* The place before the first trailing consonant: utf8proc composes it with a syllable as if it were one of them. */
#define HANGUL_NO_TAIL 0x11a7u

/* Appends a normal form of text. */
static int put_form(struct str text, enum kind kind, struct buf *out, struct error *e)
{
    size_t done = 0, len;
    int    status = 0;
    for (size_t i = 0; i < text.n && !status; i += len) {
        uint32_t cp = 0;
        len = (size_t)utf8_decode(text.p + i, text.n - i, &cp);
        if (!is_newer(cp) && cp != HANGUL_NO_TAIL)
            continue;
        if (i > done)
            status = map((struct str){text.p + done, i - done}, kind, out, e);
        buf_put(out, text.p + i, len);
        done = i + len;
    }
    return status || done == text.n ? status : map((struct str){text.p + done, text.n - done}, kind, out, e);
}

/* The first character that NFC may change; the end if there is none. */
static size_t first_unsafe(struct str text)
{
    const char *p = text.p + utf8_ascii_prefix(text.p, text.n), *end = text.p + text.n;
    while (p < end) {
        const char *q = p;
        if (unicode_class(utf8_next(&q)) & UNICODE_NFC_UNSAFE)
            break;
        p = q;
    }
    return (size_t)(p - text.p);
}

/* NFC of text whose first unsafe character begins at `at`. */
static int put_nfc(struct str text, size_t at, struct buf *out, struct error *e)
{
    size_t done = 0, last_safe = at;
    int    status = 0;
    /* The safe character just before the first unsafe one takes part. */
    while (last_safe > 0 && ((unsigned char)text.p[--last_safe] & 0xc0) == 0x80)
        ;
    for (size_t i = last_safe; i < text.n && !status;) {
        uint32_t cp;
        bool     any = false;
        size_t   end = i + (size_t)utf8_decode(text.p + i, text.n - i, &cp), len;
        any = unicode_class(cp) & UNICODE_NFC_UNSAFE;
        for (; end < text.n; end += len) {
            len = (size_t)utf8_decode(text.p + end, text.n - end, &cp);
            if (!(unicode_class(cp) & UNICODE_NFC_UNSAFE))
                break;
            any = true;
        }
        if (any) {
            buf_put(out, text.p + done, i - done);
            status = put_form((struct str){text.p + i, end - i}, NFC, out, e);
            done = end;
        }
        i = end;
    }
    buf_put(out, text.p + done, text.n - done);
    return status;
}

static int run_form(enum kind kind, struct str *text, struct buf *out, size_t *head, struct error *e)
{
    size_t at = kind == NFC ? first_unsafe(*text) : utf8_ascii_prefix(text->p, text->n);
    int    status;
    if (at == text->n)
        return 0;
    if ((status = put_form((struct str){text->p, *head}, kind, out, e)) != 0 || out->failed)
        return status;
    *head = out->n;
    buf_clear(out);
    status = kind == NFC ? put_nfc(*text, at, out, e) : put_form(*text, kind, out, e);
    *text = buf_str(out);
    return status;
}

static int run_replace(const struct normalizer_step *s, struct str *text, struct buf *out, struct finder_run *find,
                       size_t *head, struct error *e)
{
    size_t done = 0, start, end, before = *head;
    bool   found = true;
    int    status = finder_begin(find, &s->find, *text, e);
    while (!status && (status = finder_next(find, &found, &start, &end, e)) == 0 && found) {
        if (start < before)
            *head = end > before ? out->n + start - done : *head - (end - start) + s->text.n;
        if (end > before) /* what replaces several characters counts as standing where the last of them stood */
            before = 0;
        buf_put(out, text->p + done, start - done);
        buf_put(out, s->text.p, s->text.n);
        done = end;
    }
    if (done || out->n) {
        buf_put(out, text->p + done, text->n - done);
        *text = buf_str(out);
    }
    return status;
}

static void run_strip(const struct normalizer_step *s, struct str *text, size_t *head)
{
    uint32_t cp;
    while (s->left && text->n) {
        size_t len = (size_t)utf8_decode(text->p, text->n, &cp);
        if (!(unicode_class(cp) & UNICODE_SPACE))
            break;
        *head -= MIN(*head, len);
        *text = (struct str){text->p + len, text->n - len};
    }
    while (s->right && text->n) {
        size_t at = text->n - 1;
        while (at && ((unsigned char)text->p[at] & 0xc0) == 0x80)
            at--;
        utf8_decode(text->p + at, text->n - at, &cp);
        if (!(unicode_class(cp) & UNICODE_SPACE))
            break;
        text->n = at;
    }
}

/* Steps that go character by character. */
static void put_charwise(const struct normalizer_step *s, struct str text, struct buf *out)
{
    switch (s->kind) {
    case LOWERCASE:
        charwise_lowercase(text, out);
        break;
    case STRIP_MARKS:
        charwise_drop(text, COMPONENT_MARK, out);
        break;
    case STRIP_ACCENTS:
        charwise_drop(text, COMPONENT_ACCENT, out);
        break;
    case CLEAN:
        charwise_clean(text, out);
        break;
    case SPACE_IDEOGRAPHS:
        charwise_space_ideographs(text, out);
        break;
    case NMT:
        charwise_nmt(text, out);
        break;
    case PRECOMPILED:
        charsmap_run(&s->charsmap, text, out);
        break;
    default: /* BYTE_LEVEL */
        if (buf_reserve(out, 2 * text.n))
            out->n += bytelevel_spell(text.p, text.n, out->p + out->n);
    }
}

/* The head is done twice, to see what becomes of it: the map of characters looks at clusters of them, which a cut would
 * part. That map also never moves what stands first, even where it leaves it out. */
static void run_charwise(const struct normalizer_step *s, struct str *text, struct buf *out, size_t *head)
{
    size_t least = s->kind == PRECOMPILED ? MIN(*head, (size_t)1) : 0;
    put_charwise(s, (struct str){text->p, *head}, out);
    if (out->failed)
        return;
    *head = MAX(out->n, least);
    buf_clear(out);
    put_charwise(s, *text, out);
    *text = buf_str(out);
}

/* An empty text stays empty whatever the step is, as in the reference: in it a pattern such as "^" is not looked for. */
static int run_step(const struct normalizer_step *s, struct str *text, struct buf *out, struct finder_run *find,
                    size_t *head, struct error *e)
{
    if (!text->n)
        return 0;
    switch (s->kind) {
    case NFC:
    case NFD:
    case NFKC:
    case NFKD:
        return run_form(s->kind, text, out, head, e);
    case REPLACE:
        return run_replace(s, text, out, find, head, e);
    case PREPEND:
        buf_put(out, s->text.p, s->text.n);
        buf_put(out, text->p, text->n);
        *text = buf_str(out);
        *head += *head ? s->text.n : 0;
        return 0;
    case STRIP:
        run_strip(s, text, head);
        return 0;
    default:
        run_charwise(s, text, out, head);
        return 0;
    }
}

/* A length within the text, to the end of the character that it cuts. */
static size_t whole_chars(struct str text, size_t n)
{
    while (n < text.n && n && ((unsigned char)text.p[n] & 0xc0) == 0x80)
        n++;
    return MIN(n, text.n);
}

int normalizer_run(const struct normalizer *z, struct str in, struct normalizer_scratch *s, struct finder_run *find,
                   struct str *out, size_t *head, struct error *e)
{
    struct buf *to = &s->a;
    size_t      longest = 0;
    int         status = 0;
    uint32_t    first;
    *out = in;
    s->a.max = s->b.max = s->left;
    *head = (size_t)utf8_decode(in.p, in.n, &first);
    for (size_t i = 0; i < z->n && !status; i++) {
        buf_clear(to);
        status = run_step(&z->v[i], out, to, find, head, e);
        *head = whole_chars(*out, *head);
        if (!status && to->failed)
            status = to->full ? growth_passed(e, "normalizer") : error_nomem(e, "normalising text");
        longest = MAX(longest, to->n);
        if (to->n && out->p == to->p)
            to = to == &s->a ? &s->b : &s->a;
    }
    s->left -= MIN(s->left, longest);
    return status;
}

int normalizer_run_step(const struct normalizer *z, size_t i, struct str in, struct normalizer_scratch *s,
                        struct finder_run *find, struct str *out, struct error *e)
{
    struct normalizer one = {.v = z->v + i, .n = 1};
    size_t            head;
    return normalizer_run(&one, in, s, find, out, &head, e);
}
