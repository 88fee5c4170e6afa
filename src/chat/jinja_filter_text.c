/* Filters on one string. Names, arguments and results are Jinja's. */
#include <stdio.h>

#include "base/num.h"
#include "chat/jinja_filters.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

/* A string made from v's text keeps being markup. */
static struct value like(struct value s, struct value made)
{
    made.markup = s.type == VALUE_STRING && s.markup;
    return made;
}

struct value filter_string(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)c;
    return jinja_str(r, v);
}

struct value filter_safe(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)c;
    return value_markup(jinja_text(r, v), true);
}

struct value filter_escape(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)c;
    return value_markup(jinja_escaped(r, v), true);
}

struct value filter_forceescape(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)c;
    return value_markup(jinja_escaped(r, value_str(jinja_text(r, v))), true);
}

/* --- case -------------------------------------------------------------------------------------------------------- */

/* Whether the capital sigma at [from, to) ends a word. */
static bool final_sigma(struct str s, size_t from, size_t to)
{
    uint32_t cp = 0;
    for (bool ignored = true; ignored && from; ignored = text_is_case_ignorable(cp))
        from -= text_prev(s, from, &cp);
    if (!text_is_cased(cp) || text_is_case_ignorable(cp))
        return false;
    cp = 0;
    for (bool ignored = true; ignored && to < s.n; ignored = text_is_case_ignorable(cp))
        to += text_next(s, to, &cp);
    return !text_is_cased(cp) || text_is_case_ignorable(cp);
}

static struct value to_case(struct jinja_run *r, struct value v, enum text_case to)
{
    struct value s = jinja_str(r, v);
    struct buf   b;
    uint32_t     cp;
    if (r->status || !jinja_spend(r, s.u.s.n / 8))
        return value_none();
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < s.u.s.n;) {
        size_t n = text_next(s.u.s, i, &cp);
        bool   sigma = to == TEXT_LOWER && cp == 0x3a3 && final_sigma(s.u.s, i, i + n);
        text_put_case(&b, sigma ? 0x3c2 : cp, to);
        i += n;
    }
    return like(s, jinja_take(r, &b));
}

struct value filter_upper(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)c;
    return to_case(r, v, TEXT_UPPER);
}

struct value filter_lower(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)c;
    return to_case(r, v, TEXT_LOWER);
}

struct value jinja_fold(struct jinja_run *r, struct value v)
{
    return v.type == VALUE_STRING ? to_case(r, v, TEXT_LOWER) : v;
}

struct value filter_capitalize(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct value s = jinja_str(r, v);
    struct buf   b;
    uint32_t     cp;
    (void)c;
    if (r->status || !jinja_spend(r, s.u.s.n / 8))
        return value_none();
    jinja_buf_init(r, &b);
    for (size_t i = 0, at = 0; i < s.u.s.n; at = i) {
        i += text_next(s.u.s, i, &cp);
        text_put_case(&b, cp, at ? TEXT_LOWER : TEXT_TITLE);
    }
    return like(s, jinja_take(r, &b));
}

/* A word begins after white space or one of - ( { [ <. */
struct value filter_title(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct value s = jinja_str(r, v);
    struct buf   b;
    uint32_t     cp;
    bool         first = true;
    (void)c;
    if (r->status || !jinja_spend(r, s.u.s.n / 8))
        return value_none();
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < s.u.s.n;) {
        i += text_next(s.u.s, i, &cp);
        text_put_case(&b, cp, first ? TEXT_UPPER : TEXT_LOWER);
        first = text_is_space(cp) || (cp && cp < 0x80 && strchr("-({[<", (int)cp));
    }
    return jinja_take(r, &b);
}

/* --- cutting and replacing --------------------------------------------------------------------------------------- */

struct value filter_trim(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct value s = jinja_str(r, v);
    struct value chars = c->arg[0].type == VALUE_NONE ? (struct value){.type = VALUE_ABSENT} : c->arg[0];
    struct str   set = jinja_arg_str(r, chars, STR(""));
    if (r->status || !jinja_spend(r, s.u.s.n / 16))
        return value_none();
    return value_markup(text_strip(s.u.s, chars.type == VALUE_ABSENT ? NULL : &set, TEXT_BOTH), s.markup);
}

struct value jinja_replace(struct jinja_run *r, struct str s, struct str old, struct str new, int64_t count)
{
    struct buf b;
    uint32_t   cp;
    size_t     at = 0;
    jinja_buf_init(r, &b);
    jinja_spend(r, s.n / 16);
    while (count && !b.failed && jinja_spend(r, 1)) {
        struct str rest = text_slice(s, at, s.n);
        long       next = text_find(rest, old);
        if (next < 0)
            break;
        buf_put(&b, rest.p, (size_t)next);
        buf_put(&b, new.p, new.n);
        at += (size_t)next + old.n;
        count--;
        if (old.n)
            continue;
        if (at >= s.n) { /* "" also stands at the end */
            at = s.n;
            break;
        }
        size_t n = text_next(s, at, &cp);
        buf_put(&b, s.p + at, n);
        at += n;
    }
    buf_put(&b, s.p + at, s.n - at);
    return jinja_take(r, &b);
}

/* Markup stays markup: then the replacement is escaped. */
struct value filter_replace(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct str s = jinja_text(r, v), old = jinja_text(r, c->arg[0]), new = jinja_text(r, c->arg[1]);
    int64_t    count = jinja_arg_int(r, c->arg[2], -1);
    bool       markup = r->autoescape && v.type == VALUE_STRING && v.markup;
    if (markup)
        new = jinja_escaped(r, c->arg[1]);
    struct value made = r->status ? value_none() : jinja_replace(r, s, old, new, count);
    made.markup = markup;
    return made;
}

