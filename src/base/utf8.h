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

/* Writes cp (a Unicode scalar value) to out[4]; returns the number of bytes. Others become U+FFFD. */
int utf8_encode(uint32_t cp, char out[4]);

/* Number of leading bytes of p that are valid UTF-8. */
size_t utf8_valid_prefix(const char *p, size_t n);

#endif
