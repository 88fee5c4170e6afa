/* Byte-pair encoding's own work: joining the symbols of one piece of text. */
#ifndef MLXCEL_TEXT_BPE_JOIN_H
#define MLXCEL_TEXT_BPE_JOIN_H

#include "text/bpe.h"

#define BPE_NO_RANK UINT32_MAX

static inline size_t bpe_pair_place(const struct bpe *m, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * m->seed;
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
    return (size_t)((h >> 32) * m->n_slots >> 32);
}

/* The slot of a pair; its rank is BPE_NO_RANK if no merge joins the two. */
static inline struct bpe_pair *bpe_find_pair(const struct bpe *m, int32_t left, int32_t right)
{
    size_t           i = bpe_pair_place(m, (uint32_t)left, (uint32_t)right);
    struct bpe_pair *p = &m->slots[i];
    while (p->rank != BPE_NO_RANK && (p->left != (uint32_t)left || p->right != (uint32_t)right))
        p = ++i < m->n_slots ? p + 1 : m->slots + (i = 0);
    return p;
}

/* Joins the *n >= 1 symbols of a piece in place until no pair of neighbours is in the list of merges; *n becomes their
 * number. bytes: the *n bytes whose tokens the symbols are, NULL if they are not such. ERR_NOMEM, ERR_LIMIT. */
int bpe_join(const struct bpe *m, struct bpe_scratch *s, const char *bytes, int32_t *v, size_t *n, struct error *e);

#endif
