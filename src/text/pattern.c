/* A reader of Oniguruma's syntax by recursive descent over classes only: outside them the pattern is copied element by
 * element, since its structure needs no understanding (PCRE2 checks that groups and quantifiers are in place).
 *
 * Oniguruma's own ways that are kept: ^ and $ hold at every line, `.` is anything but a newline, \s and \w are
 * Unicode's,
 * {,n} is {0,n}, and a class may hold classes and intersections ([\p{L}&&[^a-z]]). */
#include "text/pattern.h"

#include <stdio.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/unicode.h"

#define CLASS_DEPTH_MAX 16
#define STRUCTURE_MAX ((size_t)1 << 20)

struct reader {
    struct pattern *out;
    struct str      source;
    const char     *p, *end;
    bool            fold;        /* inside (?i: */
    bool            fold_of[64]; /* the same of the open groups */
    int             depth;
    struct error   *e;
};

static int refuse(struct reader *r, int code, const char *what)
{
    size_t n = MIN(r->source.n, (size_t)300);
    return error_set(r->e, code, NULL, "the regular expression '%.*s'%s %s", (int)n, r->source.p,
                     n < r->source.n ? " (cut)" : "", what);
}

static int unsupported(struct reader *r, const char *what)
{
    char msg[100];
    snprintf(msg, sizeof msg, "uses %s, which is not supported", what);
    return refuse(r, ERR_UNSUPPORTED, msg);
}

static bool at(const struct reader *r, const char *z)
{
    size_t n = strlen(z);
    return (size_t)(r->end - r->p) >= n && memcmp(r->p, z, n) == 0;
}

static bool accept(struct reader *r, const char *z)
{
    bool yes = at(r, z);
    if (yes)
        r->p += strlen(z);
    return yes;
}

/* --- sets ------------------------------------------------------------------------------------------------------- */

static bool same_set(const struct charset *a, const struct charset *b)
{
    return a->n == b->n && (!a->n || memcmp(a->v, b->v, a->n * sizeof *a->v) == 0);
}

/* Writes a mark for the set, which it takes over. */
static int put_set(struct reader *r, struct charset *s)
{
    struct pattern *out = r->out;
    size_t          i = 0;
    charset_sort(s);
    if (s->failed) {
        charset_deinit(s);
        return error_nomem(r->e, "a regular expression");
    }
    while (i < out->n_sets && !same_set(&out->sets[i], s))
        i++;
    if (i == PATTERN_SETS_MAX) {
        charset_deinit(s);
        return refuse(r, ERR_LIMIT, "has more than 1024 different characters and classes");
    }
    if (i == out->n_sets)
        out->sets[out->n_sets++] = *s;
    else
        charset_deinit(s);
    buf_printf(&out->structure, "%c%zu;", PATTERN_SET_MARK, i);
    return 0;
}

static int put_char(struct reader *r, uint32_t cp)
{
    struct charset s = {0};
    charset_add(&s, cp, cp);
    if (r->fold)
        charset_fold(&s);
    return put_set(r, &s);
}

/* An assertion about a line feed at this place: `form` has one %s for the set's mark. */
static int put_line_edge(struct reader *r, const char *before, const char *after, bool negate)
{
    struct charset s = {0};
    int            status;
    charset_add(&s, '\n', '\n');
    if (negate)
        charset_negate(&s);
    buf_puts(&r->out->structure, before);
    status = put_set(r, &s);
    buf_puts(&r->out->structure, after);
    return status;
}

/* \b and \B: the sides differ, or do not differ, in being word characters. */
static int put_word_edge(struct reader *r, bool edge)
{
    static const char *const forms[2][4] = {{"(?:(?<=", ")(?=", ")|(?<!", ")(?!"},
                                            {"(?:(?<=", ")(?!", ")|(?<!", ")(?="}};
    int                      status = 0;
    for (int i = 0; i < 4 && !status; i++) {
        struct charset word = {0};
        charset_add_class(&word, 0, UNICODE_WORD);
        buf_puts(&r->out->structure, forms[edge][i]);
        status = put_set(r, &word);
    }
    buf_puts(&r->out->structure, "))");
    return status;
}

