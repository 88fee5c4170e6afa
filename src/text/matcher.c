/* The alternatives as a table of their texts, and four functions that match all of them. A character's classes are bits
 * of one word, looked up once a character, so that membership in any of the sets is one test. Contracts in matcher.h.
 *
 * An alternative matches as the backtracking engine would: where it can take a text in several ways, the comments say
 * which one comes first.
 */
#include "text/matcher.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/unicode.h"

#define FORMS_MAX 16

/* Classes of characters: every character has one of the first group, and any of the second. */
enum {
    UPPER = 1 << 0,   /* Lu Lt */
    LOWER = 1 << 1,   /* Ll */
    UNCASED = 1 << 2, /* Lm Lo */
    MARK = 1 << 3,    /* M */
    NUMBER = 1 << 4,  /* N */
    SIGN = 1 << 5,    /* P S */
    BLANK = 1 << 6,   /* U+0020 */
    BREAK = 1 << 7,   /* CR LF */
    WHITE = 1 << 8,   /* the other characters of \s */
    OTHER = 1 << 9,

    SLASH = 1 << 10,
    APOSTROPHE = 1 << 11,
    ASCII_LETTER = 1 << 12,
    ASCII_SIGN = 1 << 13,
    CJK = 1 << 14, /* DeepSeek's class */

    ALL = 0x3ff,
    LETTER = UPPER | LOWER | UNCASED,
    SPACE = BLANK | BREAK | WHITE,
    HEAD = UPPER | UNCASED | MARK, /* of a word in mixed case */
    TAIL = LOWER | UNCASED | MARK
};

enum kind {
    RUN,           /* one of `before` (may be missing), `max` of `body` or fewer, any number of `after` */
    CONTRACTION,   /* 's 't 're 've 'm 'll 'd */
    HEAD_TAIL,     /* one of `before` (may be missing), any number of HEAD, some TAIL, perhaps a contraction */
    HEADS,         /* the same with some HEAD, any number of TAIL */
    TO_BREAK,      /* white space up to the last CR or LF of the run */
    TO_LAST_SPACE, /* white space; of a run that something follows, all but its last character */
    TO_END         /* white space that nothing follows */
};

struct form {
    const char *text;
    enum kind   kind;
    uint32_t    before, body, after;
    bool        need_before;
    bool        fold; /* letter case does not matter; HEAD_TAIL, HEADS: a contraction may follow */
    uint32_t    max;  /* 0: no limit */
};

#define NO_LN (ALL & ~(BREAK | LETTER | NUMBER))
#define SHORT_FORMS "'s|'t|'re|'ve|'m|'ll|'d"
#define HEAD_CLASS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define TAIL_CLASS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define NOT_IN_WORD "[^\\r\\n\\p{L}\\p{N}]?"

