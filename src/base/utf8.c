/* Strict UTF-8 after table 3-7 of the Unicode standard; contracts in utf8.h. */
#include "base/utf8.h"

#include <string.h>

int utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    const unsigned char *p = (const unsigned char *)s;
    unsigned             lo = 0x80, hi = 0xbf;
    int                  len;
    uint32_t             c;
    if (!n)
        return 0;
    if (p[0] < 0x80) {
        *cp = p[0];
        return 1;
    }
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return -1;
    if (p[0] < 0xe0) {
        len = 2;
        c = p[0] & 0x1fu;
    } else if (p[0] < 0xf0) {
        len = 3;
        c = p[0] & 0x0fu;
        if (p[0] == 0xe0)
            lo = 0xa0;
        if (p[0] == 0xed)
            hi = 0x9f;
    } else {
        len = 4;
        c = p[0] & 0x07u;
        if (p[0] == 0xf0)
            lo = 0x90;
        if (p[0] == 0xf4)
            hi = 0x8f;
    }
    for (int i = 1; i < len; i++) {
        if ((size_t)i >= n)
            return 0;
        if (p[i] < lo || p[i] > hi)
            return -i;
        c = c << 6 | (p[i] & 0x3fu);
        lo = 0x80;
        hi = 0xbf;
    }
    *cp = c;
    return len;
}

int utf8_encode(uint32_t cp, char out[4])
{
    unsigned char *o = (unsigned char *)out;
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        cp = 0xfffd;
    if (cp < 0x80) {
        o[0] = (unsigned char)cp;
        return 1;
    }
    if (cp < 0x800) {
        o[0] = (unsigned char)(0xc0 | cp >> 6);
        o[1] = (unsigned char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        o[0] = (unsigned char)(0xe0 | cp >> 12);
        o[1] = (unsigned char)(0x80 | (cp >> 6 & 0x3f));
        o[2] = (unsigned char)(0x80 | (cp & 0x3f));
        return 3;
    }
    o[0] = (unsigned char)(0xf0 | cp >> 18);
    o[1] = (unsigned char)(0x80 | (cp >> 12 & 0x3f));
    o[2] = (unsigned char)(0x80 | (cp >> 6 & 0x3f));
    o[3] = (unsigned char)(0x80 | (cp & 0x3f));
    return 4;
}

size_t utf8_ascii_prefix(const char *p, size_t n)
{
    size_t i = 0;
    for (uint64_t word; n - i >= sizeof word; i += sizeof word) {
        memcpy(&word, p + i, sizeof word);
        if (word & 0x8080808080808080u)
            break;
    }
    while (i < n && (unsigned char)p[i] < 0x80)
        i++;
    return i;
}

size_t utf8_valid_prefix(const char *p, size_t n)
{
    size_t   i = 0;
    uint32_t cp;
    while (i < n) {
        if ((unsigned char)p[i] < 0x80) {
            i += utf8_ascii_prefix(p + i, n - i);
            continue;
        }
        int len = utf8_decode(p + i, n - i, &cp);
        if (len <= 0)
            break;
        i += (size_t)len;
    }
    return i;
}

size_t utf8_count(const char *p, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)p[i] & 0xc0) != 0x80;
    return count;
}