/* --- escapes ---------------------------------------------------------------------------------------------------- */

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Up to `max` hexadecimal digits; false when there are fewer than `min` or the value is no character. */
static bool hex(struct reader *r, int min, int max, uint32_t *cp)
{
    int n = 0;
    *cp = 0;
    for (; n < max && r->p < r->end && num_hex_digit(*r->p) >= 0; n++)
        *cp = *cp * 16 + (uint32_t)num_hex_digit(*r->p++);
    return n >= min && *cp < UNICODE_END;
}

/* The character that the escape at r->p (after the backslash) stands for. */
static int char_escape(struct reader *r, uint32_t *cp)
{
    static const char from[] = "ntrfvae", to[] = "\n\t\r\f\v\a\x1b";
    const char       *hit = strchr(from, *r->p);
    if (!is_alnum(*r->p)) {
        int len = utf8_decode(r->p, (size_t)(r->end - r->p), cp);
        r->p += len;
        return 0;
    }
    if (hit) {
        *cp = (unsigned char)to[hit - from];
        r->p++;
        return 0;
    }
    if (accept(r, "u"))
        return hex(r, 4, 4, cp) ? 0 : refuse(r, ERR_FORMAT, "has a malformed \\u escape");
    if (accept(r, "x{")) {
        if (!hex(r, 1, 8, cp) || !accept(r, "}"))
            return refuse(r, ERR_FORMAT, "has a malformed \\x{} escape");
        return 0;
    }
    if (accept(r, "x")) {
        if (!hex(r, 1, 2, cp))
            return refuse(r, ERR_FORMAT, "has a malformed \\x escape");
        return *cp < 0x80 ? 0 : unsupported(r, "a \\x escape of a byte beyond ASCII");
    }
    char what[] = "the escape \\?";
    what[sizeof what - 2] = *r->p;
    return unsupported(r, what);
}

/* \p{..} or \P{..}, after the p. */
static int property(struct reader *r, bool negate, struct charset *s)
{
    const char *close = accept(r, "{") ? memchr(r->p, '}', (size_t)(r->end - r->p)) : NULL;
    if (!close)
        return unsupported(r, "\\p without braces");
    if (accept(r, "^"))
        negate = !negate;
    struct str name = {r->p, (size_t)(close - r->p)};
    uint32_t   set = unicode_categories(name);
    if (!set) {
        char what[60];
        snprintf(what, sizeof what, "the property \\p{%.*s}", (int)MIN(name.n, (size_t)40), name.p);
        return unsupported(r, what);
    }
    charset_add_class(s, negate ? ~set : set, 0);
    r->p = close + 1;
    return 0;
}

/* If the escape at r->p (after the backslash) is a class, adds it to s and sets *is_class. */
static int class_escape(struct reader *r, struct charset *s, bool *is_class)
{
    struct charset one = {0};
    int            status = 0;
    char           c = *r->p;
    *is_class = c && strchr("dDsSwWpP", c);
    if (!*is_class)
        return 0;
    r->p++;
    if (c == 'p' || c == 'P')
        return property(r, c == 'P', s);
    charset_add_class(&one, (c | 32) == 'd' ? 1u << UNICODE_ND : 0,
                      (c | 32) == 's'   ? UNICODE_SPACE
                      : (c | 32) == 'w' ? UNICODE_WORD
                                        : 0);
    charset_sort(&one);
    if (c < 'a')
        charset_negate(&one);
    charset_add_set(s, &one);
    charset_deinit(&one);
    return status;
}

/* --- bracketed classes ------------------------------------------------------------------------------------------ */

