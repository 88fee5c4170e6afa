/* The model and the way of one piece through it: the cache, or first symbols and joining (bpe_join.h), for long pieces
 * part by part. Contracts in bpe.h. */
#include "text/bpe.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/num.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "text/bpe_join.h"
#include "text/bytelevel.h"
#include "text/hex_token.h"

#define SEAM_DIRECT 0x180u /* characters below it, which spell bytes too, have a bit of their own */
#define SEAM_HASHED 20     /* bits of the hash of others */
#define SEAMS (SEAM_DIRECT * SEAM_DIRECT + (1u << SEAM_HASHED))

/* Modes of the cache. */
enum { MODE_BYTES = 1, MODE_PART = 2 };

void bpe_init(struct bpe *m, const struct vocab *vocab)
{
    *m = (struct bpe){.vocab = vocab, .unk_id = BPE_NONE, .seed = hash_seed() | 1};
}

void bpe_deinit(struct bpe *m)
{
    free(m->pairs);
    free(m->made);
    free(m->slots);
    free(m->filter);
    free(m->byte_rank);
    free(m->seams);
    bpe_cache_free(m->cache);
    *m = (struct bpe){0};
}

/* --- seams ------------------------------------------------------------------------------------------------------ */

/* The number of the seam between two characters. */
static inline size_t seam_of(uint32_t left, uint32_t right)
{
    if (left < SEAM_DIRECT && right < SEAM_DIRECT)
        return left * SEAM_DIRECT + right;
    uint64_t hash = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    return SEAM_DIRECT * SEAM_DIRECT + (hash >> (64 - SEAM_HASHED));
}

static void add_seam(struct bpe *m, struct str left, struct str right)
{
    size_t   at = left.n;
    uint32_t x = 0, y = 0;
    while (at > 0 && ((unsigned char)left.p[--at] & 0xc0) == 0x80)
        ;
    utf8_decode(left.p + at, left.n - at, &x);
    utf8_decode(right.p, right.n, &y);
    size_t seam = seam_of(x, y);
    m->seams[seam / 64] |= (uint64_t)1 << (seam % 64);
}

/* The character at p, or the one that spells the byte there; moves p. */
static inline uint32_t facing(const char **p, bool bytes)
{
    return bytes ? bytelevel_char((unsigned char)*(*p)++) : utf8_next(p);
}

/* The end of the part that begins at p. */
static const char *part_end(const struct bpe *m, const char *p, const char *end, bool bytes)
{
    uint32_t left = facing(&p, bytes);
    while (p < end) {
        const char *q = p;
        uint32_t    right = facing(&q, bytes);
        size_t      seam = seam_of(left, right);
        if (!(m->seams[seam / 64] >> (seam % 64) & 1))
            break;
        left = right;
        p = q;
    }
    return p;
}

/* --- making ----------------------------------------------------------------------------------------------------- */

bool bpe_add(struct bpe *m, int32_t left, int32_t right, int32_t id)
{
    if (!m->seams && !(m->seams = calloc(SEAMS / 64 + 1, sizeof *m->seams)))
        return false;
    add_seam(m, vocab_text(m->vocab, left), vocab_text(m->vocab, right));
    struct bpe_pair *p = m->n_pairs < BPE_NO_RANK - 1 ? vec_room(m->pairs, m->n_pairs, &m->cap, sizeof *p) : NULL;
    if (!p)
        return false;
    m->pairs = p;
    int32_t *made = vec_room(m->made, m->n_pairs, &m->made_cap, sizeof *made);
    if (!made)
        return false;
    m->made = made;
    m->pairs[m->n_pairs] = (struct bpe_pair){(uint32_t)left, (uint32_t)right, (uint32_t)m->n_pairs};
    m->made[m->n_pairs++] = id;
    return true;
}

/* Of equal pairs the later one stays, as in the reference, which inserts them into a map. */
static bool index_pairs(struct bpe *m)
{
    size_t bits = 64;
    while (bits < 4 * m->n_pairs)
        bits *= 2;
    m->filter_mask = bits - 1;
    m->filter = calloc(bits / 64, sizeof *m->filter);
    m->n_slots = 2 * m->n_pairs + 2;
    m->slots = calloc(m->n_slots, sizeof *m->slots);
    if (!m->filter || !m->slots)
        return false;
    for (size_t i = 0; i < m->n_slots; i++)
        m->slots[i].rank = BPE_NO_RANK;
    for (size_t i = 0; i < m->n_pairs; i++) {
        int32_t  left = (int32_t)m->pairs[i].left, right = (int32_t)m->pairs[i].right;
        uint64_t hash = bpe_pair_hash(m, left, right);
        size_t   bit = bpe_filter_bit(m, hash);
        m->filter[bit / 64] |= (uint64_t)1 << (bit % 64);
        *bpe_find_slot(m, hash, left, right) = m->pairs[i];
    }
    free(m->pairs);
    m->pairs = NULL;
    return true;
}