static const struct form forms[] = {
    {SHORT_FORMS, CONTRACTION, .fold = false},
    {"(?i:" SHORT_FORMS ")", CONTRACTION, .fold = true},
    {"'(?:[sdmt]|ll|ve|re)", CONTRACTION, .fold = false},
    {"'(?i:[sdmt]|ll|ve|re)", CONTRACTION, .fold = true},
    {" ?\\p{L}+", RUN, .before = BLANK, .body = LETTER},
    {NOT_IN_WORD "\\p{L}+", RUN, .before = NO_LN, .body = LETTER},
    {NOT_IN_WORD "[\\p{L}\\p{M}]+", RUN, .before = NO_LN, .body = LETTER | MARK},
    {"[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+", RUN, .before = ALL & ~(BREAK | LETTER | SIGN), .body = LETTER | MARK},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+", RUN, .before = ASCII_SIGN, .body = ASCII_LETTER,
     .need_before = true},
    {NOT_IN_WORD HEAD_CLASS "*" TAIL_CLASS "+", HEAD_TAIL, .before = NO_LN},
    {NOT_IN_WORD HEAD_CLASS "*" TAIL_CLASS "+(?i:" SHORT_FORMS ")?", HEAD_TAIL, .before = NO_LN, .fold = true},
    {NOT_IN_WORD HEAD_CLASS "+" TAIL_CLASS "*", HEADS, .before = NO_LN},
    {NOT_IN_WORD HEAD_CLASS "+" TAIL_CLASS "*(?i:" SHORT_FORMS ")?", HEADS, .before = NO_LN, .fold = true},
    {"\\p{N}", RUN, .body = NUMBER, .max = 1},
    {"\\p{N}{1,3}", RUN, .body = NUMBER, .max = 3},
    {" ?\\p{N}+", RUN, .before = BLANK, .body = NUMBER},
    {" ?[^\\s\\p{L}\\p{N}]+", RUN, .before = BLANK, .body = ALL & ~(SPACE | LETTER | NUMBER)},
    {" ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*", RUN, .before = BLANK, .body = ALL & ~(SPACE | LETTER | NUMBER), .after = BREAK},
    {" ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*", RUN, .before = BLANK, .body = ALL & ~(SPACE | LETTER | NUMBER),
     .after = BREAK | SLASH},
    {" ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*", RUN, .before = BLANK, .body = ALL & ~(SPACE | LETTER | MARK | NUMBER),
     .after = BREAK},
    {" ?[\\p{P}\\p{S}]+[\r\n]*", RUN, .before = BLANK, .body = SIGN, .after = BREAK},
    {"[一-龥\u3040-ゟ゠-ヿ]+", RUN, .body = CJK},
    {"\\s", RUN, .body = SPACE, .max = 1},
    {"\\s+", RUN, .body = SPACE},
    {"\\s*[\\r\\n]", TO_BREAK, .body = SPACE},
    {"\\s*[\\r\\n]+", TO_BREAK, .body = SPACE},
    {"\\s*[\r\n]+", TO_BREAK, .body = SPACE},
    {"\\s+(?!\\S)", TO_LAST_SPACE, .body = SPACE},
    {"\\s++\\z", TO_END, .body = SPACE},
};

/* An alternative, and the characters with which it can begin. */
struct alternative {
    const struct form *form;
    uint32_t           first;
};

struct matcher {
    struct alternative v[FORMS_MAX];
    size_t             n;
    uint32_t           first; /* of any */
    uint32_t           ascii[128];
    uint32_t           of_class[256]; /* by unicode_class */
};

/* --- the pattern ------------------------------------------------------------------------------------------------ */

/* Whether possessive signs after its quantifiers change nothing: it never takes less than it can. */
static bool never_gives_back(const struct form *f)
{
    return f->kind == RUN && !(f->before & f->body);
}

/* The length of the form's text at the beginning of the pattern, 0 if it is not there. */
static size_t length_of(const struct form *f, struct str pattern)
{
    size_t n = 0;
    for (const char *t = f->text;; t++) {
        bool sign = n && n < pattern.n && pattern.p[n] == '+' && *t != '+' && strchr("?*+", pattern.p[n - 1]);
        if (sign && never_gives_back(f))
            n++;
        if (!*t)
            break;
        if (n == pattern.n || pattern.p[n++] != *t)
            return 0;
    }
    return n == pattern.n || pattern.p[n] == '|' ? n : 0;
}

/* The alternative that the pattern begins with and that goes on to a '|' or the end, the longest of several; NULL if
 * none. */
static const struct form *form_at(struct str pattern, size_t *length)
{
    const struct form *best = NULL;
    *length = 0;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        size_t n = length_of(&forms[i], pattern);
        if (n > *length) {
            best = &forms[i];
            *length = n;
        }
    }
    return best;
}

static uint32_t first_of(const struct form *f)
{
    switch (f->kind) {
    case RUN:
        return f->need_before ? f->before : f->before | f->body;
    case CONTRACTION:
        return APOSTROPHE;
    case HEAD_TAIL:
    case HEADS:
        return f->before | HEAD | TAIL;
    default:
        return SPACE;
    }
}

/* The characters of which a form may look at a long run and then take none. */
static uint32_t looked_at(const struct form *f)
{
    return f->kind == TO_BREAK || f->kind == TO_END ? SPACE : f->kind == HEAD_TAIL ? UPPER : 0;
}

