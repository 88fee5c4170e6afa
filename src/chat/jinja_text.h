/* Code points of UTF-8 strings as Python's str sees them. The strings of a rendering are valid UTF-8 (sources and JSON
 * are checked on the way in), so the walkers below need no error path: a broken byte would count as one character. */
#ifndef MLXCEL_CHAT_JINJA_TEXT_H
#define MLXCEL_CHAT_JINJA_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* Bytes of the character at s.p[at]; sets *cp. */
size_t text_next(struct str s, size_t at, uint32_t *cp);
/* Bytes of the character that ends before s.p[end], end > 0; sets *cp. */
size_t     text_prev(struct str s, size_t end, uint32_t *cp);
size_t     text_count(struct str s);                         /* code points */
size_t     text_offset(struct str s, size_t i);              /* byte offset of code point i; s.n when beyond */
struct str text_slice(struct str s, size_t from, size_t to); /* bytes [from, to) */

bool     text_is_space(uint32_t cp);   /* str.isspace, regex \s */
bool     text_is_alpha(uint32_t cp);   /* str.isalpha */
bool     text_is_decimal(uint32_t cp); /* str.isdecimal */
unsigned text_decimal(uint32_t cp);    /* the digit that a decimal one means */
bool     text_is_digit(uint32_t cp);   /* str.isdigit */
bool     text_is_numeric(uint32_t cp); /* str.isnumeric */
bool     text_is_upper(uint32_t cp);
bool     text_is_lower(uint32_t cp);
bool     text_is_title(uint32_t cp);
bool     text_is_cased(uint32_t cp);
bool     text_is_case_ignorable(uint32_t cp); /* does not part a word when its case is changed */
bool     text_is_printable(uint32_t cp);      /* repr shows it as it is */
bool     text_is_name(uint32_t cp, bool first);

enum text_case { TEXT_UPPER, TEXT_LOWER, TEXT_TITLE };
/* Appends the full mapping of cp, which may be several characters. */
void text_put_case(struct buf *b, uint32_t cp, enum text_case to);
void text_put_folded(struct buf *b, uint32_t cp); /* str.casefold */
void text_put(struct buf *b, uint32_t cp);

enum text_side { TEXT_LEFT = 1, TEXT_RIGHT = 2, TEXT_BOTH = 3 };
/* Without the characters of `chars` at the sides; white space when chars is NULL. */
struct str text_strip(struct str s, const struct str *chars, enum text_side sides);
/* Byte offset of the first / last `needle` in s, or -1. The time of text_rfind is the product of the lengths at worst.
 */
long text_find(struct str s, struct str needle);
long text_rfind(struct str s, struct str needle);
/* End of the line that begins at `at`, as str.splitlines sees it; *next: where the following one begins. */
size_t text_line_end(struct str s, size_t at, size_t *next);
bool   text_starts(struct str s, struct str prefix);
bool   text_ends(struct str s, struct str suffix);

#endif