static void index_characters(struct bpe *m)
{
    hex_token_ids(m->vocab, m->hex_id);
    for (unsigned b = 0; b < 256; b++) {
        char spelled[2], byte = (char)b;
        m->byte_id[b] = vocab_find(m->vocab, (struct str){spelled, bytelevel_spell(&byte, 1, spelled)});
        if (b < 128)
            m->ascii_id[b] = vocab_find(m->vocab, (struct str){&byte, 1});
    }
}

/* Whether a merge joins one of the tokens "<0xHH>", whose texts are not what stands at their place. */
static bool joins_hex(const struct bpe *m)
{
    uint32_t lo = UINT32_MAX, hi = 0; /* where their ids lie, nearly always one after the other */
    for (unsigned b = 0; b < 256; b++) {
        lo = MIN(lo, (uint32_t)m->hex_id[b]);
        hi = MAX(hi, (uint32_t)m->hex_id[b]);
    }
    for (size_t i = 0; i < m->n_slots; i++) {
        const struct bpe_pair *p = &m->slots[i];
        if (p->rank != BPE_NO_RANK && ((p->left >= lo && p->left <= hi) || (p->right >= lo && p->right <= hi)))
            return true;
    }
    return false;
}

/* A piece may be cut only where every character of it makes symbols of its own: one that vanishes, or waits to fuse
 * with its neighbours, lets those on its sides meet. */
static void index_cuts(struct bpe *m)
{
    m->cut_bytes = m->cut_chars = m->seams && !m->vocab->n_aliases && !m->prefix.n && !m->suffix.n;
    m->cut_chars &= m->byte_fallback;
    for (unsigned b = 0; b < 256; b++) {
        m->cut_bytes &= m->byte_id[b] >= 0;
        m->cut_chars &= m->hex_id[b] >= 0;
    }
    m->cut_chars = m->cut_chars && !joins_hex(m);
}