/* Whether the form, inside a run of characters of the set, takes the rest of it, or all but its last character. */
static bool takes_run(const struct form *f, uint32_t set)
{
    uint32_t body = f->kind == HEADS                               ? HEAD
                    : f->kind == TO_LAST_SPACE                     ? SPACE
                    : f->kind == RUN && !f->max && !f->need_before ? f->body
                                                                   : 0;
    return !(set & ~body);
}

/* Whether all matches of a text take time that is linear in its length: of alternatives that match in a run that one
 * has looked at in vain, the first must leave none of it to look at again. */
static bool linear(const struct matcher *m)
{
    for (size_t i = 0; i < m->n; i++) {
        uint32_t set = looked_at(m->v[i].form);
        size_t   k = i + 1;
        while (set && k < m->n && !takes_run(m->v[k].form, set)) {
            const struct form *f = m->v[k].form;
            if (f->kind == RUN && !f->need_before && f->body & set)
                return false;
            k++;
        }
        if (set && k == m->n)
            return false;
    }
    return true;
}

static bool parse(struct matcher *m, struct str pattern)
{
    while (m->n < FORMS_MAX) {
        size_t             n;
        const struct form *f = form_at(pattern, &n);
        if (!f)
            return false;
        m->v[m->n++] = (struct alternative){f, first_of(f)};
        m->first |= first_of(f);
        if (n == pattern.n)
            return linear(m);
        pattern = (struct str){pattern.p + n + 1, pattern.n - n - 1};
    }
    return false;
}

static uint32_t bits_of_class(uint8_t class)
{
    uint32_t set = 1u << (class & UNICODE_CATEGORY);
    if (class & UNICODE_SPACE)
        return WHITE;
    if (set & (1u << UNICODE_LU | 1u << UNICODE_LT))
        return UPPER;
    if (set & 1u << UNICODE_LL)
        return LOWER;
    if (set & UNICODE_L)
        return UNCASED;
    return set & UNICODE_M ? MARK : set & UNICODE_N ? NUMBER : set & (UNICODE_P | UNICODE_S) ? SIGN : OTHER;
}

static void fill_tables(struct matcher *m)
{
    for (unsigned class = 0; class < 256; class ++)
        m->of_class[class] = bits_of_class((uint8_t) class);
    for (unsigned c = 0; c < 128; c++) {
        m->ascii[c] = m->of_class[unicode_class(c)];
        if (m->ascii[c] & LETTER)
            m->ascii[c] |= ASCII_LETTER;
        if (m->ascii[c] & SIGN)
            m->ascii[c] |= ASCII_SIGN;
    }
    m->ascii[' '] = BLANK;
    m->ascii['\r'] = m->ascii['\n'] = BREAK;
    m->ascii['/'] |= SLASH;
    m->ascii['\''] |= APOSTROPHE;
}

int matcher_new(struct matcher **out, struct str pattern, struct error *e)
{
    struct matcher *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m)
        return error_nomem(e, "a regular expression");
    if (parse(m, pattern)) {
        fill_tables(m);
        *out = m;
    } else
        free(m);
    return 0;
}

void matcher_free(struct matcher *m)
{
    free(m);
}

/* --- characters ------------------------------------------------------------------------------------------------- */

/* The classes of the character at *p, which is moved behind it. */
static inline uint32_t next(const struct matcher *m, const char **p)
{
    if ((unsigned char)**p < 0x80)
        return m->ascii[(unsigned char)*(*p)++];
    uint32_t cp = utf8_next(p), bits = m->of_class[unicode_class(cp)];
    return cp - 0x3040 <= 0x30ff - 0x3040 || cp - 0x4e00 <= 0x9fa5 - 0x4e00 ? bits | CJK : bits;
}

/* The end of the run of characters of a set that begins at p. */
static inline const char *skip(const struct matcher *m, const char *p, const char *end, uint32_t set)
{
    while (p < end) {
        const char *q = p;
        if (!(next(m, &q) & set))
            break;
        p = q;
    }
    return p;
}

/* --- the kinds of alternatives: each returns the end of its match at p, NULL if there is none ------------------------
 */

