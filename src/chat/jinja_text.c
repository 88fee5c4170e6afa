/* Unicode facts come from utf8proc (simple case mappings, categories); the mappings to several characters, which
 * utf8proc does not have, stand in casing.def. Contracts in jinja_text.h. */
#include "chat/jinja_text.h"

#include <utf8proc.h>

#include "base/num.h"
#include "base/utf8.h"

size_t text_next(struct str s, size_t at, uint32_t *cp)
{
    unsigned char c = (unsigned char)s.p[at];
    if (c < 0x80) {
        *cp = c;
        return 1;
    }
    int n = utf8_decode(s.p + at, s.n - at, cp);
    if (n > 0)
        return (size_t)n;
    *cp = 0xfffd;
    return 1;
}

size_t text_prev(struct str s, size_t end, uint32_t *cp)
{
    size_t at = end - 1;
    while (at > 0 && end - at < 4 && ((unsigned char)s.p[at] & 0xc0) == 0x80)
        at--;
    if (text_next((struct str){s.p, end}, at, cp) == end - at)
        return end - at;
    *cp = 0xfffd;
    return 1;
}

size_t text_count(struct str s)
{
    uint32_t cp;
    size_t   n = 0;
    for (size_t i = 0; i < s.n; n++)
        i += text_next(s, i, &cp);
    return n;
}

size_t text_offset(struct str s, size_t i)
{
    uint32_t cp;
    size_t   at = 0;
    for (; i > 0 && at < s.n; i--)
        at += text_next(s, at, &cp);
    return at;
}

struct str text_slice(struct str s, size_t from, size_t to)
{
    return (struct str){s.p + from, to - from};
}

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool text_is_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 0x09 && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1f);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool text_is_alpha(uint32_t cp)
{
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool text_is_decimal(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

unsigned text_decimal(uint32_t cp)
{
    uint32_t first = cp; /* a script's digits follow each other from its zero, sets of them too */
    while (first > 0 && text_is_decimal(first - 1))
        first--;
    return (cp - first) % 10;
}

enum letter_kind { LOWER, UPPER, DIGIT, NUMERIC };

/* Whether cp is of a kind though its general category does not say so. */
static bool is_listed(enum letter_kind kind, uint32_t cp)
{
    static const struct {
        enum letter_kind kind;
        uint32_t         first, last;
    } rows[] = {
#define LETTERS(kind, first, last) {kind, first, last},
#include "chat/letters.def"
#undef LETTERS
    };
    for (size_t i = 0; cp >= 0x80 && i < ARRAY_LEN(rows); i++)
        if (rows[i].kind == kind && cp >= rows[i].first && cp <= rows[i].last)
            return true;
    return false;
}

bool text_is_digit(uint32_t cp)
{
    return text_is_decimal(cp) || is_listed(DIGIT, cp);
}

bool text_is_numeric(uint32_t cp)
{
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO ||
           is_listed(NUMERIC, cp);
}

bool text_is_upper(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LU || is_listed(UPPER, cp);
}

bool text_is_lower(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LL || is_listed(LOWER, cp);
}

bool text_is_title(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LT;
}

bool text_is_cased(uint32_t cp)
{
    return text_is_upper(cp) || text_is_lower(cp) || text_is_title(cp);
}

bool text_is_case_ignorable(uint32_t cp)
{
    static const uint32_t inside_words[] = {'\'',   '.',    ':',    0xb7,   0x387,  0x55f,  0x5f4,  0x2018, 0x2019,
                                            0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
    for (size_t i = 0; i < ARRAY_LEN(inside_words); i++)
        if (cp == inside_words[i])
            return true;
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return false;
    }
}

bool text_is_printable(uint32_t cp)
{
    if (cp < 0x7f)
        return cp >= ' ';
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    default:
        return true;
    }
}

bool text_is_name(uint32_t cp, bool first)
{
    if (cp < 0x80)
        return cp == '_' || (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') || (!first && cp >= '0' && cp <= '9');
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
        return !first;
    case UTF8PROC_CATEGORY_NL:
        return true;
    default:
        return text_is_alpha(cp);
    }
}

/* --- case -----------------------------------------------------------------------------------------------------------
 */

struct casing {
    uint32_t from, to[3];
};

static const struct casing upper_long[] = {
#define UPPER(from, a, b, c) {from, {a, b, c}},
#define TITLE(from, a, b, c)
#include "chat/casing.def"
#undef UPPER
#undef TITLE
};

static const struct casing title_long[] = {
#define UPPER(from, a, b, c)
#define TITLE(from, a, b, c) {from, {a, b, c}},
#include "chat/casing.def"
#undef UPPER
#undef TITLE
};

static const struct casing *casing_find(const struct casing *v, size_t n, uint32_t cp)
{
    size_t lo = 0;
    while (lo < n) {
        size_t mid = lo + (n - lo) / 2;
        if (v[mid].from == cp)
            return &v[mid];
        if (v[mid].from < cp)
            lo = mid + 1;
        else
            n = mid;
    }
    return NULL;
}

void text_put(struct buf *b, uint32_t cp)
{
    char c[4];
    buf_put(b, c, (size_t)utf8_encode(cp, c));
}

void text_put_folded(struct buf *b, uint32_t cp)
{
    utf8proc_int32_t folded[8];
    int              last = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, folded, 8, UTF8PROC_CASEFOLD, &last);
    for (utf8proc_ssize_t i = 0; i < MIN(n, 8); i++)
        text_put(b, (uint32_t)folded[i]);
}

