/* GPT-2's spelling of bytes as characters: printable Latin-1 stands for itself, the other 68 bytes, in ascending order,
 * are U+0100, U+0101, ... A space is U+0120, a line feed U+010A. Each is one or two bytes of UTF-8. */
#ifndef MLXCEL_TEXT_BYTELEVEL_H
#define MLXCEL_TEXT_BYTELEVEL_H

#include "base/buf.h"
#include "base/utf8.h"

static inline bool bytelevel_same(unsigned b)
{
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
}

static inline uint32_t bytelevel_char(unsigned char b)
{
    if (bytelevel_same(b))
        return b;
    return b <= 0x20 ? 0x100u + b : b <= 0xa0 ? 0x121u + b - 0x7f : 0x143u;
}

/* The byte that a character stands for, -1 if none. */
static inline int bytelevel_byte(uint32_t cp)
{
    if (cp < 0x100)
        return bytelevel_same(cp) ? (int)cp : -1;
    return cp <= 0x120 ? (int)cp - 0x100 : cp <= 0x142 ? (int)cp - 0x121 + 0x7f : cp == 0x143 ? 0xad : -1;
}

/* Writes the spelling of n bytes to `to`, which has room for 2 * n; returns its length. */
static inline size_t bytelevel_spell(const char *p, size_t n, char *to)
{
    char *at = to;
    for (size_t i = 0; i < n; i++) {
        uint32_t cp = bytelevel_char((unsigned char)p[i]);
        if (cp < 0x80)
            *at++ = (char)cp;
        else {
            *at++ = (char)(0xc0 | cp >> 6);
            *at++ = (char)(0x80 | (cp & 0x3f));
        }
    }
    return (size_t)(at - to);
}

/* Appends the bytes that a text spells; if a character of it spells none, the text itself. */
static inline void bytelevel_read(struct str text, struct buf *out)
{
    size_t before = out->n;
    for (size_t i = 0; i < text.n;) {
        uint32_t cp = 0;
        int      len = utf8_decode(text.p + i, text.n - i, &cp);
        int      b = len > 0 ? bytelevel_byte(cp) : -1;
        if (b < 0) {
            out->n = before;
            buf_put(out, text.p, text.n);
            return;
        }
        buf_putc(out, (char)b);
        i += (size_t)len;
    }
}

#endif
