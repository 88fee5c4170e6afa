/* The filter urlize: addresses in a text become links. What counts as an address, and which brackets and stops around it
 * do not belong to it, is Jinja's.
 */
#include "base/num.h"
#include "chat/jinja_filters.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"
#include "text/regex.h"

#define PORT_PATH "(?::\\d{1,5})?(?:[/?#]\\S*)?"
#define WEB                                                                                                            \
    "(?:(?:https?://|www\\.)(?:(?:[\\w%\\-]+\\.)+)?(?:[a-z]{2,63}|xn--[\\w%]{2,59})|"                                  \
    "(?:[\\w%\\-]{2,63}\\.)+(?:com|net|int|edu|gov|org|info|mil)|"                                                     \
    "https?://(?:\\d{1,3}(?:\\.\\d{1,3}){3}|\\[(?:[\\da-f]{0,4}:){2}(?:[\\da-f]{0,4}:?){1,6}\\]))" PORT_PATH
#define MAIL "\\S+@\\w[\\w.\\-]*\\.\\w+"
#define SCHEME "[\\w.+\\-]{2,}:/{0,2}"

enum kind { KIND_WEB, KIND_MAIL, KIND_SCHEME, KIND_COUNT };

struct urlize {
    struct jinja_run *r;
    struct regex     *re[KIND_COUNT];
    struct buf        out;
    struct str        rel, target; /* attributes, escaped */
    int64_t           limit;       /* characters of a link's text; -1: any */
    struct list      *schemes;     /* more beginnings of addresses, or NULL */
};

/* Whether the whole of s is of the kind. */
static bool is_kind(struct urlize *u, enum kind kind, struct str s)
{
    struct regex_run run;
    struct error     why = {0};
    bool             found = false;
    size_t           start = 0, end = 0;
    if (u->r->status || !jinja_spend(u->r, s.n))
        return false;
    regex_run_init(&run, s.n);
    int rc = regex_begin(&run, u->re[kind], s, &why);
    if (!rc)
        rc = regex_next(&run, &found, &start, &end, &why);
    regex_run_deinit(&run);
    if (rc == ERR_NOMEM)
        jinja_fail_memory(u->r, false);
    else if (rc)
        jinja_fail_limit(u->r, "the time of urlize");
    return !rc && found;
}

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
    if (is_kind(u, KIND_WEB, s)) {
        bool full = text_starts(s, STR("https://")) || text_starts(s, STR("http://"));
        put_link(u, full ? "" : "https://", s, s, true);
    } else if (mail.n && is_kind(u, KIND_MAIL, mail))
        put_link(u, "", s, mail, false);
    else if (has(s, '@') && !text_starts(s, STR("www.")) && s.p[0] != '@' && !has(s, ':') && is_kind(u, KIND_MAIL, s))
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
    static const char *const patterns[] = {"\\A(?i:" WEB ")\\z", "\\A(?:" MAIL ")\\z", "\\A(?:" SCHEME ")\\z"};
    struct error             why = {0};
    for (int i = 0; i < KIND_COUNT; i++) {
        int rc = regex_new(&u->re[i], str_of(patterns[i]), &why);
        if (rc == ERR_NOMEM)
            jinja_fail_memory(u->r, false);
        else if (rc)
            jinja_fail(u->r, "%s", why.msg);
        if (rc)
            return false;
    }
    u->limit = jinja_arg_int(u->r, c->arg[0], -1);
    u->rel = attribute(u->r, "rel", rel_words(u->r, c->arg[3], value_truth(c->arg[1])));
    if (value_truth(c->arg[2]))
        u->target = attribute(u->r, "target", jinja_text(u->r, c->arg[2]));
    if (c->arg[4].type != VALUE_ABSENT && c->arg[4].type != VALUE_NONE)
        u->schemes = jinja_items(u->r, c->arg[4]);
    for (size_t i = 0; u->schemes && i < u->schemes->n && !u->r->status; i++)
        if (u->schemes->v[i].type != VALUE_STRING || !is_kind(u, KIND_SCHEME, u->schemes->v[i].u.s))
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
    for (int i = 0; i < KIND_COUNT; i++)
        regex_free(u.re[i]);
    struct value made = jinja_take(r, &u.out);
    made.markup = r->autoescape;
    return made;
}
