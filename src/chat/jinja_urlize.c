/* The filter urlize: addresses in a text become links. What counts as an address, and which brackets and stops around it
 * do not belong to it, is Jinja's.
 */
#include <ctype.h>
#include <strings.h>

#include "base/num.h"
#include "chat/jinja_filters.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

struct urlize {
    struct jinja_run *r;
    struct buf        out;
    struct str        rel, target; /* attributes, escaped */
    int64_t           limit;       /* characters of a link's text; -1: any */
    struct list      *schemes;     /* more beginnings of addresses, or NULL */
};

/* --- what is an address ------------------------------------------------------------------------------------------ */

static bool is_word(uint32_t cp)
{
    return cp == '_' || text_is_alpha(cp) || text_is_numeric(cp) || text_is_digit(cp);
}

static bool is_latin(uint32_t cp)
{
    return (cp | 0x20) >= 'a' && (cp | 0x20) <= 'z';
}

/* Whether s is `least` to `most` letters, digits or characters of `more`; with latin, ASCII letters only. */
static bool is_made_of(struct str s, const char *more, size_t least, size_t most, bool latin)
{
    size_t   n = 0;
    uint32_t cp;
    for (size_t i = 0; i < s.n; n++) {
        i += text_next(s, i, &cp);
        if (!(latin ? is_latin(cp) : is_word(cp)) && !(cp && cp < 0x80 && strchr(more, (int)cp)))
            return false;
    }
    return n >= least && n <= most;
}

static bool is_number(struct str s, size_t most)
{
    size_t   n = 0;
    uint32_t cp;
    for (size_t i = 0; i < s.n; n++) {
        i += text_next(s, i, &cp);
        if (!text_is_decimal(cp))
            return false;
    }
    return n >= 1 && n <= most;
}

/* s without `prefix` in any case; false when it does not begin so. */
static bool skip_prefix(struct str *s, const char *prefix)
{
    size_t n = strlen(prefix);
    if (s->n < n || strncasecmp(s->p, prefix, n) != 0)
        return false;
    *s = text_slice(*s, n, s->n);
    return true;
}

/* Cuts what stands before the next dot, or all, off *s. */
static struct str next_label(struct str *s, bool *last)
{
    const char *dot = s->n ? memchr(s->p, '.', s->n) : NULL;
    struct str  label = {s->p, dot ? (size_t)(dot - s->p) : s->n};
    *last = !dot;
    *s = text_slice(*s, label.n + (dot ? 1 : 0), s->n);
    return label;
}

