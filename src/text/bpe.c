/* See bpe.h.
 *
 * A short piece (nearly all are) is an array in which the least rank is searched linearly. A long one is a linked list
 * with a heap of (rank, position), O(n log n): files without a pre-tokenizer make one piece of a whole text, and a
 * megabyte of one letter is one piece everywhere. Entries of the heap are not removed when their pair changes; an entry
 * counts only if the node still has its rank.
 */
#include "text/bpe.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "text/bytelevel.h"

#define NO_RANK UINT32_MAX
#define NO_NODE UINT32_MAX
#define SHORT_MAX 48 /* symbols */

/* A symbol; the pair it makes with the next one. */
struct bpe_node {
    int32_t  id, joined; /* token; token of the pair */
    uint32_t rank;       /* of the pair; NO_RANK: it has none */
    uint32_t prev, next; /* linked lists only */
};

void bpe_init(struct bpe *m, const struct vocab *vocab)
{
    *m = (struct bpe){.vocab = vocab, .unk_id = BPE_NONE};
}

void bpe_deinit(struct bpe *m)
{
    free(m->pairs);
    free((void *)m->whole);
    free(m->seams);
    *m = (struct bpe){0};
}

/* The facing characters of two tokens, as a number below 1 << BPE_SEAM_BITS. */
static size_t seam_of(const struct bpe *m, int32_t left, int32_t right)
{
    struct str a = vocab_text(m->vocab, left), b = vocab_text(m->vocab, right);
    size_t     at = a.n;
    uint32_t   x = 0, y = 0;
    while (at > 0 && ((unsigned char)a.p[--at] & 0xc0) == 0x80)
        ;
    utf8_decode(a.p + at, a.n - at, &x);
    utf8_decode(b.p, b.n, &y);
    return ((uint64_t)x << 32 | y) * 0x9e3779b97f4a7c15u >> (64 - BPE_SEAM_BITS);
}

bool bpe_add(struct bpe *m, int32_t left, int32_t right, int32_t id)
{
    if (!m->seams && !(m->seams = calloc((size_t)1 << (BPE_SEAM_BITS - 6), sizeof *m->seams)))
        return false;
    size_t seam = seam_of(m, left, right);
    m->seams[seam / 64] |= (uint64_t)1 << (seam % 64);
    struct bpe_pair *p = m->n_pairs < NO_RANK - 1 ? vec_room(m->pairs, m->n_pairs, &m->cap, sizeof *p) : NULL;
    if (!p)
        return false;
    m->pairs = p;
    m->pairs[m->n_pairs] = (struct bpe_pair){(uint32_t)left, (uint32_t)right, (uint32_t)m->n_pairs, id};
    m->n_pairs++;
    return true;
}

static inline size_t pair_hash(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    return (size_t)(h ^ h >> 32);
}

/* The slot that holds a pair, or the free one (rank NO_RANK) where it belongs. */
static inline struct bpe_pair *pair_slot(struct bpe_pair *table, size_t mask, uint32_t left, uint32_t right)
{
    size_t i = pair_hash(left, right) & mask;
    while (table[i].rank != NO_RANK && (table[i].left != left || table[i].right != right))
        i = (i + 1) & mask;
    return &table[i];
}

/* Of equal pairs the later one stays, as in the reference, which inserts them into a map. */
static bool index_pairs(struct bpe *m)
{
    size_t n = 2;
    while (n < 2 * m->n_pairs)
        n *= 2;
    struct bpe_pair *table = malloc(n * sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i < n; i++)
        table[i].rank = NO_RANK;
    for (size_t i = 0; i < m->n_pairs; i++)
        *pair_slot(table, n - 1, m->pairs[i].left, m->pairs[i].right) = m->pairs[i];
    free(m->pairs);
    m->pairs = table;
    m->cap = n;
    m->mask = n - 1;
    return true;
}

bool bpe_index(struct bpe *m)
{
    for (unsigned b = 0; b < 256; b++) {
        char spelled[2], hex[8], byte = (char)b;
        m->byte_id[b] = vocab_find(m->vocab, (struct str){spelled, bytelevel_spell(&byte, 1, spelled)});
        snprintf(hex, sizeof hex, "<0x%02X>", b);
        m->hex_id[b] = vocab_find(m->vocab, str_of(hex));
    }
    m->whole = calloc(m->vocab->size + 1, 1);
    return m->whole && index_pairs(m);
}

void bpe_scratch_deinit(struct bpe_scratch *s)
{
    free(s->nodes);
    free(s->heap);
    free(s->spelled);
    *s = (struct bpe_scratch){0};
}

/* Sets the pair that node a makes with the symbol `right` after it. */
static inline void set_pair(const struct bpe *m, struct bpe_node *a, int32_t right)
{
    const struct bpe_pair *p = pair_slot(m->pairs, m->mask, (uint32_t)a->id, (uint32_t)right);
    a->rank = p->rank;
    a->joined = p->id;
}

