/* Base64 (RFC 4648 section 4, with padding), as tokenizer files hold bytes in text. */
#ifndef MLXCEL_BASE_BASE64_H
#define MLXCEL_BASE_BASE64_H

#include "base/buf.h"

/* Appends the bytes that `text` stands for. False, with nothing appended, when it is not base64: another character, a
 * length that is no multiple of four, padding elsewhere than at the end, bits set behind the last byte. A failure of the
 * buffer is the buffer's. */
bool base64_decode(struct str text, struct buf *out);
/* Appends the text of n bytes. */
void base64_encode(const void *p, size_t n, struct buf *out);

#endif
