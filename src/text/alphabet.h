/* The kinds of characters that a set of classes tells apart, numbered: see regex.h. */
#ifndef MLXCEL_TEXT_ALPHABET_H
#define MLXCEL_TEXT_ALPHABET_H

#include "base/error.h"
#include "text/charset.h"
#include "text/unicode.h"

#define ALPHABET_MAX 256 /* letters */
#define ALPHABET_SETS_MAX 1024

struct alphabet {
    uint8_t   ascii[128];
    uint32_t *start;  /* [n + 1] first code points of runs of one letter, ascending from 0; then UNICODE_END */
    uint8_t  *letter; /* [n] */
    size_t    n;
    uint16_t  page[UNICODE_END / 256 + 1]; /* run in which code point 256 * i lies */
    int       n_letters;
    /* member[l][i / 64] bit i % 64: letter l belongs to set i */
    uint64_t (*member)[ALPHABET_SETS_MAX / 64];
};

/* Sets: sorted, at most ALPHABET_SETS_MAX. *too_many: they make more than ALPHABET_MAX letters, and there is no alphabet. */
int  alphabet_init(struct alphabet *a, const struct charset *sets, size_t n_sets, bool *too_many, struct error *e);
void alphabet_deinit(struct alphabet *a);

static inline bool alphabet_member(const struct alphabet *a, int letter, size_t set)
{
    return a->member[letter][set / 64] >> (set % 64) & 1;
}

/* The letter of a character. */
static inline uint8_t alphabet_letter(const struct alphabet *a, uint32_t cp)
{
    if (cp < 128)
        return a->ascii[cp];
    size_t lo = a->page[cp >> 8], hi = a->page[(cp >> 8) + 1] + (size_t)1;
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (a->start[mid] <= cp)
            lo = mid;
        else
            hi = mid;
    }
    return a->letter[lo];
}

#endif
