/* Characters as those components of tokenizer.json see them that are not patterns: sets, lower case and grapheme
 * clusters. Each of the reference's libraries has Unicode tables of its own age; tools/make_component_table.py reads
 * them off.
 */
#ifndef MLXCEL_TEXT_COMPONENT_CHAR_H
#define MLXCEL_TEXT_COMPONENT_CHAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "text/charset.h"

enum component_set {
    COMPONENT_CONTROL,     /* what clean_text drops */
    COMPONENT_ACCENT,      /* what strip_accents drops, after NFD */
    COMPONENT_MARK,        /* what StripAccents drops */
    COMPONENT_PUNCTUATION, /* of Punctuation and BertPreTokenizer */
    COMPONENT_NUMBER,      /* of Digits */
    COMPONENT_WORD_MORE,   /* what Whitespace and single_word count as part of a word and \w of a pattern does not */
    COMPONENT_WORD_LESS,   /* the other way round */
    COMPONENT_SET_COUNT
};
bool component_has(enum component_set set, uint32_t cp);
/* The ranges of a set, ascending. */
const struct char_range *component_ranges(enum component_set set, size_t *n);

/* Whether Whitespace and single_word count a character as part of a word. */
bool component_word(uint32_t cp);

/* The lower case of a character that has one character as such; U+0130 is left to the caller. */
uint32_t component_lower(uint32_t cp);

/* End of the grapheme cluster (Unicode Standard Annex 29, extended) that begins at byte `at` of valid UTF-8. */
size_t component_cluster_end(struct str text, size_t at);

#endif