/* The reference that s begins with, as "&#39;" or "&amp;": its length, or 0; *cp: what it means. */
static size_t reference(struct str s, uint32_t *cp)
{
    static const struct {
        const char *name;
        uint32_t    cp;
    } named[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&nbsp;", 0xa0}};
    for (size_t i = 0; i < ARRAY_LEN(named); i++)
        if (text_starts(s, str_of(named[i].name))) {
            *cp = named[i].cp;
            return strlen(named[i].name);
        }
    bool   hex = text_starts(s, STR("&#x")) || text_starts(s, STR("&#X"));
    size_t at = text_starts(s, STR("&#")) ? (hex ? 3 : 2) : s.n, start = at;
    for (*cp = 0; at < s.n && at < start + 8; at++) {
        char c = s.p[at];
        int  digit = c >= '0' && c <= '9'                            ? c - '0'
                     : hex && (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                     : -1;
        if (digit < 0)
            break;
        *cp = *cp * (hex ? 16 : 10) + (uint32_t)digit;
    }
    if (at == start || start == s.n)
        return 0;
    if (*cp > 0x10ffff || !*cp || (*cp >= 0xd800 && *cp < 0xe000))
        *cp = 0xfffd;
    return at + (at < s.n && s.p[at] == ';');
}

void jinja_put_unescaped(struct buf *b, struct str s)
{
    for (size_t i = 0; i < s.n;) {
        uint32_t cp;
        size_t   n = s.p[i] == '&' ? reference(text_slice(s, i, s.n), &cp) : 0;
        if (n)
            text_put(b, cp);
        else
            buf_putc(b, s.p[i]);
        i += n ? n : 1;
    }
}

/* Tags and comments go, runs of white space become one blank, and references are resolved. */
struct value filter_striptags(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct str s = jinja_text(r, v);
    struct buf b, out;
    uint32_t   cp;
    (void)c;
    jinja_spend(r, s.n / 8);
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < s.n;) {
        struct str rest = text_slice(s, i, s.n);
        bool       comment = text_starts(rest, STR("<!--"));
        long end = s.p[i] == '<' && jinja_spend(r, rest.n / 64) ? text_find(rest, comment ? STR("-->") : STR(">")) : -1;
        if (end >= 0)
            i += (size_t)end + (comment ? 3 : 1);
        else
            buf_putc(&b, s.p[i++]);
    }
    s = text_strip(jinja_take(r, &b).u.s, NULL, TEXT_BOTH);
    jinja_buf_init(r, &b);
    for (size_t i = 0, n; i < s.n; i += n) {
        n = text_next(s, i, &cp);
        if (!text_is_space(cp))
            buf_put(&b, s.p + i, n);
        else if (text_next(s, i + n, &cp), !text_is_space(cp)) /* stripped: something follows */
            buf_putc(&b, ' ');
    }
    s = jinja_take(r, &b).u.s;
    jinja_buf_init(r, &out);
    jinja_put_unescaped(&out, s);
    return jinja_take(r, &out);
}

/* In a path a slash stands for itself; in a query a blank is a plus sign. */
static void put_percent(struct buf *b, struct str s, bool query)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char ch = (unsigned char)s.p[i];
        bool          plain = (ch >= '0' && ch <= '9') || ((ch | 0x20) >= 'a' && (ch | 0x20) <= 'z') ||
                     (ch && strchr("_.-~", ch)) || (!query && ch == '/');
        if (plain || (query && ch == ' '))
            buf_putc(b, plain ? (char)ch : '+');
        else
            buf_put(b, (char[]){'%', "0123456789ABCDEF"[ch >> 4], "0123456789ABCDEF"[ch & 15]}, 3);
    }
}

/* A string's characters as %XX; a mapping or list of pairs as a query. */
struct value filter_urlencode(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct buf b;
    (void)c;
    if (v.type != VALUE_DICT && v.type != VALUE_LIST && v.type != VALUE_TUPLE && v.type != VALUE_VIEW) {
        struct str s = jinja_text(r, v);
        jinja_spend(r, s.n / 4);
        jinja_buf_init(r, &b);
        put_percent(&b, s, false);
        return jinja_take(r, &b);
    }
    struct list *items = jinja_items(r, v);
    jinja_buf_init(r, &b);
    for (size_t i = 0; items && i < items->n && jinja_spend(r, 1); i++) {
        struct list *pair = v.type == VALUE_DICT ? jinja_pair(r, v.u.dict->v[i].key, v.u.dict->v[i].value)
                                                 : jinja_items(r, items->v[i]);
        if (!pair || pair->n != 2) {
            jinja_fail(r, "urlencode needs pairs");
            break;
        }
        buf_puts(&b, i ? "&" : "");
        put_percent(&b, jinja_text(r, pair->v[0]), true);
        buf_putc(&b, '=');
        put_percent(&b, jinja_text(r, pair->v[1]), true);
    }
    return jinja_take(r, &b);
}

struct value filter_format(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct value s = jinja_str(r, v);
    struct dict *named;
    if (r->status)
        return value_none();
    if (c->args->n && c->args->n_keywords)
        return jinja_fail(r, "can't handle positional and keyword arguments at the same time");
    if (!c->args->n_keywords) {
        struct list *list = jinja_list(r, c->args->n);
        for (size_t i = 0; list && i < list->n; i++)
            list->v[i] = c->args->v[i];
        return r->status ? value_none() : jinja_percent(r, s, value_tuple(list));
    }
    named = jinja_dict(r);
    for (size_t i = 0; i < c->args->n_keywords; i++)
        jinja_dict_set(r, named, value_str(c->args->keywords[i].name), c->args->keywords[i].value);
    return r->status ? value_none() : jinja_percent(r, s, value_dict(named));
}
