/* A tokenizer in the making, from a checkpoint without a tokenizer.json.
 *
 * What such a checkpoint has instead (a SentencePiece model, a rank list, vocab.json with merges.txt, vocab.txt) is turned
 * into the text of the tokenizer.json that transformers' AutoTokenizer would have made of it, which the one loader then
 * reads. So a source says which model and components there are; what they do is known in one place only. The rules are
 * those of transformers 5.24; docs/tokenizers.md tells them.
 *
 * The files beside the vocabulary (tokenizer_config.json, special_tokens_map.json, added_tokens.json, config.json, any of
 * which may be missing) name the class, the special tokens and the added tokens.
 */
#ifndef MLXCEL_TEXT_DRAFT_H
#define MLXCEL_TEXT_DRAFT_H

#include "base/arena.h"
#include "base/log.h"
#include "text/merges.h"
#include "text/named.h"
#include "text/vocab.h"

struct json_t; /* of jansson, whose header cannot stand beside base/json.h */

#define DRAFT_AROUND_MAX 2

struct draft_token {
    struct str content;
    bool       single_word, lstrip, rstrip, normalized, special;
    int64_t    id; /* that a file gives it; -1: none */
};

struct draft {
    const char   *dir, *path; /* of the checkpoint; of the file with the vocabulary, for messages */
    struct error *e;
    struct arena  arena; /* of texts that stay until draft_close */
    /* tokenizer_config.json, special_tokens_map.json, added_tokens.json, config.json: objects, empty for no file */
    struct json_t      *config, *special, *added, *model;
    const char         *class_name;         /* of the tokenizer, see draft_choose_class */
    struct str          named[NAMED_COUNT]; /* texts; p NULL: none. A source sets what its class defaults to */
    struct draft_token *tokens;             /* [n_tokens] added tokens in the order they are added */
    size_t              n_tokens, cap_tokens;
    bool                raw_decoder; /* tokens of added_tokens_decoder count as not normalized, whatever they say */
    struct buf          text;        /* tokenizer.json */
};

/* Reads the files beside the vocabulary. e is not NULL. draft_close *d also after a failure. */
int  draft_open(struct draft *d, const char *dir, struct error *e);
void draft_close(struct draft *d);

/* Sets d->class_name to the class that AutoTokenizer takes, without "Fast", NULL when that is the generic one. */
int draft_choose_class(struct draft *d);

/* An allocation failed, also in d->arena: ERR_NOMEM, or ERR_LIMIT where that is full. */
int draft_nomem(struct draft *d);
/* 0 if b, which holds `what`, has not failed, else the error: ERR_LIMIT or ERR_NOMEM. */
int draft_check(struct draft *d, const struct buf *b, const char *what);
/* A setting of tokenizer_config.json: 0 or 1; -1 when it is missing or null. */
int draft_setting(const struct draft *d, const char *key);
/* The same with `otherwise` for -1. */
bool draft_flag(const struct draft *d, const char *key, bool otherwise);
bool draft_is_class(const struct draft *d, const char *name);

/* Appends an added token. */
int draft_add_token(struct draft *d, const struct draft_token *token);
/* A copy in d->arena; p NULL when out of memory. */
struct str draft_copy(struct draft *d, struct str s);

/* Writing: a JSON string; the vocabulary as the member "vocab", of equal texts the last one; merges as the member
 * "merges". */
void draft_put_text(struct buf *b, struct str text);
void draft_put_vocab(struct draft *d, const struct vocab *vocab);
void draft_put_merges(struct draft *d, const struct vocab *vocab, const struct merges *merges);

/* The rest of the document. Members are JSON; NULL is null. */
struct draft_parts {
    const char *normalizer, *pre_tokenizer, *decoder;
    /* What the post-processor puts around a text: added tokens or tokens of the vocabulary; p NULL ends a list. */
    struct str before[DRAFT_AROUND_MAX + 1], after[DRAFT_AROUND_MAX + 1];
};

/* Sets before and after to bos_token and eos_token where tokenizer_config.json's add_bos_token and add_eos_token want it;
 * `bos` is what holds when add_bos_token is missing. */
void draft_around_by_flags(const struct draft *d, bool bos, struct draft_parts *parts);

/* The special and added tokens of the files beside the vocabulary: sets d->named where a file names a token and appends
 * to d->tokens. `extra` [n_extra] are what the vocabulary file itself asks to be added, if the files have no list. */
int draft_read_tokens(struct draft *d, const struct draft_token *extra, size_t n_extra);

/* Gives the added tokens ids after the vocabulary's and completes d->text, which holds "{" and the model member. What
 * d->named holds stays until draft_close from here on. */
int draft_finish(struct draft *d, const struct vocab *vocab, const struct draft_parts *parts);

#endif
