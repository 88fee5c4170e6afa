/* Texts in one block, entries by id, and an open-addressing hash table (XXH3, linear probing, at most two thirds full)
 * that is built once at the end, so that it never grows. Contracts in vocab.h. */
#include "text/vocab.h"

#include <stdlib.h>
#include <xxhash.h>

#include "base/hash.h"
#include "base/num.h"
#include "base/vec.h"

#define TEXTS_MAX ((size_t)UINT32_MAX - 1)

void vocab_init(struct vocab *v)
{
    *v = (struct vocab){.seed = hash_seed()};
    buf_init(&v->texts, TEXTS_MAX);
}

void vocab_deinit(struct vocab *v)
{
    buf_deinit(&v->texts);
    free(v->by_id);
    free(v->aliases);
    free(v->slots);
    *v = (struct vocab){0};
}

static bool grow(struct vocab *v, size_t size)
{
    if (size > v->cap) {
        size_t              cap = MAX(MAX(size, v->cap + v->cap / 2), (size_t)256);
        struct vocab_entry *p = realloc(v->by_id, cap * sizeof *p);
        if (!p)
            return false;
        v->by_id = p;
        v->cap = cap;
    }
    for (; v->size < size; v->size++)
        v->by_id[v->size].n = VOCAB_ABSENT;
    return true;
}

/* The text that an id has so far becomes an alias. */
static bool put_alias(struct vocab *v, int32_t id)
{
    if (v->n_aliases >= INT32_MAX - 2)
        return false;
    struct vocab_alias *p = vec_room(v->aliases, v->n_aliases, &v->cap_aliases, sizeof *p);
    if (!p)
        return false;
    v->aliases = p;
    v->aliases[v->n_aliases++] = (struct vocab_alias){v->by_id[id], id};
    return true;
}

bool vocab_put(struct vocab *v, int32_t id, struct str text)
{
    size_t at = v->texts.n;
    buf_put(&v->texts, text.p, text.n);
    if (v->texts.failed || !grow(v, MAX(v->size, (size_t)id + 1)) || (vocab_has(v, id) && !put_alias(v, id)))
        return false;
    v->by_id[id] = (struct vocab_entry){(uint32_t)at, (uint32_t)text.n};
    v->count++;
    v->longest = MAX(v->longest, text.n);
    return true;
}

static inline uint64_t hash_of(const struct vocab *v, struct str text)
{
    return XXH3_64bits_withSeed(text.p, text.n, v->seed);
}

#define SLOT_EMPTY (-1)

static inline int32_t slot_of_alias(size_t i)
{
    return -2 - (int32_t)i;
}

static inline const struct vocab_alias *alias_of(const struct vocab *v, int32_t at)
{
    return &v->aliases[-2 - at];
}

static inline struct str slot_text(const struct vocab *v, int32_t at)
{
    const struct vocab_entry *e = at >= 0 ? &v->by_id[at] : &alias_of(v, at)->text;
    return (struct str){v->texts.p + e->at, e->n};
}

static inline int32_t slot_id(const struct vocab *v, const struct vocab_slot *s)
{
    return s->at >= SLOT_EMPTY ? s->at : alias_of(v, s->at)->id;
}

/* The slot that holds `text`, or the empty one where it belongs. */
static struct vocab_slot *slot_of(const struct vocab *v, struct str text, uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32);
    for (size_t i = hash & v->mask;; i = (i + 1) & v->mask) {
        struct vocab_slot *s = &v->slots[i];
        if (s->at == SLOT_EMPTY || (s->tag == tag && str_eq(slot_text(v, s->at), text)))
            return s;
    }
}

static void index_text(struct vocab *v, int32_t at, struct vocab_twice *twice)
{
    struct str         text = slot_text(v, at);
    uint64_t           hash = hash_of(v, text);
    struct vocab_slot *s = slot_of(v, text, hash), mine = {(uint32_t)(hash >> 32), at};
    if (s->at != SLOT_EMPTY && twice)
        *twice = (struct vocab_twice){text, slot_id(v, s), slot_id(v, &mine)};
    if (slot_id(v, s) <= slot_id(v, &mine))
        *s = mine;
}

static int by_id(const void *a, const void *b)
{
    const struct vocab_alias *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : (x->text.at > y->text.at) - (x->text.at < y->text.at);
}

bool vocab_index(struct vocab *v, struct vocab_twice *twice)
{
    size_t n = 2;
    if (twice)
        *twice = (struct vocab_twice){.a = -1};
    while (n < v->count + v->count / 2 + 2)
        n *= 2;
    v->slots = malloc(n * sizeof *v->slots);
    if (!v->slots)
        return false;
    v->mask = n - 1;
    for (size_t i = 0; i < n; i++)
        v->slots[i].at = SLOT_EMPTY;
    if (v->n_aliases)
        qsort(v->aliases, v->n_aliases, sizeof *v->aliases, by_id);
    for (size_t id = 0; id < v->size; id++)
        if (vocab_has(v, (int64_t)id))
            index_text(v, (int32_t)id, twice);
    for (size_t i = 0; i < v->n_aliases; i++)
        index_text(v, slot_of_alias(i), twice);
    return true;
}

size_t vocab_aliases(const struct vocab *v, int32_t id, const struct vocab_alias **first)
{
    size_t lo = 0, hi = v->n_aliases, n = 0;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (v->aliases[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    while (lo + n < v->n_aliases && v->aliases[lo + n].id == id)
        n++;
    *first = v->aliases + lo;
    return n;
}

size_t vocab_texts(const struct vocab *v)
{
    size_t n = 0;
    for (size_t i = 0; i <= v->mask && v->slots; i++)
        n += v->slots[i].at != SLOT_EMPTY;
    return n;
}

int32_t vocab_find(const struct vocab *v, struct str text)
{
    return v->slots && text.n <= v->longest ? slot_id(v, slot_of(v, text, hash_of(v, text))) : -1;
}

/* First all slots are asked for, then all entries, all texts; then comparing finds everything near. The slot asked for
 * is the one where the search begins, which holds the text more often than not. */
void vocab_find_many(const struct vocab *v, const struct str *texts, size_t n, int32_t *ids)
{
    uint64_t hash[VOCAB_MANY];
    if (!v->slots) {
        for (size_t i = 0; i < n; i++)
            ids[i] = -1;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        hash[i] = hash_of(v, texts[i]);
        __builtin_prefetch(&v->slots[hash[i] & v->mask]);
    }
    for (size_t i = 0; i < n; i++) {
        ids[i] = v->slots[hash[i] & v->mask].at;
        if (ids[i] >= 0)
            __builtin_prefetch(&v->by_id[ids[i]]);
    }
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= 0)
            __builtin_prefetch(v->texts.p + v->by_id[ids[i]].at);
    for (size_t i = 0; i < n; i++)
        ids[i] = texts[i].n <= v->longest ? slot_id(v, slot_of(v, texts[i], hash[i])) : -1;
}
