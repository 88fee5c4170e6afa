/* Tokenizers: text to ids and back, after a checkpoint's tokenizer.json (the format of Hugging Face's `tokenizers`), or
 * what transformers makes of its other files where there is none (sources.h).
 *
 * The file is followed component by component (normalizer, pre-tokenizer, model, post-processor, decoder); no family is
 * known by name. A component that is not built is refused at load by its name. A tokenizer never changes after its
 * load: any number of threads may use it at once.
 */
#ifndef MLXCEL_TEXT_TOKENIZER_H
#define MLXCEL_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/log.h"

/* A growable list of token ids; zero-initialised is empty. */
struct ids {
    int32_t *v;
    size_t   n, cap;
};
bool ids_push(struct ids *ids, int32_t id); /* false when out of memory */
void ids_deinit(struct ids *ids);

struct tokenizer;

/* Reads tokenizer.json, else the first of the files that sources.c lists, and the files that name special tokens, of
 * directory dir; no weights. Errors: ERR_NOT_FOUND, ERR_IO, ERR_FORMAT (malformed), ERR_UNSUPPORTED (a component that is
 * not built, by name), ERR_LIMIT, ERR_NOMEM. The limits of docs/tokenizers.md bound memory and time. */
int  tokenizer_load(struct tokenizer **out, const char *dir, const struct log *log, struct error *e);
void tokenizer_free(struct tokenizer *t); /* NULL is fine */

enum {
    TOKENIZE_ADD_SPECIAL = 1,  /* let the post-processor add its tokens (bos, eos) */
    TOKENIZE_PARSE_SPECIAL = 2 /* recognise special tokens written in the text; other added tokens always are */
};

/* Appends the ids of `text`, any bytes: each maximal invalid part of a UTF-8 sequence is read as U+FFFD, as by the
 * decoders of Rust and of browsers. A failure leaves *out as it was. Errors: ERR_NOMEM, ERR_LIMIT (a pattern that needs
 * too many steps, components that make too much of the text, a text of 2 GiB), ERR_INVALID (an unknown word where the model has no token for such). */
int tokenizer_encode(const struct tokenizer *t, struct str text, unsigned flags, struct ids *out, struct error *e);

/* A part of a text where added tokens are not recognised, whatever the flags say: bytes [start, end). No token that has a
 * byte of it is found; an empty one only keeps tokens from reaching across its place. */
struct plain_span {
    size_t start, end;
};
struct plain_spans {
    struct plain_span *v; /* in the order of the text, apart from each other */
    size_t             n, cap;
};
bool plain_spans_push(struct plain_spans *s, size_t start, size_t end); /* false when out of memory */
void plain_spans_deinit(struct plain_spans *s);

/* The same with spans, of valid UTF-8. ERR_UNSUPPORTED where an added token is looked for in normalized text and the
 * normalizer changes the surroundings of a span. */
int tokenizer_encode_plain(const struct tokenizer *t, struct str text, const struct plain_spans *plain, unsigned flags,
                           struct ids *out, struct error *e);

/* A token and the bytes of the input that it stands for. */
struct token_piece {
    int32_t id;
    size_t  start, end;
};
struct token_pieces {
    struct token_piece *v;
    size_t              n, cap;
};
void token_pieces_deinit(struct token_pieces *p);

/* As tokenizer_encode, with the places: appends to *out. Ranges are of whole characters of `text` (bytes): a token that is
 * a part of a character has that character's range. An added token's range includes the white space that it swallows;
 * what a normalizer or pre-tokenizer put in stands for the character behind it at the beginning of a text, else for the one
 * before; a token of the post-processor is (0, 0). Slower than tokenizer_encode, by a factor of about ten where there is a
 * normalizer. */
int tokenizer_encode_pieces(const struct tokenizer *t, struct str text, unsigned flags, struct token_pieces *out,
                            struct error *e);

/* Finds the next added token as its file writes it, the longest one at the first place from *at on; *at becomes its
 * place. False if there is none. */
bool tokenizer_next_added(const struct tokenizer *t, struct str text, size_t *at, int32_t *id);

/* Appends the text of the whole list, always valid UTF-8 (U+FFFD for broken sequences), without any clean-up of spaces.
 * Ids that the tokenizer does not know vanish. skip_special leaves out the tokens whose decoded text is the content
 * of a special one, as the reference does: one that normalization changes stays. Streaming: detok.h. */
int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special, struct buf *out,
                     struct error *e);

int  tokenizer_size(const struct tokenizer *t); /* 1 + the greatest id */
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
/* The id of an exact token text, added tokens first, then the vocabulary as written there ("Ġthe"); -1 if unknown. */
int32_t tokenizer_find(const struct tokenizer *t, struct str token);
/* A token's text as written in the vocabulary, a view of the tokenizer; n = 0 if the id is unknown. */
struct str tokenizer_token(const struct tokenizer *t, int32_t id);

int32_t tokenizer_eos(const struct tokenizer *t); /* the id of eos_token, -1 if there is none */

#endif
