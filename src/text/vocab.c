/* Texts in one block, entries by id, and an open-addressing hash table (XXH3, linear probing, at most two thirds full)
 * that is built once at the end, so that it never grows. Contracts in vocab.h. */
#include "text/vocab.h"

#include <stdlib.h>
#include <xxhash.h>

#include "base/num.h"

#define TEXTS_MAX ((size_t)UINT32_MAX - 1)

void vocab_init(struct vocab *v)
{
    *v = (struct vocab){0};
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

/* The slot that holds `text`, or the empty one where it belongs. */
static struct vocab_slot *slot_of(const struct vocab *v, struct str text, uint32_t *tag)
{
    uint64_t hash = XXH3_64bits(text.p, text.n);
    *tag = (uint32_t)(hash >> 32);
    for (size_t i = hash & v->mask;; i = (i + 1) & v->mask) {
        struct vocab_slot *s = &v->slots[i];
        if (s->id < 0 || (s->tag == *tag && str_eq(vocab_text(v, s->id), text)))
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
        uint32_t tag;
        if (v->by_id[id].n == VOCAB_ABSENT)
            continue;
        struct vocab_slot *s = slot_of(v, vocab_text(v, (int64_t)id), &tag);
        if (s->id >= 0) {
            *a = s->id;
            *b = (int32_t)id;
        }
        *s = (struct vocab_slot){tag, (int32_t)id};
    }
    return true;
}

int32_t vocab_find(const struct vocab *v, struct str text)
{
    uint32_t tag;
    return v->slots && text.n <= v->longest ? slot_of(v, text, &tag)->id : -1;
}
