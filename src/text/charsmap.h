/* SentencePiece's map of characters (precompiled_charsmap, the normalizer Precompiled): a double-array trie whose keys
 * are texts and whose values point at what they become.
 *
 * The blob: the trie's size in bytes as a little-endian u32, that many bytes of u32 units, then the replacements, each
 * ended by NUL. A unit holds a label in its low byte (bit 31 clear), bit 8 "a key ends here", and from bit 10 on the
 * distance to its children, shifted left by 8 more if bit 9 is set; a value is a unit with bit 31 set.
 */
#ifndef MLXCEL_TEXT_CHARSMAP_H
#define MLXCEL_TEXT_CHARSMAP_H

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

struct charsmap {
    const uint32_t *units; /* [n_units] in the arena */
    size_t          n_units;
    struct str      texts;
};

/* From the blob, copied to the arena. ERR_FORMAT (cut short, not UTF-8), ERR_NOMEM. */
int charsmap_load(struct charsmap *m, struct str blob, struct arena *arena, struct error *e);
/* Appends the text, valid UTF-8, as the map has it: of each grapheme cluster below six bytes the shortest key at its
 * beginning stands for all of it; otherwise, and in longer ones, the same goes for single characters, and those without
 * a key stay. Values that point nowhere count as no key. */
void charsmap_run(const struct charsmap *m, struct str text, struct buf *out);

#endif
