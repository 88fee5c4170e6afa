/* Byte-pair encoding: the model that splits a piece of text into symbols and joins neighbours by rank.
 *
 * Every character (or byte, for byte-level vocabularies) of the piece begins as one symbol; then the neighbouring pair
 * that stands earliest in the list of merges is joined, the leftmost of equals first, until no pair is in the list.
 */
#ifndef MLXCEL_TEXT_BPE_H
#define MLXCEL_TEXT_BPE_H

#include "text/bpe_cache.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

#define BPE_NONE (-1)
#define BPE_MISSING (-2) /* unk_id: an unk_token is named that the vocabulary lacks */

/* Merge number `rank` of the file. */
struct bpe_pair {
    uint32_t left, right, rank;
};

struct bpe {
    const struct vocab *vocab;
    struct bpe_pair    *pairs; /* [n_pairs] in the order of the file, until bpe_index */
    int32_t            *made;  /* [n_pairs] the symbol that each merge makes */
    size_t              n_pairs, cap, made_cap;
    struct bpe_pair    *slots; /* hash table, half full */
    size_t              n_slots;
    uint64_t *filter; /* a bit for each hashed pair: most looks are for pairs that no merge joins, and end here */
    size_t    filter_mask;
    uint64_t  seed;             /* odd */
    uint32_t (*byte_rank)[256]; /* of each pair of bytes; NULL if some byte has no token */
    /* Which characters meet where a merge joins two texts, a bit for each (last of the left, first of the right), some
     * hashed. Two neighbours that no merge joins stay apart whatever happens around them, so a long piece falls into
     * parts there; a bit set in error costs only time. */
    uint64_t *seams;
    bool      ignore_merges; /* a piece that is a token is that token */
    bool      byte_fallback; /* unknown characters become tokens "<0xHH>" */
    bool      fuse_unk;      /* neighbouring unknown characters become one unk */
    int32_t   unk_id;        /* BPE_NONE: unknown characters vanish */
    /* What symbols wear that do not begin a piece, and those that end one. They outlive the model. A model that has
     * them does not read bytes. */
    struct str        prefix, suffix;
    int32_t           byte_id[256]; /* the token of a byte's spelling (bytelevel.h), -1 if none */
    int32_t           hex_id[256];  /* the token "<0xHH>" */
    int32_t           ascii_id[128];
    bool              cut_bytes, cut_chars; /* long pieces of bytes, of characters fall into parts at seams */
    struct bpe_cache *cache;
};

void bpe_init(struct bpe *m, const struct vocab *vocab);
void bpe_deinit(struct bpe *m);
/* Appends a merge: `id` is the joined token, whose text is that of left and right together (except for prefixes). False
 * when out of memory. */
bool bpe_add(struct bpe *m, int32_t left, int32_t right, int32_t id);
/* Makes the model ready; the vocabulary is complete and indexed, the fields above are set. False when out of memory. */
bool bpe_index(struct bpe *m);

/* One thread's memory for long pieces, used again for the next; zero-initialised is empty. */
struct bpe_scratch {
    struct bpe_node *nodes;
    uint64_t        *heap;
    size_t           nodes_cap, n_heap, heap_cap;
    char            *spelled; /* a piece as the vocabulary spells its bytes; a character with prefix and suffix */
    size_t           spelled_cap;
};
void bpe_scratch_deinit(struct bpe_scratch *s);

/* Appends the ids of one non-empty piece of valid UTF-8. bytes: the vocabulary spells bytes. After an error there may
 * be more of them than before. ERR_NOMEM, ERR_LIMIT (a piece beyond 2^32 symbols), ERR_INVALID (unknown character,
 * unk_token missing from the vocabulary). */
int bpe_encode(const struct bpe *m, struct str piece, bool bytes, struct bpe_scratch *s, struct ids *out,
               struct error *e);

#endif
