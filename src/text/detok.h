/* Streaming detokenizer: the text of a growing list of ids.
 *
 * All that detok_push and detok_finish append is, for any ids, the same bytes as tokenizer_decode of the whole list
 * (which is made from them). What is appended is always whole characters, and always all of what is certain: the text so
 * far is the longest beginning, in whole characters, that all texts of longer lists share, the list itself included.
 * So what is held back is an unfinished UTF-8 sequence, a run of byte tokens ("<0xE2>") that is text as yet (one broken
 * byte makes U+FFFD of all its bytes), the end of a word that is a space only if another token follows, and trailing
 * characters that a decoder strips at the end. (With such a decoder they also wait for the end of a run of byte tokens
 * behind them, which is longer than needed; no published file has one.)
 */
#ifndef MLXCEL_TEXT_DETOK_H
#define MLXCEL_TEXT_DETOK_H

#include "text/tokenizer.h"

#define DETOK_STEPS_MAX 8 /* most decoders in a row */

/* What one decoder remembers between pushes. */
struct detok_step {
    size_t     count;   /* leading characters stripped so far */
    bool       started; /* something passed */
    bool       broken;  /* a run of byte tokens that cannot become text */
    struct buf held;    /* what waits */
    struct buf more;    /* to work in */
};

struct detok {
    const struct tokenizer *t; /* must outlive the detokenizer */
    bool                    skip_special;
    struct detok_step       steps[DETOK_STEPS_MAX];
};

/* skip_special: special tokens produce nothing. Allocates nothing. */
void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special);
void detok_deinit(struct detok *d); /* fine on a zeroed one */
/* Appends what is certain after one more id. Fails only with ERR_NOMEM (also when out is full). */
int detok_push(struct detok *d, int32_t id, struct buf *out);
/* Appends what was held back, U+FFFD for a broken sequence; the detokenizer then starts anew. ERR_NOMEM. */
int detok_finish(struct detok *d, struct buf *out);

/* Appends the bytes that a token stands for, on its own: not always whole characters. ERR_NOMEM. */
int tokenizer_token_bytes(const struct tokenizer *t, int32_t id, struct buf *out);

#endif
