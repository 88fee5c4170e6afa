/* The state of reading one tokenizer.json, shared by the files that do it: tokenizer_file.c walks the top level,
 * model_load.c the model, tokenizer_model.c its vocabulary and merges, all with the pull reader; tokenizer_parts.c reads
 * the small components as trees. */
#ifndef MLXCEL_TEXT_TOKENIZER_LOAD_H
#define MLXCEL_TEXT_TOKENIZER_LOAD_H

#include "base/num.h"
#include "text/tokenizer_int.h"

struct json; /* base/json.h, which cannot stand beside jansson's header */

enum part { ADDED_TOKENS, NORMALIZER, PRE_TOKENIZER, POST_PROCESSOR, DECODER, PART_COUNT };

struct loader {
    struct tokenizer *t;
    const struct log *log;
    const char       *path;
    struct error     *e;
    struct json      *j;
    int64_t           id_limit;          /* ids are below it */
    struct str        parts[PART_COUNT]; /* texts of the values; p NULL: absent */
    struct str        merges;            /* a list that stands before the vocabulary */
    bool              has_model, has_vocab, has_merges;
    int32_t           last_made; /* what the merge before made */
    struct buf        key;       /* a token's text while its id is read */
};

/* How a text is quoted in messages. */
#define QUOTED "'%.*s'"
#define QUOTE(s) (int)MIN((s).n, (size_t)100), (s).p

int loader_malformed(struct loader *l, const char *what); /* the JSON reader's fault, if there is one, else `what` */
int loader_nomem(struct loader *l);
/* Skips the value whose first token is t (enum json_token) and which began at `start`; *out is its text. */
int loader_span(struct loader *l, const char *start, int t, struct str *out);

/* The value of "model", whose first token is t (enum json_token). */
int loader_read_model(struct loader *l, int t);
/* A model's parts, after their opening brackets: the vocabulary as an object, the merges, from j; and those of
 * l->merges. */
int loader_read_vocab(struct loader *l);
int loader_read_merges(struct loader *l, struct json *j);
int loader_read_late_merges(struct loader *l);
/* Loads a component from its text in l->parts; the added tokens last, after the model. */
int                      loader_read_part(struct loader *l, enum part part);
extern const char *const loader_part_names[PART_COUNT];

#endif
