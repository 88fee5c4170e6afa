/* Byte-pair encoding's own work: joining the symbols of one piece of text. */
#ifndef MLXCEL_TEXT_BPE_JOIN_H
#define MLXCEL_TEXT_BPE_JOIN_H

#include "text/bpe.h"

#define BPE_NO_RANK UINT32_MAX

static inline uint64_t bpe_pair_hash(const struct bpe *m, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * m->seed;
    return (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
}

/* The slot of a pair; its rank is BPE_NO_RANK if no merge joins the two. */
static inline struct bpe_pair *bpe_find_slot(const struct bpe *m, uint64_t hash, int32_t left, int32_t right)
{
    size_t           i = (size_t)((hash >> 32) * m->n_slots >> 32);
    struct bpe_pair *p = &m->slots[i];
    while (p->rank != BPE_NO_RANK && (p->left != (uint32_t)left || p->right != (uint32_t)right))
        p = ++i < m->n_slots ? p + 1 : m->slots + (i = 0);
    return p;
}

/* The bit of a pair in the filter, from bits of the hash that the slot does not depend on. */
static inline size_t bpe_filter_bit(const struct bpe *m, uint64_t hash)
{
    return hash & m->filter_mask;
}

/* The rank of the merge that joins two symbols, BPE_NO_RANK if none does. */
static inline uint32_t bpe_rank(const struct bpe *m, int32_t left, int32_t right)
{
    uint64_t hash = bpe_pair_hash(m, left, right);
    size_t   bit = bpe_filter_bit(m, hash);
    return m->filter[bit / 64] >> (bit % 64) & 1 ? bpe_find_slot(m, hash, left, right)->rank : BPE_NO_RANK;
}

/* Joins the *n >= 1 symbols of a piece in place until no pair of neighbours is in the list of merges; *n becomes their
 * number. bytes: the *n bytes whose tokens the symbols are, NULL if they are not such. ERR_NOMEM, ERR_LIMIT. */
int bpe_join(const struct bpe *m, struct bpe_scratch *s, const char *bytes, int32_t *v, size_t *n, struct error *e);

#endif
