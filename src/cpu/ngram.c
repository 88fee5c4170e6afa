/* Ids of n-grams of tokens; contract in tensor/ops.h. A few integer operations a row, done by one thread. */
#include <string.h>

#include "cpu/kernels.h"

/* The id of the token t and its n_back predecessors back[0], back[1], ... among m: they are digits in base `vocab`. */
static int32_t ngram_id(int64_t t, const int32_t *back, int n_back, int64_t vocab, int64_t m)
{
    int64_t power = 1, id = t;
    for (int i = 0; i < n_back; i++) {
        power = power * vocab % m;
        id += back[i] * power;
    }
    return (int32_t)(id % m);
}

static void cpu_ngram_ids(struct run *r, const struct ngram *g, struct tensor ids)
{
    const struct step *s = r->step;
    for (int i = 0; i < s->n_row; i++) {
        int32_t *back = (int32_t *)(void *)((char *)s->state[s->seq[i]] + g->state);
        for (int e = 0; e < g->n_table; e++)
            ((int32_t *)(void *)tensor_row(ids, e))[i] =
                ngram_id(s->token[i], back, 1 + e / g->n_split, g->vocab, g->first + 2 * (int64_t)e);
        memmove(back + 1, back, (size_t)(g->n_back - 1) * sizeof *back);
        back[0] = s->token[i];
    }
}

void ngram_install(struct cpu *c)
{
    c->base.ops.ngram_ids = cpu_ngram_ids;
}
