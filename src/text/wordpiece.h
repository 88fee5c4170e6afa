/* WordPiece: the model that takes the longest token at the beginning of a word, then the longest of those that continue
 * a word, and so on. A word where that fails anywhere is unknown as a whole.
 */
#ifndef MLXCEL_TEXT_WORDPIECE_H
#define MLXCEL_TEXT_WORDPIECE_H

#include "text/tokenizer.h"
#include "text/trie.h"
#include "text/vocab.h"

struct wordpiece {
    const struct vocab *vocab;
    struct trie         tokens;
    uint32_t            inside;    /* the tree's node for the prefix; 0: no token begins with it, or it is empty */
    struct str          prefix;    /* of tokens that continue a word; outlives the model */
    size_t              max_chars; /* longer words are unknown */
    int32_t             unk_id;    /* -1: unknown words are an error */
};

/* With "##", 100 and no unk_id. */
void wordpiece_init(struct wordpiece *m, const struct vocab *vocab);
void wordpiece_deinit(struct wordpiece *m);
/* Makes the model ready; the vocabulary is complete, the prefix set. ERR_NOMEM, ERR_LIMIT (see trie.h). */
int wordpiece_index(struct wordpiece *m, struct error *e);
/* Appends the ids of one piece of valid UTF-8. ERR_NOMEM, ERR_INVALID (an unknown word, no unk_id). */
int wordpiece_encode(const struct wordpiece *m, struct str piece, struct ids *out, struct error *e);

#endif