static int class_char(struct reader *r, uint32_t *cp)
{
    if (accept(r, "\\"))
        return r->p < r->end ? char_escape(r, cp) : refuse(r, ERR_FORMAT, "ends in a backslash");
    r->p += utf8_decode(r->p, (size_t)(r->end - r->p), cp);
    return 0;
}

static int bracket(struct reader *r, struct charset *s, int depth);

/* One element of a class: a nested class, an escape that is one, a character or a range. */
static int class_item(struct reader *r, struct charset *s, int depth)
{
    bool     is_class = false;
    uint32_t lo = 0, hi;
    int      status;
    if (at(r, "[:"))
        return unsupported(r, "a POSIX bracket [:name:]");
    if (accept(r, "["))
        return bracket(r, s, depth + 1);
    if (at(r, "\\") && r->p + 1 < r->end) {
        r->p++;
        if ((status = class_escape(r, s, &is_class)) != 0 || is_class)
            return status;
        r->p--;
    }
    if ((status = class_char(r, &lo)) != 0)
        return status;
    hi = lo;
    if (r->end - r->p >= 2 && r->p[0] == '-' && r->p[1] != ']' && r->p[1] != '[') {
        r->p++;
        if ((status = class_char(r, &hi)) != 0)
            return status;
        if (hi < lo)
            return refuse(r, ERR_FORMAT, "has a range whose ends are in the wrong order");
    }
    charset_add(s, lo, hi);
    return 0;
}

/* A class, after its '['; adds it to s. */
static int bracket(struct reader *r, struct charset *s, int depth)
{
    struct charset left = {0}, here = {0};
    bool           negate = accept(r, "^"), both = false;
    int            status = 0;
    if (depth > CLASS_DEPTH_MAX)
        return refuse(r, ERR_LIMIT, "nests classes deeper than 16 levels");
    if (at(r, "]"))
        return unsupported(r, "']' as the first character of a class");
    while (!status && r->p < r->end && *r->p != ']') {
        if (!accept(r, "&&")) {
            status = class_item(r, &here, depth);
            continue;
        }
        charset_sort(&here);
        if (both)
            charset_intersect(&here, &left);
        charset_deinit(&left);
        left = here;
        here = (struct charset){0};
        both = true;
    }
    if (!status && !accept(r, "]"))
        status = refuse(r, ERR_FORMAT, "has a class without an end");
    charset_sort(&here);
    if (both)
        charset_intersect(&here, &left);
    if (r->fold)
        charset_fold(&here);
    if (negate)
        charset_negate(&here);
    charset_add_set(s, &here);
    charset_deinit(&here);
    charset_deinit(&left);
    return status;
}

/* --- the structure ---------------------------------------------------------------------------------------------- */

static int escape(struct reader *r)
{
    struct charset s = {0};
    bool           is_class;
    uint32_t       cp = 0;
    int            status;
    if (r->p == r->end)
        return refuse(r, ERR_FORMAT, "ends in a backslash");
    if (accept(r, "b"))
        return put_word_edge(r, true);
    if (accept(r, "B"))
        return put_word_edge(r, false);
    if (at(r, "A") || at(r, "z")) {
        buf_printf(&r->out->structure, "\\%c", *r->p++);
        return 0;
    }
    if (accept(r, "Z"))
        return put_line_edge(r, "(?=", "?\\z)", false);
    if ((status = class_escape(r, &s, &is_class)) == 0 && is_class)
        return put_set(r, &s);
    charset_deinit(&s);
    return status || (status = char_escape(r, &cp)) != 0 ? status : put_char(r, cp);
}

