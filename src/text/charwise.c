/* See charwise.h. */
#include "text/charwise.h"

#include "base/num.h"
#include "base/utf8.h"
#include "text/unicode.h"

/* The character at *at, whose bytes become *c; *at moves on. */
static uint32_t next_char(struct str text, size_t *at, struct str *c)
{
    uint32_t cp = 0;
    int      len = utf8_decode(text.p + *at, text.n - *at, &cp);
    *c = (struct str){text.p + *at, (size_t)len};
    *at += (size_t)len;
    return cp;
}

void charwise_lowercase(struct str text, struct buf *out)
{
    struct str c;
    for (size_t i = 0; i < text.n;) {
        uint32_t cp = next_char(text, &i, &c);
        char     low[4];
        if (cp == 0x130) /* the one character whose lower case is two */
            buf_puts(out, "i\xcc\x87");
        else
            buf_put(out, low, (size_t)utf8_encode(component_lower(cp), low));
    }
}

void charwise_drop(struct str text, enum component_set set, struct buf *out)
{
    struct str c;
    for (size_t i = 0; i < text.n;)
        if (!component_has(set, next_char(text, &i, &c)))
            buf_put(out, c.p, c.n);
}

void charwise_clean(struct str text, struct buf *out)
{
    struct str c;
    for (size_t i = 0; i < text.n;) {
        uint32_t cp = next_char(text, &i, &c);
        if (component_has(COMPONENT_CONTROL, cp))
            continue;
        if (unicode_class(cp) & UNICODE_SPACE)
            c = STR(" ");
        buf_put(out, c.p, c.n);
    }
}

static bool among(uint32_t cp, const struct char_range *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (cp >= v[i].lo && cp <= v[i].hi)
            return true;
    return false;
}

void charwise_space_ideographs(struct str text, struct buf *out)
{
    static const struct char_range ideographs[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                                   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f},
                                                   {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    struct str                     c;
    for (size_t i = 0; i < text.n;) {
        uint32_t    cp = next_char(text, &i, &c);
        const char *around = cp >= 0x3400 && among(cp, ideographs, ARRAY_LEN(ideographs)) ? " " : "";
        buf_puts(out, around);
        buf_put(out, c.p, c.n);
        buf_puts(out, around);
    }
}

bool charwise_nmt_drops(uint32_t cp)
{
    static const struct char_range dropped[] = {{0x1, 0x8},   {0xb, 0xb},   {0xe, 0x1f},
                                                {0x7f, 0x7f}, {0x8f, 0x8f}, {0x9f, 0x9f}};
    return cp <= 0x9f && among(cp, dropped, ARRAY_LEN(dropped));
}

void charwise_nmt(struct str text, struct buf *out)
{
    static const struct char_range spaces[] = {{0x9, 0xa},       {0xc, 0xd},       {0x1680, 0x1680}, {0x200b, 0x200f},
                                               {0x2028, 0x2029}, {0x2581, 0x2581}, {0xfeff, 0xfeff}, {0xfffd, 0xfffd}};
    struct str                     c;
    for (size_t i = 0; i < text.n;) {
        uint32_t cp = next_char(text, &i, &c);
        if (charwise_nmt_drops(cp))
            continue;
        if (among(cp, spaces, ARRAY_LEN(spaces)))
            c = STR(" ");
        buf_put(out, c.p, c.n);
    }
}
