/* The normalizers NFC, NFD, NFKC, NFKD, Lowercase, Replace, Prepend, Strip and Sequence of these.
 *
 * NFC, which stands in most files and nearly always changes nothing, looks only at stretches around characters that the
 * table of unicode.h marks as unsafe: a safe character is a border, since nothing before it can change because of it.
 * The forms are utf8proc's; they differ from the reference's in a few characters that only one of their Unicode
 * versions has.
 */
#include "text/normalizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <utf8proc.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/unicode.h"

enum kind { NFC, NFD, NFKC, NFKD, LOWERCASE, REPLACE, PREPEND, STRIP };

struct normalizer_step {
    enum kind     kind;
    struct finder find;        /* REPLACE */
    struct str    text;        /* what REPLACE and PREPEND put */
    bool          left, right; /* STRIP */
};

static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Replace", "Prepend", "Strip"};

/* --- loading --------------------------------------------------------------------------------------------------------
 */

static int load_step(struct component *c, const char *type, const json_t *o, void *ctx)
{
    struct normalizer *z = ctx;
    size_t             kind = 0;
    int                status = 0;
    while (kind < ARRAY_LEN(names) && strcmp(type, names[kind]) != 0)
        kind++;
    if (kind == ARRAY_LEN(names))
        return component_unsupported(c, type);
    if (z->n == z->cap) {
        size_t                  cap = z->cap ? z->cap * 2 : 4;
        struct normalizer_step *v = realloc(z->v, cap * sizeof *v);
        if (!v)
            return error_nomem(c->e, "a tokenizer");
        z->v = v;
        z->cap = cap;
    }
    struct normalizer_step *s = &z->v[z->n++];
    *s = (struct normalizer_step){.kind = (enum kind)kind};
    if (s->kind == REPLACE && (status = finder_load(&s->find, c, json_object_get(o, "pattern"))) == 0)
        status = field_text(c, o, "content", &s->text);
    if (s->kind == PREPEND)
        status = field_text(c, o, "prepend", &s->text);
    if (s->kind == STRIP && (status = field_bool(c, o, "strip_left", &s->left)) == 0)
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

/* --- running --------------------------------------------------------------------------------------------------------
 */

void normalizer_scratch_init(struct normalizer_scratch *s)
{
    buf_init(&s->a, SIZE_MAX - 1);
    buf_init(&s->b, SIZE_MAX - 1);
}

void normalizer_scratch_deinit(struct normalizer_scratch *s)
{
    buf_deinit(&s->a);
    buf_deinit(&s->b);
}

/* Appends a normal form of text. */
static int put_form(struct str text, enum kind kind, struct buf *out, struct error *e)
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

static bool ascii(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] >= 0x80)
            return false;
    return true;
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

static int run_form(enum kind kind, struct str *text, struct buf *out, struct error *e)
{
    size_t at = 0, len;
    int    status;
    if (ascii(*text))
        return 0;
    for (; kind == NFC && at < text->n; at += len) {
        uint32_t cp = 0;
        len = (size_t)utf8_decode(text->p + at, text->n - at, &cp);
        if (unicode_class(cp) & UNICODE_NFC_UNSAFE)
            break;
    }
    if (kind == NFC && at == text->n)
        return 0;
    status = kind == NFC ? put_nfc(*text, at, out, e) : put_form(*text, kind, out, e);
    *text = buf_str(out);
    return status;
}

static void run_lowercase(struct str *text, struct buf *out)
{
    for (size_t i = 0; i < text->n;) {
        uint32_t cp = 0;
        char     c[4];
        i += (size_t)utf8_decode(text->p + i, text->n - i, &cp);
        if (cp == 0x130) { /* the one character whose lower case is two */
            buf_puts(out, "i\xcc\x87");
            continue;
        }
        buf_put(out, c, (size_t)utf8_encode((uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), c));
    }
    *text = buf_str(out);
}

static int run_replace(const struct normalizer_step *s, struct str *text, struct buf *out, struct finder_run *find,
                       struct error *e)
{
    size_t done = 0, start, end;
    bool   found = true;
    int    status = finder_begin(find, &s->find, *text, e);
    while (!status && (status = finder_next(find, &found, &start, &end, e)) == 0 && found) {
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

static void run_strip(const struct normalizer_step *s, struct str *text)
{
    uint32_t cp;
    while (s->left && text->n) {
        size_t len = (size_t)utf8_decode(text->p, text->n, &cp);
        if (!(unicode_class(cp) & UNICODE_SPACE))
            break;
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

static int run_step(const struct normalizer_step *s, struct str *text, struct buf *out, struct finder_run *find,
                    struct error *e)
{
    switch (s->kind) {
    case LOWERCASE:
        run_lowercase(text, out);
        return 0;
    case REPLACE:
        return run_replace(s, text, out, find, e);
    case PREPEND:
        if (text->n) {
            buf_put(out, s->text.p, s->text.n);
            buf_put(out, text->p, text->n);
            *text = buf_str(out);
        }
        return 0;
    case STRIP:
        run_strip(s, text);
        return 0;
    default:
        return run_form(s->kind, text, out, e);
    }
}

int normalizer_run(const struct normalizer *z, struct str in, struct normalizer_scratch *s, struct finder_run *find,
                   struct str *out, struct error *e)
{
    struct buf *to = &s->a;
    int         status = 0;
    *out = in;
    for (size_t i = 0; i < z->n && !status; i++) {
        buf_clear(to);
        status = run_step(&z->v[i], out, to, find, e);
        if (!status && to->failed)
            status = error_nomem(e, "normalising text");
        if (to->n && out->p == to->p)
            to = to == &s->a ? &s->b : &s->a;
    }
    return status;
}
