/* The merges that a vocabulary implies which was written without a list of them.
 *
 * SentencePiece joins the neighbours whose joined piece has the best score, tiktoken those whose joined bytes have the
 * lowest rank: both know the vocabulary only. Byte-pair encoding by a list does the same when the list names, for every
 * token, each way of splitting it into two others, tokens in the order of preference.
 */
#ifndef MLXCEL_TEXT_MERGES_H
#define MLXCEL_TEXT_MERGES_H

#include "base/error.h"
#include "text/vocab.h"

#define MERGES_MAX 4000000

struct merges {
    struct merge {
        int32_t left, right, made;
    } * v; /* [n], the first one is preferred */
    size_t n, cap;
};

/* What takes part, and in which order. */
struct merges_rule {
    const int32_t *order; /* [n_order] the tokens to make, the preferred first */
    size_t         n_order;
    const uint8_t *usable;     /* [vocab size] whether a token may be a part; NULL: each may */
    bool           by_left_id; /* splits of one token: those with the lower left id first, else with the shorter left */
};

/* Appends to *m. The vocabulary is indexed; tokens split between characters. Time: for every token the square of its
 * length. ERR_LIMIT (more than MERGES_MAX), ERR_NOMEM. merges_deinit *m also after a failure. */
int merges_derive(struct merges *m, const struct vocab *vocab, const struct merges_rule *rule, struct error *e);
/* The same in the order that SentencePiece's scores [vocab size] imply, the greatest first, of the usable tokens. */
int  merges_derive_by_score(struct merges *m, const struct vocab *vocab, const float *scores, const uint8_t *usable,
                            struct error *e);
void merges_deinit(struct merges *m);

#endif
