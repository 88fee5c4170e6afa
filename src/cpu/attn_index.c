/* Choosing keys: an indexer scores all keys of a row's sequence and keeps the best (DeepSeek-V3.2's sparse attention).
 *
 * Each row is the work of one thread. Of its scores, brought into an order of integers in which NaN comes last, a radix
 * search finds the least that is still in; then one pass in order of positions takes all above it, and of those equal to it
 * the first ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cpu/attn.h"
#include "cpu/kernels.h"

#define RADIX_BITS 8
#define RADIX (1 << RADIX_BITS)

/* Scratch of one thread. */
struct worker {
    struct attn_block b;
    uint32_t         *rank; /* [lim.n_key] */
};

struct job {
    const struct cpu  *cpu;
    const struct step *step;
    const struct attn *a;
    struct tensor      q, weight, keys;
};

/* Greater for a greater number; 0 for NaN; -0 is 0. */
static uint32_t rank_of(float x)
{
    uint32_t u;
    if (isnan(x))
        return 0;
    x += 0.0f;
    memcpy(&u, &x, sizeof u);
    return u >> 31 ? ~u : u | 0x80000000u;
}

/* The `top`-th greatest of n ranks, 0 < top <= n; *equal: how many of those equal to it are in. */
static uint32_t least_in(const uint32_t *rank, int64_t n, int64_t top, int64_t *equal)
{
    uint32_t found = 0;
    for (int shift = 32 - RADIX_BITS; shift >= 0; shift -= RADIX_BITS) {
        int64_t  count[RADIX] = {0};
        uint32_t mask = shift + RADIX_BITS == 32 ? 0 : ~0u << (shift + RADIX_BITS), digit = RADIX - 1;
        for (int64_t i = 0; i < n; i++)
            if (((rank[i] ^ found) & mask) == 0)
                count[rank[i] >> shift & (RADIX - 1)]++;
        for (; top > count[digit]; digit--)
            top -= count[digit];
        found |= digit << shift;
    }
    *equal = top;
    return found;
}

/* Positions of the `top` best of n ranks, ascending. */
static void choose(const uint32_t *rank, int64_t n, int64_t top, int32_t *out)
{
    int64_t  equal;
    uint32_t least = least_in(rank, n, top, &equal);
    for (int64_t i = 0; i < n; i++)
        if (rank[i] > least || (rank[i] == least && equal-- > 0))
            *out++ = (int32_t)i;
}

/* Ranks of keys [0, n) for row i. */
static void score_row(const struct job *j, struct worker *w, int64_t i, int64_t n)
{
    const struct kv_layer *kv = &j->a->kv;
    struct attn_block     *b = &w->b;
    void *const           *pages = j->step->pages[j->step->seq[i]];
    float                  score[KV_TILE];
    for (int64_t key = 0; key < n; key += KV_TILE) {
        void   *k = kv_k_tile(kv, pages[key / kv->page_tokens], 0, key);
        int64_t next = key + KV_TILE < n ? key + KV_TILE : key;
        b->next_k = kv_k_tile(kv, pages[next / kv->page_tokens], 0, next);
        b->k_scale = kv_scales(kv, k, kv->head_dim);
        j->cpu->attn->index(b, tensor_row(j->weight, i), k, kv->elem_size, score);
        for (int l = 0; l < KV_TILE && key + l < n; l++)
            w->rank[key + l] = rank_of(score[l]);
    }
}

static void index_row(const struct job *j, struct worker *w, int64_t i)
{
    const struct attn *a = j->a;
    struct attn_block *b = &w->b;
    int64_t            n = (int64_t)j->step->position[i] + 1;
    if (n <= j->keys.n_col) /* all: nobody looks at the list */
        return;
    b->n = a->n_head;
    b->head_dim = a->head_dim;
    b->scale = a->scale;
    memcpy(b->q, tensor_row(j->q, i), (size_t)a->n_head * (size_t)a->head_dim * sizeof(float));
    for (int h = 0; h < a->n_head; h++) {
        b->lo[h] = 0;
        b->hi[h] = KV_TILE;
    }
    score_row(j, w, i, n);
    choose(w->rank, n, j->keys.n_col, (int32_t *)(void *)tensor_row(j->keys, i));
}

static void index_part(void *arg, int member, int n)
{
    const struct job *j = arg;
    struct worker    *w = (struct worker *)j->cpu->index_scratch + member;
    long              lo, hi;
    pool_share(j->keys.n_row, 1, member, n, &lo, &hi);
    for (long i = lo; i < hi; i++)
        index_row(j, w, i);
}

void attn_index_keys(struct run *r, const struct attn *a, struct tensor q, struct tensor weight, struct tensor keys)
{
    struct cpu *c = (struct cpu *)r->backend;
    struct job  j = {c, r->step, a, q, weight, keys};
    if (keys.n_row > 1)
        pool_run(c->pool, index_part, &j);
    else
        index_part(&j, 0, 1);
}

/* Lays out the scratch in one allocation at p, or counts its bytes. */
static size_t scratch_layout(char *p, const struct run_limits *lim, int threads, bool *ok)
{
    size_t         at = 0, heads = (size_t)lim->n_index_head;
    struct worker *w = memory_take(p, &at, (size_t)threads, sizeof *w, ok), none;
    for (int i = 0; i < threads; i++) {
        struct worker *to = w ? &w[i] : &none;
        to->b.q = memory_take(p, &at, heads * (size_t)lim->index_dim, sizeof(float), ok);
        to->b.s = memory_take(p, &at, heads * KV_TILE, sizeof(float), ok);
        to->b.lo = memory_take(p, &at, heads, sizeof(int), ok);
        to->b.hi = memory_take(p, &at, heads, sizeof(int), ok);
        to->rank = memory_take(p, &at, (size_t)lim->n_key, sizeof(uint32_t), ok);
    }
    return at;
}

int index_reserve(struct cpu *c, struct error *e)
{
    bool   ok = true;
    int    threads = pool_size(c->pool);
    size_t bytes = c->lim.n_index_head ? scratch_layout(NULL, &c->lim, threads, &ok) : 0;
    char  *p = ok && bytes ? aligned_alloc(64, bytes) : NULL;
    if (!bytes)
        return 0;
    if (!p)
        return error_nomem(e, "the scratch of an indexer");
    scratch_layout(p, &c->lim, threads, &ok);
    free(c->index_scratch);
    c->index_scratch = p;
    return 0;
}
