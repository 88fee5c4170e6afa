/* What a loaded tokenizer consists of; for the files of src/text only. */
#ifndef MLXCEL_TEXT_TOKENIZER_INT_H
#define MLXCEL_TEXT_TOKENIZER_INT_H

#include "base/arena.h"
#include "text/added.h"
#include "text/decoder.h"
#include "text/model.h"
#include "text/named.h"
#include "text/normalizer.h"
#include "text/postproc.h"
#include "text/pretok.h"
#include "text/vocab.h"

struct tokenizer {
    struct arena      arena; /* the texts of the components */
    struct vocab      vocab;
    struct added      added;
    struct vocab      added_index; /* contents of added tokens -> index in added.v */
    struct normalizer normalizer;
    struct pretok     pretok;
    struct model      model;
    struct postproc   postproc;
    struct decoder    decoder;
    struct str        special[NAMED_COUNT]; /* p NULL: not named */
    size_t  own_added; /* how many of the file's added tokens are its own; the others are a list after these */
    int     size;
    int32_t eos;
};

/* The text of a token as decoders and the search in texts see it (an added token's may be normalized); p NULL if the id
 * is unknown. */
struct str tokenizer_spelling(const struct tokenizer *t, int64_t id);

/* As tokenizer_load, from the content of a tokenizer.json alone; `path` names it in messages. */
int tokenizer_load_text(struct tokenizer **out, struct str text, const char *path, const struct log *log,
                        struct error *e);

/* Making a tokenizer from whatever file: an empty one; its vocabulary, model, components and the added tokens in any order
 * but with the normalizer before the tokens, then tokenizer_finish. */
struct tokenizer *tokenizer_new(void); /* NULL when out of memory */
/* What it takes to normalize the added tokens. total: bytes of all of them, or more; it bounds the time. */
struct speller {
    struct normalizer_scratch scratch;
    struct finder_run         find;
};
void speller_init(struct speller *s, size_t total);
void speller_deinit(struct speller *s);
/* Adds a token, a copy of *a; content stays (in t->arena), spelling and id are set here. file_id: -1 where no file says
 * one. An empty content is ignored. Errors: ERR_NOMEM, ERR_LIMIT (of the normalizer, of its patterns). */
int tokenizer_add(struct tokenizer *t, const struct added_token *a, struct speller *s, struct error *e);
/* Gives the added tokens their ids and makes the parts fit; warns where a token gets another id than its file_id. path
 * is for messages. ERR_NOMEM. */
int tokenizer_finish(struct tokenizer *t, const char *path, const struct log *log, struct error *e);

/* tokenizer_file.c: reads the content of a tokenizer.json into a new tokenizer; t->special stays. */
int tokenizer_read_text(struct tokenizer *t, struct str text, const char *path, const struct log *log, struct error *e);
/* tokenizer_config.c: fills t->special from the files of dir that exist. *config, unless NULL: tokenizer_config.json (a
 * reference of the caller's), or NULL. */
int tokenizer_read_config(struct tokenizer *t, const char *dir, struct json_t **config, struct error *e);
/* tokenizer_missing.c: writes a list for "added_tokens" that has t's, *own of them, and those that only the config has;
 * nothing if there are none. ERR_NOMEM. */
int tokenizer_missing(const struct tokenizer *t, const struct json_t *config, struct buf *out, size_t *own,
                      struct error *e);

#endif
