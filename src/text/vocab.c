/* Texts in one block, entries by id, and an open-addressing hash table (XXH3, linear probing, at most two thirds full)
 * that is built once at the end, so that it never grows. Contracts in vocab.h. */
#include "text/vocab.h"

#include <stdlib.h>
#include <xxhash.h>

#include "base/hash.h"
#include "base/num.h"

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

bool vocab_put(struct vocab *v, int32_t id, struct str text)
{
    size_t at = v->texts.n;
    buf_put(&v->texts, text.p, text.n);
    if (v->texts.failed || !grow(v, MAX(v->size, (size_t)id + 1)))
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

/* The slot that holds `text`, or the empty one where it belongs. */
static struct vocab_slot *slot_of(const struct vocab *v, struct str text, uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32);
    for (size_t i = hash & v->mask;; i = (i + 1) & v->mask) {
        struct vocab_slot *s = &v->slots[i];
        if (s->id < 0 || (s->tag == tag && str_eq(vocab_text(v, s->id), text)))
            return s;
    }
}

bool vocab_index(struct vocab *v, int32_t *a, int32_t *b)
{
    size_t n = 2;
    *a = *b = -1;
    while (n < v->count + v->count / 2 + 2)
        n *= 2;
    v->slots = malloc(n * sizeof *v->slots);
    if (!v->slots)
        return false;
    v->mask = n - 1;
    for (size_t i = 0; i < n; i++)
        v->slots[i].id = -1;
    for (size_t id = 0; id < v->size; id++) {
        if (v->by_id[id].n == VOCAB_ABSENT)
            continue;
        struct str         text = vocab_text(v, (int64_t)id);
        uint64_t           hash = hash_of(v, text);
        struct vocab_slot *s = slot_of(v, text, hash);
        if (s->id >= 0) {
            *a = s->id;
            *b = (int32_t)id;
        }
        *s = (struct vocab_slot){(uint32_t)(hash >> 32), (int32_t)id};
    }
    return true;
}

size_t vocab_texts(const struct vocab *v)
{
    size_t n = 0;
    for (size_t i = 0; i <= v->mask && v->slots; i++)
        n += v->slots[i].id >= 0;
    return n;
}

int32_t vocab_find(const struct vocab *v, struct str text)
{
    return v->slots && text.n <= v->longest ? slot_of(v, text, hash_of(v, text))->id : -1;
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
        ids[i] = v->slots[hash[i] & v->mask].id;
        if (ids[i] >= 0)
            __builtin_prefetch(&v->by_id[ids[i]]);
    }
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= 0)
            __builtin_prefetch(v->texts.p + v->by_id[ids[i]].at);
    for (size_t i = 0; i < n; i++)
        ids[i] = texts[i].n <= v->longest ? slot_of(v, texts[i], hash[i])->id : -1;
}
