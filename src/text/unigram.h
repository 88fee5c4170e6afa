/* Unigram: the model that gives every piece of its vocabulary a score (a logarithm of its probability) and cuts a text
 * into the pieces with the greatest sum. What no piece covers is unknown, at a score below all others, and neighbouring
 * unknown characters are one.
 */
#ifndef MLXCEL_TEXT_UNIGRAM_H
#define MLXCEL_TEXT_UNIGRAM_H

#include "text/tokenizer.h"
#include "text/trie.h"
#include "text/vocab.h"

struct unigram {
    const struct vocab *vocab;
    double             *scores; /* [n] by id */
    size_t              n, cap;
    struct trie         pieces;
    double              unk_score;
    int32_t             unk_id;        /* -1: unknown characters are an error */
    bool                byte_fallback; /* unknown characters become tokens "<0xHH>" if all of these exist */
    int32_t             hex_id[256];   /* the token "<0xHH>", -1 if there is none */
};

void unigram_init(struct unigram *m, const struct vocab *vocab);
void unigram_deinit(struct unigram *m);
/* The score of the next id, from 0 on: one for each id of the vocabulary, which has no gaps. False when out of memory.
 */
bool unigram_add(struct unigram *m, double score);
/* Makes the model ready; the vocabulary is complete and indexed, unk_id below its size. ERR_NOMEM, ERR_LIMIT (see
 * trie.h). */
int unigram_index(struct unigram *m, struct error *e);

/* One thread's memory; zero-initialised is empty. */
struct unigram_scratch {
    struct unigram_best *best;
    size_t               best_cap;
    struct unigram_part *parts;
    size_t               n_parts, parts_cap;
};
void unigram_scratch_deinit(struct unigram_scratch *s);

/* Appends the ids of one piece of valid UTF-8. ERR_NOMEM, ERR_LIMIT (a piece of 4 GiB), ERR_INVALID (an unknown
 * character, no unk_id). */
int unigram_encode(const struct unigram *m, struct str piece, struct unigram_scratch *s, struct ids *out,
                   struct error *e);

#endif