/* Labels up to a top-level domain: any one behind a scheme or www, else one of the old ones. */
static bool is_domain(struct str s, bool prefixed)
{
    static const char *const old[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
    struct str               label;
    bool                     last;
    size_t                   labels = 0;
    for (; (label = next_label(&s, &last)), !last; labels++)
        if (!is_made_of(label, "%-", prefixed ? 1 : 2, prefixed ? SIZE_MAX : 63, false))
            return false;
    if (prefixed)
        return is_made_of(label, "", 2, 63, true) ||
               (skip_prefix(&label, "xn--") && is_made_of(label, "%", 2, 59, false));
    for (size_t i = 0; i < ARRAY_LEN(old); i++)
        if (labels && label.n == strlen(old[i]) && strncasecmp(label.p, old[i], label.n) == 0)
            return true;
    return false;
}

/* Up to four hexadecimal digits and a colon from *at; false when there is no colon. */
static bool skip_group(struct str s, size_t *at)
{
    for (int n = 0; n < 4 && *at < s.n && isxdigit((unsigned char)s.p[*at]); n++)
        ++*at;
    bool colon = *at < s.n && s.p[*at] == ':';
    *at += colon;
    return colon;
}

static bool is_ip(struct str s)
{
    bool   last = false;
    size_t at = 1;
    int    n = 0;
    if (!text_starts(s, STR("["))) {
        for (; !last; n++)
            if (!is_number(next_label(&s, &last), 3))
                return false;
        return n == 4;
    }
    if (!text_ends(s, STR("]")) || s.n < 3)
        return false;
    s.n--;
    for (; n < 8 && (n < 2 || at < s.n); n++)
        if (!skip_group(s, &at) && n < 2) /* the first two groups end with a colon, up to six more may */
            return false;
    return at == s.n;
}

static bool is_host(struct str s, bool prefixed, bool scheme)
{
    return is_domain(s, prefixed) || (scheme && is_ip(s));
}

static bool is_web(struct str word)
{
    struct str s = word;
    bool   scheme = skip_prefix(&s, "https://") || skip_prefix(&s, "http://"), www = !scheme && skip_prefix(&s, "www.");
    size_t end = 0;
    while (end < s.n && s.p[end] != '/' && s.p[end] != '?' && s.p[end] != '#')
        end++;
    s.n = end; /* a path or query may be anything */
    const char *colon = s.n ? memrchr(s.p, ':', s.n) : NULL;
    struct str  host = s;
    if (colon && is_number((struct str){colon + 1, (size_t)(s.p + s.n - colon) - 1}, 5))
        host.n = (size_t)(colon - s.p);
    if (is_host(host, scheme || www, scheme) || (host.n < s.n && is_host(s, scheme || www, scheme)))
        return true;
    return www && is_domain((struct str){word.p, host.n + 4}, false);
}

static bool is_mail(struct str s)
{
    const char *at = s.n ? memrchr(s.p, '@', s.n) : NULL;
    uint32_t    cp;
    if (!at || at == s.p)
        return false;
    s = text_slice(s, (size_t)(at - s.p) + 1, s.n);
    const char *dot = s.n ? memrchr(s.p, '.', s.n) : NULL;
    if (!dot || dot == s.p)
        return false;
    struct str last = text_slice(s, (size_t)(dot - s.p) + 1, s.n);
    text_next(s, 0, &cp);
    return is_word(cp) && is_made_of(s, ".-", 1, SIZE_MAX, false) && is_made_of(last, "", 1, SIZE_MAX, false);
}

static bool is_scheme(struct str s)
{
    for (int i = 0; i < 2 && text_ends(s, STR("/")); i++)
        s.n--;
    if (!text_ends(s, STR(":")))
        return false;
    s.n--;
    return is_made_of(s, ".+-", 2, SIZE_MAX, false);
}

/* --- links ------------------------------------------------------------------------------------------------------- */

static void put_link(struct urlize *u, const char *before, struct str address, struct str text, bool attributes)
{
    size_t cut = u->limit >= 0 ? text_offset(text, (size_t)u->limit) : text.n;
    bool   shortened = attributes && cut < text.n;
    buf_printf(&u->out, "<a href=\"%s" STR_FMT "\"", before, STR_ARG(address));
    if (attributes) {
        buf_put(&u->out, u->rel.p, u->rel.n);
        buf_put(&u->out, u->target.p, u->target.n);
    }
    buf_putc(&u->out, '>');
    buf_put(&u->out, text.p, shortened ? cut : text.n);
    buf_puts(&u->out, shortened ? "...</a>" : "</a>");
}

static bool has(struct str s, char c)
{
    return s.n && memchr(s.p, c, s.n);
}

/* An address with a scheme that the caller names: its whole text is shown. */
static bool put_scheme_link(struct urlize *u, struct str s)
{
    int64_t limit = u->limit;
    for (size_t i = 0; u->schemes && i < u->schemes->n && jinja_spend(u->r, 1); i++) {
        struct str scheme = u->schemes->v[i].u.s;
        if (s.n <= scheme.n || !text_starts(s, scheme))
            continue;
        u->limit = -1;
        put_link(u, "", s, s, true);
        u->limit = limit;
        return true;
    }
    return false;
}

static void put_middle(struct urlize *u, struct str s)
{
    struct str mail = text_starts(s, STR("mailto:")) ? text_slice(s, 7, s.n) : STR("");
    if (is_web(s)) {
        bool full = text_starts(s, STR("https://")) || text_starts(s, STR("http://"));
        put_link(u, full ? "" : "https://", s, s, true);
    } else if (mail.n && is_mail(mail))
        put_link(u, "", s, mail, false);
    else if (has(s, '@') && !text_starts(s, STR("www.")) && s.p[0] != '@' && !has(s, ':') && is_mail(s))
        put_link(u, "mailto:", s, s, false);
    else if (!put_scheme_link(u, s))
        buf_put(&u->out, s.p, s.n);
}

/* Bytes of an opening bracket at the beginning, or 0. */
static size_t opening(struct str s)
{
    return text_starts(s, STR("(")) || text_starts(s, STR("<")) ? 1 : text_starts(s, STR("&lt;")) ? 4 : 0;
}

/* Bytes of a closing bracket or a stop at the end, or 0. */
static size_t closing(struct str s)
{
    if (text_ends(s, STR("&gt;")))
        return 4;
    return s.n && strchr(")>.,\n", s.p[s.n - 1]) && s.p[s.n - 1] ? 1 : 0;
}

static size_t count_of(struct str s, struct str what)
{
    size_t n = 0;
    for (long at; (at = text_find(s, what)) >= 0; n++)
        s = text_slice(s, (size_t)at + what.n, s.n);
    return n;
}

/* A closing bracket that has its partner inside belongs to the address: how far the middle then reaches. */
static size_t balanced(struct str word, size_t from, size_t to)
{
    static const struct {
        struct str open, close;
    } pairs[] = {{{"(", 1}, {")", 1}}, {{"<", 1}, {">", 1}}, {{"&lt;", 4}, {"&gt;", 4}}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct str middle = text_slice(word, from, to);
        size_t     open = count_of(middle, pairs[i].open);
        if (open <= count_of(middle, pairs[i].close))
            continue;
        for (size_t n = MIN(open, count_of(text_slice(word, to, word.n), pairs[i].close)); n > 0; n--)
            to += (size_t)text_find(text_slice(word, to, word.n), pairs[i].close) + pairs[i].close.n;
    }
    return to;
}

static void put_word(struct urlize *u, struct str word)
{
    size_t from = 0, to = word.n, n;
    while ((n = opening(text_slice(word, from, to))))
        from += n;
    while ((n = closing(text_slice(word, from, to))))
        to -= n;
    to = balanced(word, from, to);
    buf_put(&u->out, word.p, from);
    if (to > from)
        put_middle(u, text_slice(word, from, to));
    buf_put(&u->out, word.p + to, word.n - to);
}

/* ' NAME="value"' */
static struct str attribute(struct jinja_run *r, const char *name, struct str value)
{
    struct buf b;
    if (!value.n)
        return value;
    jinja_buf_init(r, &b);
    buf_printf(&b, " %s=\"", name);
    jinja_put_escaped(&b, value);
    buf_putc(&b, '"');
    return jinja_take(r, &b).u.s;
}

/* The words of rel, "noopener" and perhaps "nofollow": sorted, each once. */
static struct str rel_words(struct jinja_run *r, struct value rel, bool nofollow)
{
    static const struct jinja_args none = {0};
    struct value      joined = value_str(rel.type == VALUE_STRING ? rel.u.s : STR("")), glue = value_str(STR(" "));
    struct jinja_args args = {.n = 1, .v = &joined};
    struct str        more = nofollow ? STR(" noopener nofollow") : STR(" noopener");
    struct buf        b;
    jinja_buf_init(r, &b);
    buf_put(&b, joined.u.s.p, joined.u.s.n);
    buf_put(&b, more.p, more.n);
    joined = jinja_take(r, &b);
    joined = jinja_call_row(r, jinja_method_row(VALUE_STRING, STR("split")), joined, &none);
    joined = jinja_call_row(r, jinja_filter_row(STR("sort")), joined, &none);
    joined = jinja_call_row(r, jinja_filter_row(STR("unique")), joined, &none);
    joined = jinja_call_row(r, jinja_method_row(VALUE_STRING, STR("join")), glue, &args);
    return r->status ? STR("") : joined.u.s;
}

static bool prepare(struct urlize *u, const struct jinja_call *c)
{
    u->limit = jinja_arg_int(u->r, c->arg[0], -1);
    u->rel = attribute(u->r, "rel", rel_words(u->r, c->arg[3], value_truth(c->arg[1])));
    if (value_truth(c->arg[2]))
        u->target = attribute(u->r, "target", jinja_text(u->r, c->arg[2]));
    if (c->arg[4].type != VALUE_ABSENT && c->arg[4].type != VALUE_NONE)
        u->schemes = jinja_items(u->r, c->arg[4]);
    for (size_t i = 0; u->schemes && i < u->schemes->n && !u->r->status; i++)
        if (u->schemes->v[i].type != VALUE_STRING || !is_scheme(u->schemes->v[i].u.s))
            jinja_fail(u->r, "an extra scheme is not a valid URI scheme prefix");
    return !u->r->status;
}

struct value filter_urlize(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct urlize u = {.r = r};
    struct str    s = jinja_escaped(r, v);
    uint32_t      cp;
    jinja_buf_init(r, &u.out);
    bool ready = !r->status && prepare(&u, c);
    for (size_t at = 0, end, n; ready && at < s.n && jinja_spend(r, 1); at = end) {
        bool blank = (text_next(s, at, &cp), text_is_space(cp));
        for (end = at; end < s.n; end += n) {
            n = text_next(s, end, &cp);
            if (text_is_space(cp) != blank)
                break;
        }
        if (blank)
            buf_put(&u.out, s.p + at, end - at);
        else
            put_word(&u, text_slice(s, at, end));
    }
    struct value made = jinja_take(r, &u.out);
    made.markup = r->autoescape;
    return made;
}
