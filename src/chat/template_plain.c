/* Control tokens in the request's strings are put between two marks, noncharacters that nothing else in the request or
 * the template contains; after the rendering the marks are taken out again and leave their places behind. A template may
 * have split, cut or JSON-escaped what was marked: a mark without its partner still keeps what is on its two sides from
 * becoming one token. Contract in template_plain.h. */
#include "chat/template_plain.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "chat/template_int.h"

#define MARKS_FIRST 0xfdd0u /* .. U+FDEF: noncharacters, for use inside programs */
#define MARKS 32
#define TEXT_MAX ((size_t)256 << 20)

/* A mark as it may stand in a text. */
struct mark {
    char raw[4], escaped[7]; /* UTF-8; \ufddX as json.dumps writes it */
};

struct marker {
    const struct chat_template *t;
    const struct tokenizer     *tokenizer;
    struct mark                 start, end;
    unsigned char              *control; /* [tokenizer_size] what is known of added tokens: enum control */
};

enum control { CONTROL_UNKNOWN, CONTROL_NO, CONTROL_YES };

static struct mark make_mark(unsigned i)
{
    struct mark m;
    m.raw[utf8_encode(MARKS_FIRST + i, m.raw)] = '\0';
    snprintf(m.escaped, sizeof m.escaped, "\\u%x", MARKS_FIRST + i);
    return m;
}

static bool mentions(const struct chat_template *t, struct str text)
{
    return (t->main && jinja_mentions(t->main, text)) || (t->tool_use && jinja_mentions(t->tool_use, text));
}

/* Chooses two marks that neither the request nor the template contains. */
static int choose_marks(struct marker *m, const json_t *request, struct error *e)
{
    char *text = json_dumps(request, JSON_COMPACT);
    int   found = 0;
    if (!text)
        return error_nomem(e, "a chat");
    for (unsigned i = 0; i < MARKS && found < 2; i++) {
        struct mark k = make_mark(i);
        if (!strstr(text, k.raw) && !strcasestr(text, k.escaped + 1) && !mentions(m->t, str_of(k.raw)) &&
            !mentions(m->t, str_of(k.escaped)))
            *(found++ ? &m->end : &m->start) = k;
    }
    free(text);
    return found == 2 ? 0
                      : error_set(e, ERR_INVALID, "messages",
                                  "the request contains too many of the noncharacters U+FDD0 to U+FDEF");
}

static bool find_control(const struct marker *m, int32_t id)
{
    struct str token = tokenizer_token(m->tokenizer, id);
    size_t     blank = 0;
    while (blank < token.n && strchr(" \t\r\n", token.p[blank]))
        blank++;
    return blank < token.n && (tokenizer_is_special(m->tokenizer, id) || mentions(m->t, token));
}

/* Asked for every place where a token is typed, found out once: that reads the whole template. */
static bool is_control(const struct marker *m, int32_t id)
{
    if (m->control[id] == CONTROL_UNKNOWN)
        m->control[id] = find_control(m, id) ? CONTROL_YES : CONTROL_NO;
    return m->control[id] == CONTROL_YES;
}

/* A copy of a string with its control tokens marked; NULL when out of memory. */
static json_t *mark_string(const struct marker *m, const json_t *string)
{
    struct str text = {json_string_value(string), json_string_length(string)};
    size_t     done = 0;
    int32_t    id;
    struct buf b;
    buf_init(&b, TEXT_MAX);
    for (size_t at = 0; tokenizer_next_added(m->tokenizer, text, &at, &id);) {
        size_t n = tokenizer_token(m->tokenizer, id).n;
        if (is_control(m, id)) {
            buf_put(&b, text.p + done, at - done);
            buf_puts(&b, m->start.raw);
            buf_put(&b, text.p + at, n);
            buf_puts(&b, m->end.raw);
            done = at + n;
        }
        at += n;
    }
    buf_put(&b, text.p + done, text.n - done);
    json_t *copy = b.failed ? NULL : json_stringn(buf_cstr(&b), b.n);
    buf_deinit(&b);
    return copy;
}

/* A copy of a value with the strings in it marked; NULL when out of memory. */
static json_t *mark_value(const struct marker *m, const json_t *value)
{
    const char *key;
    json_t     *item, *copy;
    size_t      i;
    bool        failed = false;
    if (json_is_string(value))
        return mark_string(m, value);
    if (!json_is_object(value) && !json_is_array(value))
        return json_incref((json_t *)value);
    copy = json_is_object(value) ? json_object() : json_array();
    if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, item) failed |= json_object_set_new(copy, key, mark_value(m, item));
    } else {
        json_array_foreach((json_t *)value, i, item) failed |= json_array_append_new(copy, mark_value(m, item));
    }
    if (failed) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

/* The length of a mark at p, 0 if there is none. */
static size_t mark_at(const struct mark *m, const char *p, size_t n)
{
    size_t raw = strlen(m->raw), escaped = strlen(m->escaped);
    if (n >= raw && !memcmp(p, m->raw, raw))
        return raw;
    return n >= escaped && !strncasecmp(p, m->escaped, escaped) ? escaped : 0;
}

/* Appends text without its marks; the places of what they mark go to *plain. */
static int unmark(const struct marker *m, struct str text, struct buf *out, struct plain_spans *plain, struct error *e)
{
    size_t opened = SIZE_MAX, base = out->n;
    bool   ok = true;
    for (size_t i = 0, n; i < text.n && ok; i += n) {
        size_t here = out->n - base;
        if ((n = mark_at(&m->start, text.p + i, text.n - i)) != 0) {
            if (opened != SIZE_MAX)
                ok = plain_spans_push(plain, opened, opened);
            opened = here;
        } else if ((n = mark_at(&m->end, text.p + i, text.n - i)) != 0) {
            ok = plain_spans_push(plain, opened == SIZE_MAX ? here : opened, here);
            opened = SIZE_MAX;
        } else {
            n = 1;
            buf_putc(out, text.p[i]);
        }
    }
    if (ok && opened != SIZE_MAX)
        ok = plain_spans_push(plain, opened, opened);
    return ok && !out->failed ? 0 : error_nomem(e, "a chat");
}

int chat_template_render_plain(const struct chat_template *t, const struct tokenizer *tokenizer, const json_t *request,
                               int64_t now, struct buf *out, struct plain_spans *plain, struct error *e)
{
    struct marker m = {.t = t, .tokenizer = tokenizer};
    struct buf    text;
    json_t       *marked = NULL;
    int           rc = choose_marks(&m, request, e);
    buf_init(&text, TEXT_MAX);
    m.control = calloc((size_t)tokenizer_size(tokenizer) + 1, 1);
    if (!rc && (!m.control || !(marked = mark_value(&m, request))))
        rc = error_nomem(e, "a chat");
    if (!rc)
        rc = chat_template_render(t, marked, now, &text, e);
    if (!rc)
        rc = unmark(&m, buf_str(&text), out, plain, e);
    json_decref(marked);
    buf_deinit(&text);
    free(m.control);
    return rc;
}
