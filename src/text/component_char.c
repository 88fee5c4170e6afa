/* Binary searches in the generated tables, and the rules of grapheme clusters. Contracts in component_char.h. */
#include "text/component_char.h"

#include "base/num.h"
#include "base/utf8.h"
#include "text/unicode.h"

enum grapheme_class {
    GRAPHEME_ANY,
    GRAPHEME_CR,
    GRAPHEME_LF,
    GRAPHEME_CONTROL,
    GRAPHEME_EXTEND,
    GRAPHEME_LINKER, /* extends too; joins the consonants on both sides */
    GRAPHEME_ZWJ,
    GRAPHEME_SPACING,
    GRAPHEME_PREPEND,
    GRAPHEME_CONSONANT,
    GRAPHEME_PICTURE,
    GRAPHEME_FLAG, /* regional indicator */
    GRAPHEME_L,    /* Hangul: leading consonants, vowels, trailing consonants, syllables */
    GRAPHEME_V,
    GRAPHEME_T,
    GRAPHEME_LV,
    GRAPHEME_LVT
};

struct lower_run {
    uint32_t lo, hi, step;
    int32_t  delta;
};

struct grapheme_range {
    uint32_t lo, hi;
    enum grapheme_class class;
};

#include "text/component_table.inc"

const struct char_range *component_ranges(enum component_set set, size_t *n)
{
    static const struct {
        const struct char_range *v;
        size_t                   n;
    } sets[COMPONENT_SET_COUNT] = {{control, ARRAY_LEN(control)},    {accent, ARRAY_LEN(accent)},
                                   {mark, ARRAY_LEN(mark)},          {punctuation, ARRAY_LEN(punctuation)},
                                   {number, ARRAY_LEN(number)},      {word_more, ARRAY_LEN(word_more)},
                                   {word_less, ARRAY_LEN(word_less)}};
    *n = sets[set].n;
    return sets[set].v;
}

bool component_has(enum component_set set, uint32_t cp)
{
    size_t                   n;
    const struct char_range *v = component_ranges(set, &n);
    return char_ranges_have(v, n, cp);
}

bool component_word(uint32_t cp)
{
    return unicode_class(cp) & UNICODE_WORD ? !component_has(COMPONENT_WORD_LESS, cp)
                                            : component_has(COMPONENT_WORD_MORE, cp);
}

uint32_t component_lower(uint32_t cp)
{
    size_t lo = 0, hi = ARRAY_LEN(lower);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (lower[mid].hi < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    const struct lower_run *r = &lower[lo];
    bool                    in = lo < ARRAY_LEN(lower) && cp >= r->lo && (cp - r->lo) % r->step == 0;
    return in ? (uint32_t)((int32_t)cp + r->delta) : cp;
}

/* --- grapheme clusters ------------------------------------------------------------------------------------------ */

static enum grapheme_class hangul(uint32_t cp)
{
    if ((cp >= 0x1100 && cp <= 0x115f) || (cp >= 0xa960 && cp <= 0xa97c))
        return GRAPHEME_L;
    if ((cp >= 0x1160 && cp <= 0x11a7) || (cp >= 0xd7b0 && cp <= 0xd7c6))
        return GRAPHEME_V;
    if ((cp >= 0x11a8 && cp <= 0x11ff) || (cp >= 0xd7cb && cp <= 0xd7fb))
        return GRAPHEME_T;
    if (cp >= 0xac00 && cp <= 0xd7a3)
        return (cp - 0xac00) % 28 ? GRAPHEME_LVT : GRAPHEME_LV;
    return GRAPHEME_ANY;
}

static enum grapheme_class class_of(uint32_t cp)
{
    size_t lo = 0, hi = ARRAY_LEN(grapheme);
    if (cp == '\r')
        return GRAPHEME_CR;
    if (cp == '\n')
        return GRAPHEME_LF;
    if (cp == 0x200d)
        return GRAPHEME_ZWJ;
    if (cp >= 0x1f1e6 && cp <= 0x1f1ff)
        return GRAPHEME_FLAG;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (grapheme[mid].hi < cp)
            lo = mid + 1;
        else if (grapheme[mid].lo > cp)
            hi = mid;
        else
            return grapheme[mid].class;
    }
    return hangul(cp);
}

/* What a cluster has been so far. */
struct cluster {
    enum grapheme_class last;
    unsigned            flags;   /* regional indicators at its end */
    int                 picture; /* 1: a pictograph and what extends it, 2: then a joiner */
    int                 joint;   /* 1: a consonant and what extends it, 2: with a linker */
};

static bool joins_hangul(enum grapheme_class a, enum grapheme_class b)
{
    if (a == GRAPHEME_L)
        return b == GRAPHEME_L || b == GRAPHEME_V || b == GRAPHEME_LV || b == GRAPHEME_LVT;
    if (a == GRAPHEME_LV || a == GRAPHEME_V)
        return b == GRAPHEME_V || b == GRAPHEME_T;
    return (a == GRAPHEME_LVT || a == GRAPHEME_T) && b == GRAPHEME_T;
}

static bool joins(const struct cluster *c, enum grapheme_class next)
{
    if (c->last == GRAPHEME_CR)
        return next == GRAPHEME_LF;
    if (c->last == GRAPHEME_LF || c->last == GRAPHEME_CONTROL)
        return false;
    switch (next) {
    case GRAPHEME_CR:
    case GRAPHEME_LF:
    case GRAPHEME_CONTROL:
        return false;
    case GRAPHEME_EXTEND:
    case GRAPHEME_LINKER:
    case GRAPHEME_ZWJ:
    case GRAPHEME_SPACING:
        return true;
    default:
        return c->last == GRAPHEME_PREPEND || (next == GRAPHEME_CONSONANT && c->joint == 2) ||
               (next == GRAPHEME_PICTURE && c->picture == 2) || (next == GRAPHEME_FLAG && c->flags % 2 == 1) ||
               joins_hangul(c->last, next);
    }
}

static void append(struct cluster *c, uint32_t cp, enum grapheme_class next)
{
    bool extends = next == GRAPHEME_EXTEND || next == GRAPHEME_LINKER;
    c->flags = next == GRAPHEME_FLAG ? c->flags + 1 : 0;
    if (next == GRAPHEME_PICTURE)
        c->picture = 1;
    else if (!(extends && c->picture == 1))
        c->picture = next == GRAPHEME_ZWJ && c->picture == 1 ? 2 : 0;
    if (next == GRAPHEME_CONSONANT)
        c->joint = 1;
    else if (next == GRAPHEME_LINKER && c->joint)
        c->joint = 2;
    else if (!(extends || next == GRAPHEME_ZWJ) || cp == 0x200c)
        c->joint = 0;
    c->last = next;
}

size_t component_cluster_end(struct str text, size_t at)
{
    struct cluster c = {0};
    uint32_t       cp = 0;
    at += (size_t)utf8_decode(text.p + at, text.n - at, &cp);
    if (at < text.n && cp < 0x80 && cp != '\r' && (unsigned char)text.p[at] < 0x80)
        return at;
    append(&c, cp, class_of(cp));
    while (at < text.n) {
        size_t              len = (size_t)utf8_decode(text.p + at, text.n - at, &cp);
        enum grapheme_class next = class_of(cp);
        if (!joins(&c, next))
            break;
        append(&c, cp, next);
        at += len;
    }
    return at;
}
