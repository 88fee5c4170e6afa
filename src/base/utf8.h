/* UTF-8: strict decoding (no overlong forms, no surrogates, nothing above U+10FFFF) and encoding. */
#ifndef MLXCEL_BASE_UTF8_H
#define MLXCEL_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes the character at p (n bytes are readable). Returns its length 1..4 and sets *cp, or
 * -k (k >= 1) for an invalid sequence whose maximal invalid subpart is k bytes long (Unicode 3.9, the
 * rule by which Rust's from_utf8_lossy places one U+FFFD), or 0 when the bytes so far are a valid but
 * incomplete beginning of a character (also for n = 0). */
int utf8_decode(const char *p, size_t n, uint32_t *cp);

/* The character at *p, which is valid and complete; moves *p behind it. */
static inline uint32_t utf8_next(const char **p)
{
    const unsigned char *s = (const unsigned char *)*p;
    if (s[0] < 0x80) {
        *p += 1;
        return s[0];
    }
    if (s[0] < 0xe0) {
        *p += 2;
        return (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
    }
    if (s[0] < 0xf0) {
        *p += 3;
        return (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
    }
    *p += 4;
    return (s[0] & 0x7u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3fu);
}

/* How many characters valid text of n bytes has. */
size_t utf8_count(const char *p, size_t n);

/* Writes cp (a Unicode scalar value) to out[4]; returns the number of bytes. Others become U+FFFD. */
int utf8_encode(uint32_t cp, char out[4]);

/* Number of leading bytes of p that are valid UTF-8. */
size_t utf8_valid_prefix(const char *p, size_t n);

/* Number of leading bytes of p that are ASCII. */
size_t utf8_ascii_prefix(const char *p, size_t n);

#endif