/* A group's opening, after '('. Groups capture nothing: nothing may refer to them. */
static int open_group(struct reader *r)
{
    static const char *const kinds[] = {"?:", "?=", "?!", "?<=", "?<!", "?>"};
    const char              *kind = "?:";
    bool                     fold = r->fold;
    if (r->depth == (int)ARRAY_LEN(r->fold_of))
        return refuse(r, ERR_LIMIT, "nests groups deeper than 64 levels");
    r->fold_of[r->depth++] = r->fold;
    if (accept(r, "?i:"))
        fold = true;
    else if (at(r, "?")) {
        size_t i = 0;
        while (i < ARRAY_LEN(kinds) && !accept(r, kinds[i]))
            i++;
        if (i == ARRAY_LEN(kinds))
            return unsupported(r, "a kind of group other than (?: (?i: (?= (?! (?<= (?<! (?>");
        kind = kinds[i];
    }
    r->fold = fold;
    buf_printf(&r->out->structure, "(%s", kind);
    return 0;
}

static int close_group(struct reader *r)
{
    if (!r->depth)
        return refuse(r, ERR_FORMAT, "closes a group that is not open");
    r->fold = r->fold_of[--r->depth];
    buf_putc(&r->out->structure, ')');
    return 0;
}

static const char *digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* A '{' that has just been read: a quantifier or, where it has not that form, an ordinary character. */
static int brace(struct reader *r)
{
    const char *a = digits(r->p, r->end), *b = a, *from = r->p;
    bool        comma = a < r->end && *a == ',';
    if (comma)
        b = digits(a + 1, r->end);
    if (b == r->end || *b != '}' || (a == from && (!comma || b == a + 1)))
        return put_char(r, '{');
    r->p = b + 1;
    if (at(r, "+") || (!comma && at(r, "?")))
        return unsupported(r, "a quantifier {n} or {n,m} with a further sign");
    buf_puts(&r->out->structure, a == from ? "{0" : "{");
    buf_put(&r->out->structure, from, (size_t)(r->p - from));
    return 0;
}

static int element(struct reader *r)
{
    struct charset s = {0};
    uint32_t       cp = 0;
    int            status;
    char           c = *r->p++;
    switch (c) {
    case '\\':
        return escape(r);
    case '[':
        status = bracket(r, &s, 1);
        if (!status)
            return put_set(r, &s);
        charset_deinit(&s);
        return status;
    case '(':
        return open_group(r);
    case ')':
        return close_group(r);
    case '{':
        return brace(r);
    case '.':
        return put_line_edge(r, "", "", true);
    case '^':
        return put_line_edge(r, "(?<!", ")", true);
    case '$':
        return put_line_edge(r, "(?!", ")", true);
    case '|':
    case '?':
    case '*':
    case '+':
        buf_putc(&r->out->structure, c);
        return 0;
    default:
        r->p--;
        r->p += utf8_decode(r->p, (size_t)(r->end - r->p), &cp);
        return put_char(r, cp);
    }
}

int pattern_parse(struct pattern *p, struct str source, struct error *e)
{
    struct reader r = {.out = p, .source = source, .p = source.p, .end = source.p + source.n, .e = e};
    int           status = 0;
    p->n_sets = 0;
    buf_init(&p->structure, STRUCTURE_MAX);
    if (source.n > PATTERN_SOURCE_MAX)
        return refuse(&r, ERR_LIMIT, "is longer than 16384 bytes");
    if (utf8_valid_prefix(source.p, source.n) != source.n)
        return refuse(&r, ERR_FORMAT, "is not valid UTF-8");
    if (accept(&r, "(?i)"))
        r.fold = true;
    while (!status && r.p < r.end)
        status = element(&r);
    if (!status && r.depth)
        status = refuse(&r, ERR_FORMAT, "has a group without an end");
    if (!status && p->structure.failed)
        status = p->structure.full ? refuse(&r, ERR_LIMIT, "is too complex") : error_nomem(e, "a regular expression");
    return status;
}

void pattern_deinit(struct pattern *p)
{
    for (size_t i = 0; i < p->n_sets; i++)
        charset_deinit(&p->sets[i]);
    p->n_sets = 0;
    buf_deinit(&p->structure);
}
