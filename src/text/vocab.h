/* A table of token texts and their ids, found either way. Ids may have gaps, and several texts may have one id: each is
 * found, and the id's text is the one that was put last. Filled first, then indexed, then
 * read-only. */
#ifndef MLXCEL_TEXT_VOCAB_H
#define MLXCEL_TEXT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct vocab {
    struct buf texts; /* all of them, one after the other */
    struct vocab_entry {
        uint32_t at, n; /* in texts; n = VOCAB_ABSENT: no such id */
    } * by_id;
    size_t size, cap; /* 1 + the greatest id; entries allocated */
    size_t count;     /* texts */
    struct vocab_alias {
        struct vocab_entry text; /* not its id's, since another one came later */
        int32_t            id;
    } * aliases; /* [n_aliases], in the order of the ids once indexed */
    size_t n_aliases, cap_aliases;
    struct vocab_slot {
        uint32_t tag; /* high half of the text's hash */
        int32_t  at;  /* an id; -1: empty; -2 - i: aliases[i] */
    } * slots;
    size_t   mask;    /* number of slots - 1, a power of two - 1 */
    size_t   longest; /* bytes of the longest text */
    uint64_t seed;    /* of the hash: texts come from strangers */
};
#define VOCAB_ABSENT UINT32_MAX

void vocab_init(struct vocab *v);
void vocab_deinit(struct vocab *v);
/* Records a text for an id >= 0. Memory grows with the greatest id. False when out of memory. */
bool vocab_put(struct vocab *v, int32_t id, struct str text);
/* Two entries with the same text, of the ids a and b; a = -1: there are none. */
struct vocab_twice {
    struct str text;
    int32_t    a, b;
};
/* Makes vocab_find work; of equal texts that with the greatest id is found. *twice may be NULL. False when out of
 * memory. */
bool vocab_index(struct vocab *v, struct vocab_twice *twice);
/* How many texts it has, equal ones counted once. */
size_t  vocab_texts(const struct vocab *v);
int32_t vocab_find(const struct vocab *v, struct str text); /* -1 if there is none */
/* vocab_find for up to VOCAB_MANY texts: in a large vocabulary each look goes to memory several times, and together they
 * wait once. */
void vocab_find_many(const struct vocab *v, const struct str *texts, size_t n, int32_t *ids);
#define VOCAB_MANY 64

/* The aliases of an id, none as a rule: their number, the first one in *first. */
size_t vocab_aliases(const struct vocab *v, int32_t id, const struct vocab_alias **first);

static inline bool vocab_has(const struct vocab *v, int64_t id)
{
    return id >= 0 && (uint64_t)id < v->size && v->by_id[id].n != VOCAB_ABSENT;
}

/* p = NULL when there is no such id. */
static inline struct str vocab_text(const struct vocab *v, int64_t id)
{
    return vocab_has(v, id) ? (struct str){v->texts.p + v->by_id[id].at, v->by_id[id].n} : (struct str){0};
}

static inline struct str vocab_alias_text(const struct vocab *v, const struct vocab_alias *a)
{
    return (struct str){v->texts.p + a->text.at, a->text.n};
}

#endif