/* A character that is in `before` and in `body` too may be taken as either: the match is the same. */
static const char *match_run(const struct matcher *m, const struct form *f, const char *p, const char *end)
{
    const char *q = p;
    uint32_t    c = next(m, &q);
    if (f->need_before || !(c & f->body)) {
        p = q;
        if (!(c & f->before) || p == end || !(next(m, &q) & f->body))
            return NULL;
    }
    if (!f->max)
        q = skip(m, q, end, f->body);
    for (uint32_t n = 1; n < f->max && q < end; n++) {
        p = q;
        if (!(next(m, &q) & f->body)) {
            q = p;
            break;
        }
    }
    return f->after ? skip(m, q, end, f->after) : q;
}

static const char *match_contraction(const char *p, const char *end, bool fold)
{
    static const char *const tails[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (p == end || *p != '\'')
        return NULL;
    p++;
    if (fold && end - p >= 2 && memcmp(p, "\xc5\xbf", 2) == 0) /* the long s */
        return p + 2;
    for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
        const char *q = p, *t = tails[i];
        while (*t && q < end && (fold && *q >= 'A' && *q <= 'Z' ? *q + 32 : *q) == *t) {
            q++;
            t++;
        }
        if (!*t)
            return q;
    }
    return NULL;
}

/* HEAD* TAIL+: the run of HEAD takes all it can; where no TAIL comes after it, it gives back down to its last character
 * that is TAIL too. */
static const char *match_head_tail(const struct matcher *m, const char *p, const char *end)
{
    const char *given = NULL; /* end of that character */
    while (p < end) {
        const char *q = p;
        uint32_t    c = next(m, &q);
        if (!(c & HEAD))
            return c & TAIL ? skip(m, q, end, TAIL) : given;
        p = q;
        if (c & TAIL)
            given = q;
    }
    return given;
}

/* HEAD+ TAIL* */
static const char *match_heads(const struct matcher *m, const char *p, const char *end)
{
    const char *q = skip(m, p, end, HEAD);
    return q > p ? skip(m, q, end, TAIL) : NULL;
}

/* With the character before it, if it may be one and what follows matches; else without. */
static const char *match_cased(const struct matcher *m, const struct form *f, const char *p, const char *end)
{
    const char *(*word)(const struct matcher *, const char *, const char *) =
        f->kind == HEADS ? match_heads : match_head_tail;
    const char *q = p, *to = NULL, *more;
    if (next(m, &q) & f->before)
        to = word(m, q, end);
    if (!to)
        to = word(m, p, end);
    if (to && f->fold && (more = match_contraction(to, end, true)) != NULL)
        to = more;
    return to;
}

static const char *match_to_break(const struct matcher *m, const char *p, const char *end)
{
    const char *last = NULL;
    while (p < end) {
        uint32_t c = next(m, &p);
        if (!(c & SPACE))
            break;
        if (c & BREAK)
            last = p;
    }
    return last;
}

static const char *match_to_last_space(const struct matcher *m, const char *p, const char *end)
{
    const char *start = p, *last = p;
    while (p < end) {
        const char *q = p;
        if (!(next(m, &q) & SPACE))
            return last > start ? last : NULL;
        last = p;
        p = q;
    }
    return p;
}

static const char *match(const struct matcher *m, const struct form *f, const char *p, const char *end)
{
    switch (f->kind) {
    case RUN:
        return match_run(m, f, p, end);
    case CONTRACTION:
        return match_contraction(p, end, f->fold);
    case HEAD_TAIL:
    case HEADS:
        return match_cased(m, f, p, end);
    case TO_BREAK:
        return match_to_break(m, p, end);
    case TO_END:
        return skip(m, p, end, SPACE) == end ? end : NULL;
    default:
        return match_to_last_space(m, p, end);
    }
}

bool matcher_next(const struct matcher *m, struct str text, size_t from, size_t *start, size_t *end)
{
    const char *p = text.p + from, *stop = text.p + text.n;
    while (p < stop) {
        const char *q = p, *to;
        uint32_t    c = next(m, &q);
        for (size_t i = 0; c & m->first && i < m->n; i++)
            if (c & m->v[i].first && (to = match(m, m->v[i].form, p, stop)) != NULL) {
                *start = (size_t)(p - text.p);
                *end = (size_t)(to - text.p);
                return true;
            }
        p = q;
    }
    return false;
}
