/* \X, the extended grapheme cluster, written out after Unicode's annex 29 (table 1c): CR LF, a control, or what may stand
 * before, a core and what extends it. Contracts in pattern_int.h. */
#include <stdio.h>

#include "text/pattern_int.h"
#include "text/property.h"

enum part { CR, LF, CONTROL, PREPEND, EXTEND, SPACING, JOINER, FLAG, PICTURE, L, V, T, LV, LVT, ANY };

/* Every letter stands for the part of the same place in `letters`. A core: Hangul, two flags, pictures that are joined,
 * or any one character. A match may begin inside a cluster; what it then has before it counts where pictures are joined
 * and where flags are paired. */
static const char letters[] = "cnCPESJFXLVTGHA";
static const char form[] = "(?>cn|[cnC]|P*(?:L*(?:V+|GV*|H)T*|L+|T+|(?<!(?<!F)F)(?<!(?<!F)FFF)FF|X(?:E*JX)*|"
                           "(?<=X|XE|XEE)E*JX(?:E*JX)*|(?<=XJ)X(?:E*JX)*|(?![cnCP])A)[ESJ]*|P+[ESJ]*|A)";

static void add_syllables(struct charset *s, bool with_final)
{
    for (uint32_t c = 0xac00; c < 0xd7a4; c += 28)
        charset_add(s, with_final ? c + 1 : c, with_final ? c + 27 : c);
}

static void add_part(struct charset *s, enum part part)
{
    static const struct char_range plain[] = {
        [CR] = {'\r', '\r'},    [LF] = {'\n', '\n'},    [JOINER] = {0x200d, 0x200d}, [FLAG] = {0x1f1e6, 0x1f1ff},
        [L] = {0x1100, 0x115f}, [V] = {0x1160, 0x11a7}, [T] = {0x11a8, 0x11ff},      [ANY] = {0, UNICODE_END - 1}};
    static const int classes[] = {[CONTROL] = SEGMENT_CONTROL,
                                  [PREPEND] = SEGMENT_PREPEND,
                                  [EXTEND] = SEGMENT_EXTEND,
                                  [SPACING] = SEGMENT_SPACING};
    switch (part) {
    case PICTURE:
        property_add(s, "extendedpictographic");
        return;
    case LV:
    case LVT:
        add_syllables(s, part == LVT);
        return;
    case CONTROL:
    case PREPEND:
    case EXTEND:
    case SPACING:
        property_add_segment(s, (enum segment_class)classes[part]);
        return;
    default:
        charset_add(s, plain[part].lo, plain[part].hi);
    }
    if (part == L)
        charset_add(s, 0xa960, 0xa97c);
    if (part == V) {
        charset_add(s, 0xd7b0, 0xd7c6);
        charset_add(s, 0x16d63, 0x16d63);
        charset_add(s, 0x16d67, 0x16d6a);
    }
    if (part == T)
        charset_add(s, 0xd7cb, 0xd7fb);
}

struct node *pattern_segment(struct reader *r)
{
    char        text[800];
    size_t      n = 0;
    const char *bracket = NULL;
    for (const char *p = form; *p; p++) {
        struct charset s = {0};
        size_t         set;
        const char    *hit = strchr(letters, *p);
        if (*p == '[')
            bracket = p;
        else if (!hit && !bracket)
            text[n++] = *p;
        if (!hit && *p != ']')
            continue;
        if (bracket && hit)
            continue;
        for (const char *q = bracket ? bracket + 1 : p; q <= p; q++)
            if ((hit = strchr(letters, *q)) != NULL)
                add_part(&s, (enum part)(hit - letters));
        bracket = NULL;
        if (!pattern_put_set(r, &s, &set))
            return NULL;
        n += (size_t)snprintf(text + n, sizeof text - n, "%c%zu;", PATTERN_SET_MARK, set);
    }
    text[n] = '\0';
    return pattern_text_node(r, NODE_TEXT, text);
}