void text_put_case(struct buf *b, uint32_t cp, enum text_case to)
{
    const struct casing *c = NULL;
    if (cp < 0x80) {
        bool letter = to == TEXT_LOWER ? cp >= 'A' && cp <= 'Z' : cp >= 'a' && cp <= 'z';
        buf_putc(b, (char)(letter ? cp ^ 0x20 : cp));
        return;
    }
    if (to == TEXT_LOWER) {
        text_put(b, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
        if (cp == 0x130)
            text_put(b, 0x307);
        return;
    }
    c = to == TEXT_UPPER ? casing_find(upper_long, ARRAY_LEN(upper_long), cp)
                         : casing_find(title_long, ARRAY_LEN(title_long), cp);
    if (!c) {
        utf8proc_int32_t u = (utf8proc_int32_t)cp;
        text_put(b, (uint32_t)(to == TEXT_UPPER ? utf8proc_toupper(u) : utf8proc_totitle(u)));
        return;
    }
    for (int i = 0; i < 3 && c->to[i]; i++)
        text_put(b, c->to[i]);
}

/* --- search ---------------------------------------------------------------------------------------------------------
 */

static bool in_set(uint32_t cp, const struct str *chars)
{
    uint32_t c;
    if (!chars)
        return text_is_space(cp);
    for (size_t i = 0; i < chars->n;) {
        i += text_next(*chars, i, &c);
        if (c == cp)
            return true;
    }
    return false;
}

struct str text_strip(struct str s, const struct str *chars, enum text_side sides)
{
    uint32_t cp;
    while (sides & TEXT_LEFT && s.n) {
        size_t n = text_next(s, 0, &cp);
        if (!in_set(cp, chars))
            break;
        s.p += n;
        s.n -= n;
    }
    while (sides & TEXT_RIGHT && s.n) {
        size_t n = text_prev(s, s.n, &cp);
        if (!in_set(cp, chars))
            break;
        s.n -= n;
    }
    return s;
}

long text_find(struct str s, struct str needle)
{
    if (!needle.n)
        return 0;
    const char *p = needle.n <= s.n ? memmem(s.p, s.n, needle.p, needle.n) : NULL;
    return p ? (long)(p - s.p) : -1;
}

long text_rfind(struct str s, struct str needle)
{
    if (needle.n > s.n)
        return -1;
    for (size_t at = s.n - needle.n;; at--) {
        if (!needle.n || (s.p[at] == needle.p[0] && memcmp(s.p + at, needle.p, needle.n) == 0))
            return (long)at;
        if (!at)
            return -1;
    }
}

size_t text_line_end(struct str s, size_t at, size_t *next)
{
    uint32_t cp;
    while (at < s.n) {
        size_t n = text_next(s, at, &cp);
        if ((cp >= 0x0a && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 || cp == 0x2029) {
            *next = at + n + (cp == '\r' && at + 1 < s.n && s.p[at + 1] == '\n');
            return at;
        }
        at += n;
    }
    *next = s.n;
    return s.n;
}

bool text_starts(struct str s, struct str prefix)
{
    return prefix.n <= s.n && (!prefix.n || memcmp(s.p, prefix.p, prefix.n) == 0);
}

bool text_ends(struct str s, struct str suffix)
{
    return suffix.n <= s.n && (!suffix.n || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}
