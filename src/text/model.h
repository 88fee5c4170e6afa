/* Models: what turns one piece of text into token ids. One of four kinds, behind a table of functions.
 *
 * A model is begun by model_begin, filled by the functions of its kind (bpe.h, unigram.h, wordpiece.h, wordlevel.h) and
 * made ready by theirs too; from then on it is only read.
 */
#ifndef MLXCEL_TEXT_MODEL_H
#define MLXCEL_TEXT_MODEL_H

#include "text/bpe.h"
#include "text/unigram.h"
#include "text/wordlevel.h"
#include "text/wordpiece.h"

/* One thread's memory for encoding, used again from piece to piece. */
struct model_scratch {
    struct bpe_scratch     bpe;
    struct unigram_scratch unigram;
};
void model_scratch_init(struct model_scratch *s);
void model_scratch_deinit(struct model_scratch *s);

struct model;
struct model_kind {
    const char *name; /* its "type" in tokenizer.json */
    void (*init)(struct model *m, const struct vocab *vocab);
    void (*deinit)(struct model *m);
    int (*encode)(const struct model *m, struct str piece, bool bytes, struct model_scratch *s, struct ids *out,
                  struct error *e);
};
extern const struct model_kind model_kind_bpe, model_kind_unigram, model_kind_wordpiece, model_kind_wordlevel;

struct model {
    const struct model_kind *kind; /* NULL: none yet */
    union {
        struct bpe       bpe;
        struct unigram   unigram;
        struct wordpiece wordpiece;
        struct wordlevel wordlevel;
    };
};

/* The kind of that name; NULL if there is none. */
const struct model_kind *model_kind_of(struct str name);
/* Starts an empty model of a kind over a vocabulary that outlives it; whatever m was before is freed. */
void model_begin(struct model *m, const struct model_kind *kind, const struct vocab *vocab);
void model_deinit(struct model *m); /* fine on a zeroed one */

/* Whether model_encode takes plain bytes for a vocabulary that spells bytes (bytelevel.h). */
bool model_reads_bytes(const struct model *m);

/* Appends the ids of one non-empty piece of valid UTF-8 (or, where the model reads them and `bytes` is set, of bytes).
 * ERR_NOMEM, ERR_LIMIT, ERR_INVALID (an unknown word or character where the model has no token for such). */
static inline int model_encode(const struct model *m, struct str piece, bool bytes, struct model_scratch *s,
                               struct ids *out, struct error *e)
{
    return m->kind->encode(m, piece, bytes, s, out, e);
}

#endif
