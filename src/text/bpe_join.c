/* See bpe_join.h.
 *
 * A short piece (nearly all are) is an array in which the least rank is searched linearly. A long one is a linked list
 * with a heap of (rank, position), O(n log n): files without a pre-tokenizer make one piece of a whole text, and a
 * megabyte of one letter is one piece everywhere. Entries of the heap are not removed when their pair changes; an entry
 * counts only if the node still has its rank.
 */
#include "text/bpe_join.h"

#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"

#define NO_NODE UINT32_MAX
#define SHORT_MAX 48 /* symbols */

/* A symbol in a list; the pair it makes with the next one. */
struct bpe_node {
    int32_t  id;   /* token */
    uint32_t rank; /* of the pair; BPE_NO_RANK: it has none */
    uint32_t prev, next;
};

void bpe_scratch_deinit(struct bpe_scratch *s)
{
    free(s->nodes);
    free(s->heap);
    free(s->spelled);
    *s = (struct bpe_scratch){0};
}

/* --- short ------------------------------------------------------------------------------------------------------ */

/* In place; returns the number of symbols left. */
static size_t join_short(const struct bpe *m, const char *bytes, int32_t *v, size_t n)
{
    uint32_t rank[SHORT_MAX]; /* of v[i] and v[i + 1] */
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] =
            bytes ? m->byte_rank[(unsigned char)bytes[i]][(unsigned char)bytes[i + 1]] : bpe_rank(m, v[i], v[i + 1]);
    for (;;) {
        size_t   best = 0;
        uint32_t least = BPE_NO_RANK;
        for (size_t i = 0; i + 1 < n; i++)
            if (rank[i] < least) {
                least = rank[i];
                best = i;
            }
        if (least == BPE_NO_RANK)
            return n;
        v[best] = m->made[least];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            v[i] = v[i + 1];
            rank[i] = rank[i + 1];
        }
        if (best + 1 < n)
            rank[best] = bpe_rank(m, v[best], v[best + 1]);
        if (best > 0)
            rank[best - 1] = bpe_rank(m, v[best - 1], v[best]);
    }
}

/* --- long ------------------------------------------------------------------------------------------------------- */

static int heap_push(struct bpe_scratch *s, uint64_t key, struct error *e)
{
    uint64_t *h = vec_room(s->heap, s->n_heap, &s->heap_cap, sizeof *h);
    if (!h)
        return error_nomem(e, "a long text");
    s->heap = h;
    size_t i = s->n_heap++;
    for (; i > 0 && s->heap[(i - 1) / 4] > key; i = (i - 1) / 4)
        s->heap[i] = s->heap[(i - 1) / 4];
    s->heap[i] = key;
    return 0;
}

/* The least key; each node of the heap has four children. */
static uint64_t heap_pop(struct bpe_scratch *s)
{
    uint64_t *h = s->heap, top = h[0], last = h[--s->n_heap];
    size_t    n = s->n_heap, i = 0;
    for (size_t child; (child = 4 * i + 1) < n; i = child) {
        size_t stop = MIN(child + 4, n);
        for (size_t k = child + 1; k < stop; k++)
            if (h[k] < h[child])
                child = k;
        if (h[child] >= last)
            break;
        h[i] = h[child];
    }
    h[i] = last;
    return top;
}

/* Looks up the pair that node i makes with its next and queues it. */
static int queue_pair(const struct bpe *m, struct bpe_scratch *s, uint32_t i, struct error *e)
{
    struct bpe_node *a = &s->nodes[i];
    a->rank = BPE_NO_RANK;
    if (a->next == NO_NODE)
        return 0;
    a->rank = bpe_rank(m, a->id, s->nodes[a->next].id);
    return a->rank == BPE_NO_RANK ? 0 : heap_push(s, (uint64_t)a->rank << 32 | i, e);
}

/* A list of the symbols, all pairs queued. */
static int begin_long(const struct bpe *m, struct bpe_scratch *s, const int32_t *v, size_t n, struct error *e)
{
    int status = 0;
    s->n_heap = 0;
    if (n >= NO_NODE)
        return error_set(e, ERR_LIMIT, NULL, "a piece of text is too long");
    if (s->nodes_cap < n) {
        free(s->nodes);
        s->nodes = malloc(n * sizeof *s->nodes);
        s->nodes_cap = s->nodes ? n : 0;
        if (!s->nodes)
            return error_nomem(e, "a long text");
    }
    for (size_t i = 0; i < n; i++)
        s->nodes[i] = (struct bpe_node){
            .id = v[i], .prev = i ? (uint32_t)i - 1 : NO_NODE, .next = i + 1 < n ? (uint32_t)i + 1 : NO_NODE};
    for (size_t i = 0; i < n && !status; i++)
        status = queue_pair(m, s, (uint32_t)i, e);
    return status;
}

/* In place; *n becomes the number of symbols left. */
static int join_long(const struct bpe *m, struct bpe_scratch *s, int32_t *v, size_t *n, struct error *e)
{
    int              status = begin_long(m, s, v, *n, e);
    struct bpe_node *x = s->nodes;
    while (!status && s->n_heap) {
        uint64_t key = heap_pop(s);
        uint32_t i = (uint32_t)key, next = x[i].next;
        if (x[i].rank != key >> 32)
            continue;
        x[i].id = m->made[x[i].rank];
        x[i].next = x[next].next;
        x[next].rank = BPE_NO_RANK;
        if (x[i].next != NO_NODE)
            x[x[i].next].prev = i;
        status = queue_pair(m, s, i, e);
        if (x[i].prev != NO_NODE && !status)
            status = queue_pair(m, s, x[i].prev, e);
    }
    if (status)
        return status;
    *n = 0;
    for (uint32_t i = 0; i != NO_NODE; i = x[i].next)
        v[(*n)++] = x[i].id;
    return 0;
}

int bpe_join(const struct bpe *m, struct bpe_scratch *s, const char *bytes, int32_t *v, size_t *n, struct error *e)
{
    if (*n > SHORT_MAX)
        return join_long(m, s, v, n, e);
    *n = join_short(m, m->byte_rank ? bytes : NULL, v, *n);
    return 0;
}