/* --- first symbols ---------------------------------------------------------------------------------------------- */

static int add_node(struct bpe_scratch *s, int32_t id, struct error *e)
{
    struct bpe_node *v = s->n_nodes < INT32_MAX ? vec_room(s->nodes, s->n_nodes, &s->nodes_cap, sizeof *v) : NULL;
    if (!v)
        return error_nomem(e, "a long text");
    s->nodes = v;
    s->nodes[s->n_nodes++].id = id;
    return 0;
}

/* The tokens "<0xHH>" of a character's bytes; sets *done if all exist. */
static int add_hex(const struct bpe *m, struct str c, struct bpe_scratch *s, bool *done, struct error *e)
{
    int status = 0;
    *done = false;
    for (size_t i = 0; i < c.n; i++)
        if (m->hex_id[(unsigned char)c.p[i]] < 0)
            return 0;
    for (size_t i = 0; i < c.n && !status; i++)
        status = add_node(s, m->hex_id[(unsigned char)c.p[i]], e);
    *done = true;
    return status;
}

static int unknown(const struct bpe *m, struct str c, struct bpe_scratch *s, bool *pending, struct error *e)
{
    bool done = false;
    int  status = m->byte_fallback ? add_hex(m, c, s, &done, e) : 0;
    if (status || done || m->unk_id == BPE_NONE)
        return status;
    if (m->unk_id == BPE_MISSING)
        return error_set(e, ERR_INVALID, NULL, "the vocabulary has no token for '%.*s' and lacks the unk_token too",
                         STR_ARG(c));
    if (*pending && !m->fuse_unk)
        status = add_node(s, m->unk_id, e);
    *pending = true;
    return status;
}

/* Room for n bytes in s->spelled. */
static bool spelled_room(struct bpe_scratch *s, size_t n)
{
    if (s->spelled_cap >= n)
        return true;
    size_t cap = MAX(2 * n, (size_t)256);
    char  *p = realloc(s->spelled, cap);
    if (!p)
        return false;
    s->spelled = p;
    s->spelled_cap = cap;
    return true;
}

/* A character c of the piece with what it wears at its place. */
static int dress(const struct bpe *m, struct str piece, struct str *c, struct bpe_scratch *s, struct error *e)
{
    bool       first = c->p == piece.p, last = c->p + c->n == piece.p + piece.n;
    struct str before = first ? STR("") : m->prefix, after = last ? m->suffix : STR("");
    if (!before.n && !after.n)
        return 0;
    if (!spelled_room(s, before.n + c->n + after.n))
        return error_nomem(e, "a long text");
    memcpy(s->spelled, before.p, before.n);
    memcpy(s->spelled + before.n, c->p, c->n);
    memcpy(s->spelled + before.n + c->n, after.p, after.n);
    *c = (struct str){s->spelled, before.n + c->n + after.n};
    return 0;
}

/* The symbols that a piece begins with. An unk is added only when a known character or the end comes (so that it can
 * fuse with its neighbours), which puts byte tokens in between before it: so does the reference. */
static int first_symbols(const struct bpe *m, struct str piece, bool bytes, struct bpe_scratch *s, struct error *e)
{
    bool pending = false;
    int  status = 0;
    s->n_nodes = 0;
    for (size_t i = 0, len; i < piece.n && !status; i += len) {
        uint32_t   cp;
        char       spelled[2];
        struct str c = {piece.p + i, 1};
        int32_t    id;
        if (bytes) {
            id = m->byte_id[(unsigned char)piece.p[i]];
            len = 1;
            c = (struct str){spelled, bytelevel_spell(piece.p + i, 1, spelled)};
        } else {
            len = c.n = (size_t)utf8_decode(piece.p + i, piece.n - i, &cp);
            if ((m->prefix.n || m->suffix.n) && (status = dress(m, piece, &c, s, e)) != 0)
                break;
            id = vocab_find(m->vocab, c);
        }
        if (id < 0) {
            status = unknown(m, c, s, &pending, e);
            continue;
        }
        if (pending)
            status = add_node(s, m->unk_id, e);
        pending = false;
        if (!status)
            status = add_node(s, id, e);
    }
    return pending && !status ? add_node(s, m->unk_id, e) : status;
}

/* --- joining ---------------------------------------------------------------------------------------------------- */

/* In place, over an array; returns the number of symbols left. */
static size_t join_short(const struct bpe *m, struct bpe_node *v, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        set_pair(m, &v[i], v[i + 1].id);
    for (;;) {
        size_t   best = 0;
        uint32_t rank = NO_RANK;
        for (size_t i = 0; i + 1 < n; i++)
            if (v[i].rank < rank) {
                rank = v[i].rank;
                best = i;
            }
        if (rank == NO_RANK)
            return n;
        v[best].id = v[best].joined;
        n--;
        for (size_t i = best + 1; i < n; i++)
            v[i] = v[i + 1];
        if (best + 1 < n)
            set_pair(m, &v[best], v[best + 1].id);
        if (best > 0)
            set_pair(m, &v[best - 1], v[best].id);
    }
}

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
    a->rank = NO_RANK;
    if (a->next == NO_NODE)
        return 0;
    set_pair(m, a, s->nodes[a->next].id);
    return a->rank == NO_RANK ? 0 : heap_push(s, (uint64_t)a->rank << 32 | i, e);
}

