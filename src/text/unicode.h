/* What the tokenizers need to know about a character: its general category and three flags, Unicode 16.0.
 *
 * The version is the reference's (the Oniguruma inside Hugging Face tokenizers), not that of a library at hand: one
 * character that moves to another class gives other ids than the model was trained on. The table is made by
 * tools/make_unicode_table.py.
 */
#ifndef MLXCEL_TEXT_UNICODE_H
#define MLXCEL_TEXT_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define UNICODE_END 0x110000u /* one beyond the last code point */

/* General categories in the table's order. */
enum unicode_category {
    UNICODE_LU,
    UNICODE_LL,
    UNICODE_LT,
    UNICODE_LM,
    UNICODE_LO,
    UNICODE_MN,
    UNICODE_MC,
    UNICODE_ME,
    UNICODE_ND,
    UNICODE_NL,
    UNICODE_NO,
    UNICODE_PC,
    UNICODE_PD,
    UNICODE_PS,
    UNICODE_PE,
    UNICODE_PI,
    UNICODE_PF,
    UNICODE_PO,
    UNICODE_SM,
    UNICODE_SC,
    UNICODE_SK,
    UNICODE_SO,
    UNICODE_ZS,
    UNICODE_ZL,
    UNICODE_ZP,
    UNICODE_CC,
    UNICODE_CF,
    UNICODE_CS,
    UNICODE_CO,
    UNICODE_CN
};

/* Sets of categories: bit 1 << category. */
#define UNICODE_L 0x1fu
#define UNICODE_M 0xe0u
#define UNICODE_N 0x700u
#define UNICODE_P 0x3f800u
#define UNICODE_S 0x3c0000u

/* A character's class: its category in the low five bits, and flags. */
enum {
    UNICODE_CATEGORY = 31,
    UNICODE_SPACE = 32,      /* White_Space, which is \s */
    UNICODE_WORD = 64,       /* \w: Alphabetic, marks, decimal digits, connecting punctuation */
    UNICODE_NFC_UNSAFE = 128 /* NFC may change it, reorder it or join it to what stands before */
};
uint8_t unicode_class(uint32_t cp); /* of an unassigned one for cp >= UNICODE_END */

/* Whether cp's category is in the set. */
static inline bool unicode_is(uint32_t cp, uint32_t categories)
{
    return categories >> (unicode_class(cp) & UNICODE_CATEGORY) & 1;
}

/* End of the run of code points from cp on that have cp's class. */
uint32_t unicode_run_end(uint32_t cp);

#endif
