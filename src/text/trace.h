/* Following tokens back to the input while it is encoded: hooks of the encoder (encode.c), for
 * tokenizer_encode_pieces alone. */
#ifndef MLXCEL_TEXT_TRACE_H
#define MLXCEL_TEXT_TRACE_H

#include "text/align.h"
#include "text/tokenizer_int.h"

struct tracer {
    const struct tokenizer   *t;
    struct token_pieces      *out;
    struct str                whole;  /* the text that is encoded */
    struct align              normal; /* of the normalized text at hand, in `whole` */
    struct align              piece;  /* of the pre-tokenizer's text at hand */
    struct normalizer_scratch scratch, small;
    struct finder_run         find, small_find;
    struct buf                now; /* between two steps of the normalizer */
};
void tracer_init(struct tracer *r, const struct tokenizer *t, size_t n, struct token_pieces *out); /* n: of the text */
void tracer_deinit(struct tracer *r);

/* A part of the whole text was normalized. */
int trace_normalized(struct tracer *r, struct str raw, struct str normalized, struct error *e);
/* Part [at, at + n) of the normalized text goes to the pre-tokenizer. */
int trace_begin(struct tracer *r, struct pretok_scratch *s, size_t at, size_t n, struct error *e);
/* The pre-tokenizer's text from `at` on holds a piece that the model made these ids of. */
int trace_piece(struct tracer *r, struct str piece, size_t at, const int32_t *ids, size_t n, struct error *e);
/* Added tokens: bytes [start, end) of the whole text, or of the normalized one; the post-processor's stand nowhere. */
int trace_raw(struct tracer *r, int32_t id, size_t start, size_t end, struct error *e);
int trace_added(struct tracer *r, int32_t id, size_t start, size_t end, struct error *e);

#endif
