/* Which part of the input each byte of a rewritten text stands for, as the reference's normalized strings know it: a
 * byte of a character stands for all of that character, what was put in for the character behind which (at the
 * beginning: before which) it was put. Only for showing people where tokens come from; plain encoding keeps none. */
#ifndef MLXCEL_TEXT_ALIGN_H
#define MLXCEL_TEXT_ALIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct align_span {
    uint32_t start, end; /* bytes of the input */
};
struct align {
    struct align_span *v; /* [n], by byte */
    size_t             n, cap;
};
void align_deinit(struct align *a);

/* All of these append and return false when out of memory. */
bool align_push(struct align *a, struct align_span span, size_t count);
/* The characters of text, which stands at offset `at` of the input. */
bool align_text(struct align *a, struct str text, size_t at);
/* `to` was made of `from`, whose alignment is `old`, in a way that is not known: characters are paired where there are as
 * many on both sides, else each stands for all. */
bool align_block(struct align *a, struct str from, const struct align_span *old, struct str to);

#endif
