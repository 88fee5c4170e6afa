/* The search is Viterbi's over the bytes of a text: for each place the best way to reach it, found by walking the tree
 * of pieces from every place that begins a character. Time is the text's length times that of the longest piece. Sums
 * are of double precision and made from left to right, and the first of equals stays, the one that begins furthest to
 * the left: so ties and roundings fall as in the reference. Contracts in unigram.h. */
#include "text/unigram.h"

#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "text/hex_token.h"

#define UNKNOWN_PENALTY 10.0 /* an unknown character's score is this much below the least */
#define NOWHERE UINT32_MAX

/* The best way to the end of some bytes: its last piece. */
struct unigram_best {
    double   score;
    uint32_t start; /* NOWHERE: no way yet */
    int32_t  id;
};

struct unigram_part {
    uint32_t start, end;
    int32_t  id;
};

void unigram_init(struct unigram *m, const struct vocab *vocab)
{
    *m = (struct unigram){.vocab = vocab, .unk_id = -1};
}

void unigram_deinit(struct unigram *m)
{
    free(m->scores);
    trie_deinit(&m->pieces);
    *m = (struct unigram){0};
}

void unigram_scratch_deinit(struct unigram_scratch *s)
{
    free(s->best);
    free(s->parts);
    *s = (struct unigram_scratch){0};
}

bool unigram_add(struct unigram *m, double score)
{
    double *v = vec_room(m->scores, m->n, &m->cap, sizeof *v);
    if (!v)
        return false;
    m->scores = v;
    m->scores[m->n++] = score;
    return true;
}

int unigram_index(struct unigram *m, struct error *e)
{
    double least = INFINITY;
    for (size_t i = 0; i < m->n; i++)
        least = MIN(least, m->scores[i]);
    m->unk_score = least - UNKNOWN_PENALTY;
    hex_token_ids(m->vocab, m->hex_id);
    return trie_index(&m->pieces, m->vocab, e);
}

/* --- the search ------------------------------------------------------------------------------------------------- */

static inline bool improves(const struct unigram_best *to, double score)
{
    return to->start == NOWHERE || score > to->score;
}

static int no_unknown(struct error *e, struct str c)
{
    return error_set(e, ERR_INVALID, NULL, "the vocabulary has no token for '%.*s' and the model no \"unk_id\"",
                     (int)MIN(c.n, (size_t)100), c.p);
}

/* Finds the best way to each place; best[piece.n] ends the whole. */
static int search(const struct unigram *m, struct str piece, struct unigram_best *best, struct error *e)
{
    for (size_t start = 0, len; start < piece.n; start += len) {
        uint32_t cp, node = 0;
        double   so_far = best[start].score;
        bool     single = false;
        len = (size_t)utf8_decode(piece.p + start, piece.n - start, &cp);
        for (size_t end = start; end < piece.n && (node = trie_child(&m->pieces, node, (uint8_t)piece.p[end])) != 0;) {
            int32_t id = m->pieces.v[node].id;
            end++;
            if (id < 0)
                continue;
            double score = m->scores[id] + so_far;
            single |= end - start == len;
            if (improves(&best[end], score))
                best[end] = (struct unigram_best){score, (uint32_t)start, id};
        }
        double score = m->unk_score + so_far;
        if (single || !improves(&best[start + len], score))
            continue;
        if (m->unk_id < 0)
            return no_unknown(e, (struct str){piece.p + start, len});
        best[start + len] = (struct unigram_best){score, (uint32_t)start, m->unk_id};
    }
    return 0;
}

/* The parts of the best way, from the last to the first; neighbouring unknown ones are one. */
static int trace(const struct unigram *m, size_t n, struct unigram_scratch *s, struct error *e)
{
    s->n_parts = 0;
    for (size_t end = n; end > 0;) {
        const struct unigram_best *b = &s->best[end];
        struct unigram_part       *last = s->n_parts ? &s->parts[s->n_parts - 1] : NULL;
        if (last && b->id == m->unk_id && last->id == m->unk_id)
            last->start = b->start;
        else {
            struct unigram_part *v = vec_room(s->parts, s->n_parts, &s->parts_cap, sizeof *v);
            if (!v)
                return error_nomem(e, "a long text");
            s->parts = v;
            s->parts[s->n_parts++] = (struct unigram_part){b->start, (uint32_t)end, b->id};
        }
        end = b->start;
    }
    return 0;
}

/* Unknown text: it may, once joined, be a piece after all. */
static bool put_unknown(const struct unigram *m, struct str text, struct ids *out)
{
    int32_t id = vocab_find(m->vocab, text);
    bool    hex = m->byte_fallback && id < 0;
    for (size_t i = 0; i < text.n && hex; i++)
        hex = m->hex_id[(unsigned char)text.p[i]] >= 0;
    if (!hex)
        return ids_push(out, id < 0 ? m->unk_id : id);
    for (size_t i = 0; i < text.n; i++)
        if (!ids_push(out, m->hex_id[(unsigned char)text.p[i]]))
            return false;
    return true;
}

int unigram_encode(const struct unigram *m, struct str piece, struct unigram_scratch *s, struct ids *out,
                   struct error *e)
{
    int status;
    if (piece.n >= NOWHERE)
        return error_set(e, ERR_LIMIT, NULL, "a text of more than 4 GiB cannot be tokenized");
    if (s->best_cap < piece.n + 1) {
        struct unigram_best *v = realloc(s->best, (piece.n + piece.n / 2 + 1) * sizeof *v);
        if (!v)
            return error_nomem(e, "a long text");
        s->best = v;
        s->best_cap = piece.n + piece.n / 2 + 1;
    }
    s->best[0].score = 0;
    for (size_t i = 1; i <= piece.n; i++)
        s->best[i].start = NOWHERE;
    if ((status = search(m, piece, s->best, e)) != 0 || (status = trace(m, piece.n, s, e)) != 0)
        return status;
    for (size_t i = s->n_parts; i-- > 0 && !status;) {
        struct unigram_part p = s->parts[i];
        bool ok = p.id == m->unk_id ? put_unknown(m, (struct str){piece.p + p.start, p.end - p.start}, out)
                                    : ids_push(out, p.id);
        if (!ok)
            status = error_nomem(e, "token ids");
    }
    return status;
}
