/* Every entry is one cache line under a version number that is odd while somebody writes. A reader that finds another
 * number after reading than before, or an odd one, has seen nothing; a writer that finds an odd one lets it be. All
 * fields are atomic, since readers may look at what is being written. Contracts in bpe_cache.h. */
#include "text/bpe_cache.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/num.h"

#define PLACES_BITS 16
#define LINE 64
#define ID_BITS 21
#define ID_MASK ((1u << ID_BITS) - 1)

struct entry {
    _Atomic uint32_t version;
    _Atomic uint32_t kind; /* the key's, and the number of ids above its 16 bits; 0: nothing yet */
    _Atomic uint64_t word[BPE_CACHE_TEXT_MAX / 8];
    _Atomic uint64_t ids[BPE_CACHE_IDS_MAX / 3]; /* three in each */
};
_Static_assert(sizeof(struct entry) == LINE, "an entry is one cache line");

struct bpe_cache {
    void         *memory;
    struct entry *v; /* in memory, at the beginning of a cache line */
};

struct bpe_cache *bpe_cache_new(void)
{
    struct bpe_cache *c = malloc(sizeof *c);
    if (!c)
        return NULL;
    c->memory = calloc(((size_t)1 << PLACES_BITS) + 1, LINE);
    if (!c->memory) {
        free(c);
        return NULL;
    }
    c->v = (void *)((char *)c->memory + -(uintptr_t)c->memory % LINE);
    return c;
}

void bpe_cache_free(struct bpe_cache *c)
{
    if (c)
        free(c->memory);
    free(c);
}

static inline uint64_t load(const char *p, size_t n)
{
    uint64_t x = 0;
    memcpy(&x, p, n);
    return x;
}

/* Whole words, then the last eight bytes again (of less than eight: two overlapping halves): with the length this tells
 * every text from every other. The top bits of a sum of products depend on all bits of the words. */
struct bpe_key bpe_key_of(struct str piece, unsigned mode)
{
    struct bpe_key key = {.kind = (uint32_t)piece.n | mode << 8};
    const char    *p = piece.p;
    size_t         n = piece.n, i = 0;
    uint64_t       hash;
    if (n >= 8) {
        for (; 8 * (i + 1) <= n; i++)
            key.word[i] = load(p + 8 * i, 8);
        if (8 * i < n)
            key.word[i] = load(p + n - 8, 8);
    } else if (n >= 4)
        key.word[0] = load(p, 4) | load(p + n - 4, 4) << 32;
    else
        key.word[0] = (uint64_t)(unsigned char)p[0] | (uint64_t)(unsigned char)p[n / 2] << 8 |
                      (uint64_t)(unsigned char)p[n - 1] << 16;
    hash = key.word[0] * 0x9e3779b97f4a7c15u + key.word[1] * 0xc2b2ae3d27d4eb4fu + key.word[2] * 0x165667b19e3779f9u +
           key.word[3] * 0xd6e8feb86659fd93u + key.kind * 0xa0761d6478bd642fu;
    hash = (hash ^ hash >> 32) * 0xe7037ed1a0b428dbu;
    key.place = (uint32_t)(hash >> (64 - PLACES_BITS));
    return key;
}

int bpe_cache_get(const struct bpe_cache *c, const struct bpe_key *key, int32_t ids[BPE_CACHE_IDS_MAX])
{
    struct entry *x = &c->v[key->place];
    uint32_t      version = atomic_load_explicit(&x->version, memory_order_acquire);
    uint32_t      kind = atomic_load_explicit(&x->kind, memory_order_acquire);
    uint64_t      differ = (kind & 0xffff) ^ key->kind;
    for (size_t i = 0; i < ARRAY_LEN(key->word); i++)
        differ |= atomic_load_explicit(&x->word[i], memory_order_acquire) ^ key->word[i];
    if (differ || version % 2)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(x->ids); i++) {
        uint64_t three = atomic_load_explicit(&x->ids[i], memory_order_acquire);
        for (size_t k = 0; k < 3; k++)
            ids[3 * i + k] = (int32_t)(three >> k * ID_BITS & ID_MASK);
    }
    return atomic_load_explicit(&x->version, memory_order_relaxed) == version ? (int)(kind >> 16) : -1;
}

void bpe_cache_put(struct bpe_cache *c, const struct bpe_key *key, const int32_t *ids, size_t n)
{
    struct entry *x = &c->v[key->place];
    uint32_t      version = atomic_load_explicit(&x->version, memory_order_relaxed);
    uint64_t      packed[ARRAY_LEN(x->ids)] = {0};
    if (n > BPE_CACHE_IDS_MAX)
        return;
    for (size_t i = 0; i < n; i++) {
        if ((uint32_t)ids[i] > ID_MASK)
            return;
        packed[i / 3] |= (uint64_t)(uint32_t)ids[i] << i % 3 * ID_BITS;
    }
    if (version % 2 || !atomic_compare_exchange_strong_explicit(&x->version, &version, version + 1,
                                                                memory_order_acquire, memory_order_relaxed))
        return;
    atomic_store_explicit(&x->kind, key->kind | (uint32_t)n << 16, memory_order_release);
    for (size_t i = 0; i < ARRAY_LEN(key->word); i++)
        atomic_store_explicit(&x->word[i], key->word[i], memory_order_release);
    for (size_t i = 0; i < ARRAY_LEN(x->ids); i++)
        atomic_store_explicit(&x->ids[i], packed[i], memory_order_release);
    atomic_store_explicit(&x->version, version + 2, memory_order_release);
}
