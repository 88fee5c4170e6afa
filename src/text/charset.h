/* Sets of characters, as ranges of code points: what a class of a regular expression is made of.
 *
 * A set grows by charset_add* in any order; charset_sort brings it into order (disjoint, ascending), which the
 * operations on whole sets need and leave. An allocation failure is sticky (`failed`) and is looked at once, at the
 * end.
 */
#ifndef MLXCEL_TEXT_CHARSET_H
#define MLXCEL_TEXT_CHARSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct char_range {
    uint32_t lo, hi; /* inclusive */
};

/* Of n ranges in ascending order. */
bool char_ranges_have(const struct char_range *v, size_t n, uint32_t cp);

/* Zero-initialised is empty. */
struct charset {
    struct char_range *v;
    size_t             n, cap;
    bool               failed;
};

void charset_deinit(struct charset *s);
void charset_add(struct charset *s, uint32_t lo, uint32_t hi);
void charset_add_set(struct charset *s, const struct charset *from);
/* The characters of some general categories (bits 1 << category) or with one of the flags (unicode.h). */
void charset_add_class(struct charset *s, uint32_t categories, uint8_t flags);
void charset_sort(struct charset *s);
void charset_negate(struct charset *s);                                /* sorted -> sorted */
void charset_intersect(struct charset *s, const struct charset *with); /* sorted both */
bool charset_has(const struct charset *s, uint32_t cp);                /* sorted */

#endif
