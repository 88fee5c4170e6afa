/* See base64.h. */
#include "base/base64.h"

#include <stdint.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The six bits of a letter, -1 if it is none. */
static int value_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

bool base64_decode(struct str text, struct buf *out)
{
    size_t before = out->n, n = text.n;
    if (n % 4)
        return false;
    while (n && text.n - n < 2 && text.p[n - 1] == '=')
        n--;
    uint32_t bits = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        int v = value_of(text.p[i]);
        if (v < 0) {
            out->n = before;
            return false;
        }
        bits = bits << 6 | (uint32_t)v;
        count += 6;
        if (count >= 8) {
            count -= 8;
            buf_putc(out, (char)(bits >> count));
        }
    }
    if (!(bits & ((1u << count) - 1)))
        return true;
    out->n = before;
    return false;
}

void base64_encode(const void *p, size_t n, struct buf *out)
{
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i += 3) {
        size_t   left = n - i;
        uint32_t bits = (uint32_t)b[i] << 16 | (left > 1 ? (uint32_t)b[i + 1] << 8 : 0) | (left > 2 ? b[i + 2] : 0);
        buf_putc(out, letters[bits >> 18]);
        buf_putc(out, letters[bits >> 12 & 63]);
        buf_putc(out, left > 1 ? letters[bits >> 6 & 63] : '=');
        buf_putc(out, left > 2 ? letters[bits & 63] : '=');
    }
}
