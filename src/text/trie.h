/* The texts of a vocabulary as a tree of bytes: which of them a text begins with is found in one walk, whose length is
 * that of the longest. */
#ifndef MLXCEL_TEXT_TRIE_H
#define MLXCEL_TEXT_TRIE_H

#include "base/error.h"
#include "text/vocab.h"

/* Bound the time of a walk, and the memory: a byte takes a node. */
#define TRIE_TEXT_MAX 1024                /* bytes of one text */
#define TRIE_TEXTS_MAX ((size_t)32 << 20) /* of all */

/* A beginning of texts. Its children stand side by side in the order of their bytes. */
struct trie_node {
    uint32_t first; /* of its children */
    int32_t  id;    /* of the text that ends here, -1: none */
    uint16_t n;     /* children */
    uint8_t  byte;  /* that leads here */
};

struct trie {
    struct trie_node *v; /* [n]; the first is the root */
    size_t            n, cap;
};

/* Makes the tree of a whole vocabulary, which it does not refer to afterwards; of equal texts that with the greatest id counts. Frees
 * what was there before. ERR_NOMEM, ERR_LIMIT. */
int  trie_index(struct trie *t, const struct vocab *vocab, struct error *e);
void trie_deinit(struct trie *t);

/* The child of a node for a byte; 0, the root, if there is none. */
static inline uint32_t trie_child(const struct trie *t, uint32_t node, uint8_t byte)
{
    const struct trie_node *v = t->v;
    uint32_t                lo = v[node].first, hi = lo + v[node].n;
    while (hi - lo > 4) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (v[mid].byte <= byte)
            lo = mid;
        else
            hi = mid;
    }
    for (; lo < hi; lo++)
        if (v[lo].byte == byte)
            return lo;
    return 0;
}

#endif