/* Over symbols v[from .. from + n); their number becomes *left, from v[from] on. */
static int join_long(const struct bpe *m, struct bpe_scratch *s, size_t from, size_t n, size_t *left, struct error *e)
{
    struct bpe_node *v = s->nodes;
    int              status = 0;
    size_t           end = from + n;
    s->n_heap = 0;
    for (size_t i = from; i < end; i++) {
        v[i].prev = i > from ? (uint32_t)i - 1 : NO_NODE;
        v[i].next = i + 1 < end ? (uint32_t)i + 1 : NO_NODE;
    }
    for (size_t i = from; i < end && !status; i++)
        status = queue_pair(m, s, (uint32_t)i, e);
    while (s->n_heap && !status) {
        uint64_t key = heap_pop(s);
        uint32_t i = (uint32_t)key, next = v[i].next;
        if (v[i].rank != key >> 32)
            continue;
        v[i].id = v[i].joined;
        v[i].next = v[next].next;
        v[next].rank = NO_RANK;
        if (v[i].next != NO_NODE)
            v[v[i].next].prev = i;
        status = queue_pair(m, s, i, e);
        if (v[i].prev != NO_NODE && !status)
            status = queue_pair(m, s, v[i].prev, e);
    }
    size_t k = from;
    for (uint32_t i = (uint32_t)from; i != NO_NODE; i = v[i].next)
        v[k++].id = v[i].id;
    *left = k - from;
    return status;
}

/* Whether any merge may join symbol i with the next. With a prefix, which vanishes within a token, the characters that
 * face each other do not tell. */
static bool may_join(const struct bpe *m, const struct bpe_node *v, size_t i)
{
    if (m->prefix.n)
        return true;
    size_t seam = seam_of(m, v[i].id, v[i + 1].id);
    return m->seams[seam / 64] >> (seam % 64) & 1;
}

/* Joins all symbols, part by part. */
static int join(const struct bpe *m, struct bpe_scratch *s, struct error *e)
{
    struct bpe_node *v = s->nodes;
    size_t           n = s->n_nodes, kept = 0;
    int              status = 0;
    if (n <= SHORT_MAX || !m->seams) {
        s->n_nodes = m->seams ? join_short(m, v, n) : n;
        return 0;
    }
    for (size_t from = 0, end, left; from < n && !status; from = end) {
        for (end = from + 1; end < n && may_join(m, v, end - 1);)
            end++;
        if (end - from <= SHORT_MAX)
            left = join_short(m, v + from, end - from);
        else
            status = join_long(m, s, from, end - from, &left, e);
        for (size_t i = 0; i < left && !status; i++)
            v[kept++].id = v[from + i].id;
    }
    s->n_nodes = kept;
    return status;
}

/* --- a piece ---------------------------------------------------------------------------------------------------- */

/* Finds the token that is spelled like the whole piece; *id = -1 if there is none. */
static int whole_token(const struct bpe *m, struct str piece, bool bytes, struct bpe_scratch *s, int32_t *id,
                       struct error *e)
{
    *id = -1;
    if (piece.n > m->vocab->longest)
        return 0;
    if (bytes) {
        if (!spelled_room(s, 2 * piece.n))
            return error_nomem(e, "a long text");
        piece = (struct str){s->spelled, bytelevel_spell(piece.p, piece.n, s->spelled)};
    }
    *id = vocab_find(m->vocab, piece);
    return 0;
}

int bpe_encode(const struct bpe *m, struct str piece, bool bytes, struct bpe_scratch *s, struct ids *out,
               struct error *e)
{
    int32_t whole;
    int     status = whole_token(m, piece, bytes, s, &whole, e);
    if (status)
        return status;
    uint8_t known = whole >= 0 ? atomic_load_explicit(&m->whole[whole], memory_order_relaxed) : 2;
    if (whole >= 0 && (m->ignore_merges || known == 1))
        return ids_push(out, whole) ? 0 : error_nomem(e, "token ids");
    status = first_symbols(m, piece, bytes, s, e);
    if (!status)
        status = join(m, s, e);
    if (!status && known == 0) {
        bool same = s->n_nodes == 1 && s->nodes[0].id == whole;
        atomic_store_explicit(&m->whole[whole], same ? 1 : 2, memory_order_relaxed);
    }
    for (size_t i = 0; i < s->n_nodes && !status; i++)
        if (!ids_push(out, s->nodes[i].id))
            status = error_nomem(e, "token ids");
    return status;
}