static bool index_bytes(struct bpe *m)
{
    m->byte_rank = malloc(256 * sizeof *m->byte_rank);
    for (unsigned a = 0; m->byte_rank && a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            m->byte_rank[a][b] = bpe_rank(m, m->byte_id[a], m->byte_id[b]);
    return m->byte_rank;
}

bool bpe_index(struct bpe *m)
{
    m->cache = bpe_cache_new();
    if (!m->cache || !index_pairs(m))
        return false;
    index_characters(m);
    index_cuts(m);
    return !m->cut_bytes || index_bytes(m);
}

/* --- first symbols ---------------------------------------------------------------------------------------------- */

static int add_symbol(struct ids *out, int32_t id, struct error *e)
{
    return ids_push(out, id) ? 0 : error_nomem(e, "token ids");
}

/* The tokens "<0xHH>" of a character's bytes; sets *done if all exist. */
static int add_hex(const struct bpe *m, struct str c, struct ids *out, bool *done, struct error *e)
{
    int status = 0;
    *done = false;
    for (size_t i = 0; i < c.n; i++)
        if (m->hex_id[(unsigned char)c.p[i]] < 0)
            return 0;
    for (size_t i = 0; i < c.n && !status; i++)
        status = add_symbol(out, m->hex_id[(unsigned char)c.p[i]], e);
    *done = true;
    return status;
}

static int unknown(const struct bpe *m, struct str c, struct ids *out, bool *pending, struct error *e)
{
    bool done = false;
    int  status = m->byte_fallback ? add_hex(m, c, out, &done, e) : 0;
    if (status || done || m->unk_id == BPE_NONE)
        return status;
    if (m->unk_id == BPE_MISSING)
        return error_set(e, ERR_INVALID, NULL, "the vocabulary has no token for '%.*s' and lacks the unk_token too",
                         STR_ARG(c));
    if (*pending && !m->fuse_unk)
        status = add_symbol(out, m->unk_id, e);
    *pending = true;
    return status;
}

/* A symbol after the unknown ones that wait. */
static int add_known(const struct bpe *m, int32_t id, struct ids *out, bool *pending, struct error *e)
{
    int status = *pending ? add_symbol(out, m->unk_id, e) : 0;
    *pending = false;
    return status ? status : add_symbol(out, id, e);
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
    struct str before = first || !m->prefix.n ? STR("") : m->prefix, after = last && m->suffix.n ? m->suffix : STR("");
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

/* The symbols of bytes: each has a token, as a rule. */
static int byte_symbols(const struct bpe *m, struct str piece, struct ids *out, bool *pending, struct error *e)
{
    int status = 0;
    for (size_t i = 0; i < piece.n && !status; i++) {
        char    spelled[2];
        int32_t id = m->byte_id[(unsigned char)piece.p[i]];
        if (id < 0) {
            status = unknown(m, (struct str){spelled, bytelevel_spell(piece.p + i, 1, spelled)}, out, pending, e);
            continue;
        }
        status = add_known(m, id, out, pending, e);
    }
    return status;
}

static int char_symbols(const struct bpe *m, struct str piece, struct bpe_scratch *s, struct ids *out, bool *pending,
                        struct error *e)
{
    bool dressed = m->prefix.n || m->suffix.n;
    int  status = 0;
    for (const char *p = piece.p, *end = p + piece.n; p < end && !status;) {
        struct str c = {p, 0};
        uint32_t   cp = utf8_next(&p);
        c.n = (size_t)(p - c.p);
        if (dressed && (status = dress(m, piece, &c, s, e)) != 0)
            break;
        int32_t id = cp < 0x80 && !dressed ? m->ascii_id[cp] : vocab_find(m->vocab, c);
        if (id < 0) {
            status = unknown(m, c, out, pending, e);
            continue;
        }
        status = add_known(m, id, out, pending, e);
    }
    return status;
}

/* --- a piece ---------------------------------------------------------------------------------------------------- */

/* First symbols, joined. An unk is added only when a known character or the end comes (so that it can fuse with its
 * neighbours), which puts byte tokens in between before it: so does the reference. */
static int encode_joined(const struct bpe *m, struct str part, bool bytes, struct bpe_scratch *s, struct ids *out,
                         struct error *e)
{
    bool   pending = false;
    size_t from = out->n, n;
    int    status = bytes ? byte_symbols(m, part, out, &pending, e) : char_symbols(m, part, s, out, &pending, e);
    if (!status && pending)
        status = add_symbol(out, m->unk_id, e);
    n = out->n - from;
    if (status || n < 2)
        return status;
    status = bpe_join(m, s, bytes && n == part.n ? part.p : NULL, out->v + from, &n, e);
    out->n = from + n;
    return status;
}

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

/* A piece or (mode) a part of one, by the cache if it is short. */
static int encode_part(const struct bpe *m, struct str part, unsigned mode, struct bpe_scratch *s, struct ids *out,
                       struct error *e)
{
    struct bpe_key key;
    int32_t        ids[BPE_CACHE_IDS_MAX], whole = -1;
    size_t         from = out->n;
    bool           brief = part.n <= BPE_CACHE_TEXT_MAX;
    int            status = 0, n;
    if (brief) {
        key = bpe_key_of(part, mode);
        n = bpe_cache_get(m->cache, &key, ids);
        for (int i = 0; i < n && !status; i++)
            status = add_symbol(out, ids[i], e);
        if (n >= 0)
            return status;
    }
    if (m->ignore_merges && !(mode & MODE_PART))
        status = whole_token(m, part, mode & MODE_BYTES, s, &whole, e);
    if (!status)
        status = whole >= 0 ? add_symbol(out, whole, e) : encode_joined(m, part, mode & MODE_BYTES, s, out, e);
    if (!status && brief)
        bpe_cache_put(m->cache, &key, out->v ? out->v + from : ids, out->n - from); /* no list as yet: no ids */
    return status;
}

int bpe_encode(const struct bpe *m, struct str piece, bool bytes, struct bpe_scratch *s, struct ids *out,
               struct error *e)
{
    unsigned    mode = bytes ? MODE_BYTES : 0;
    const char *p = piece.p, *end = p + piece.n;
    int32_t     whole = -1;
    int         status = 0;
    if (piece.n <= BPE_CACHE_TEXT_MAX || !(bytes ? m->cut_bytes : m->cut_chars))
        return encode_part(m, piece, mode, s, out, e);
    if (m->ignore_merges && (status = whole_token(m, piece, bytes, s, &whole, e)) == 0 && whole >= 0)
        return add_symbol(out, whole, e);
    while (p < end && !status) {
        const char *to = part_end(m, p, end, bytes);
        status = encode_part(m, (struct str){p, (size_t)(to - p)}, mode | MODE_PART, s, out, e);
        p = to;
    }
    return status;
}
