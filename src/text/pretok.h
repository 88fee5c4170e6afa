/* Pre-tokenizers: how a normalized piece of text is cut into the pieces that the model sees one by one.
 *
 * Byte-level vocabularies spell bytes as characters. Where that spelling is the last step, as in nearly all files, the
 * pieces may stay plain bytes and the model is told so (`bytes`).
 */
#ifndef MLXCEL_TEXT_PRETOK_H
#define MLXCEL_TEXT_PRETOK_H

#include "text/align.h"
#include "text/finder.h"

struct pretok_step;
struct pretok {
    struct pretok_step *v;
    size_t              n, cap;
    bool                bytes; /* the vocabulary spells the bytes of the pieces */
};

/* o may be NULL or null: the text is one piece. Deinitialise also after an error. */
int  pretok_load(struct pretok *p, struct component *c, const struct json_t *o);
void pretok_deinit(struct pretok *p);
/* After loading, for a model that reads bytes: a spelling of bytes that stands last is left to it. */
void pretok_leave_bytes(struct pretok *p);

/* Pieces of a text, in order: [start, end) in bytes. */
struct pieces {
    struct str text;
    struct piece {
        size_t start, end;
    } * v;
    size_t n, cap;
};

/* One thread's memory; the result lies in `now`. */
struct pretok_scratch {
    struct pieces now, next;
    struct buf    a, b;
    size_t        left;  /* bytes that runs may still make, each counted where its text is longest */
    struct align *trace; /* NULL, or the alignment of the text, which pretok_run keeps up; a member of the caller's */
};
/* total: bytes of all the text that is encoded; it sets `left`, see growth.h. */
void pretok_scratch_init(struct pretok_scratch *s, size_t total);
void pretok_scratch_deinit(struct pretok_scratch *s);

/* Cuts `text` into s->now (no piece is empty); its text is `text` itself or rewritten. head: how many of its first bytes
 * stand for the first character of the whole input. ERR_NOMEM, ERR_LIMIT (of patterns, of growth). */
int pretok_run(const struct pretok *p, struct str text, size_t head, struct pretok_scratch *s, struct finder_run *find,
               struct error *e);

#endif
