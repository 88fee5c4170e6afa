/* Added tokens: texts that are one token each, whatever the model would make of them, found before everything else.
 *
 * Those that are not `normalized` are looked for in the raw text, the others, in their normalized spelling, in the
 * normalized pieces between.
 */
#ifndef MLXCEL_TEXT_ADDED_H
#define MLXCEL_TEXT_ADDED_H

#include "base/arena.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

#define ADDED_TEXT_MAX 1024                     /* bytes; bounds the work at each place of a text */
#define ADDED_SPELLING_MAX (4 * ADDED_TEXT_MAX) /* of what a normalizer makes of one, on its way too */

struct added_token {
    struct str content;        /* as in the file */
    struct str spelling;       /* what is looked for: normalized if the token is */
    struct str decoded;        /* what it is in decoded text, nearly always the spelling */
    int32_t    id;             /* -1: another entry of the same content stands for this one */
    int32_t    file_id;        /* the id that the file names */
    bool       single_word;    /* not beside a word character */
    bool       lstrip, rstrip; /* swallows the white space on that side */
    bool       normalized, special;
};

/* Finds the longest of some tokens that a text has at a place. */
struct added_finder {
    struct added_entry {
        struct str                text; /* the spelling or the content */
        const struct added_token *token;
    } * sorted; /* [n] by text */
    size_t   n;
    uint32_t first[257]; /* tokens whose text begins with byte b: first[b] .. first[b + 1] - 1 */
    int      only;       /* the byte with which all begin; -1: they differ */
};

struct added {
    struct added_token *v;
    size_t              n, cap;
    struct added_finder raw, normalized; /* by spelling */
    struct added_finder contents;        /* all, by content */
    int32_t            *of_id;           /* [n_ids] index in v, -1 for the ids of plain vocabulary */
    size_t              n_ids;
};

void added_deinit(struct added *a);
/* Appends a token whose texts outlive the table; false when out of memory. */
bool added_put(struct added *a, const struct added_token *t);
/* Makes the functions below work, after the last added_put. n_ids: 1 + the greatest id of the tokenizer. */
bool added_index(struct added *a, size_t n_ids);

/* The reference's numbering of added tokens, which ignores what files say: the id that the text has in the vocabulary,
 * else the next one. That is counted on through a list of tokens; at the beginning of a list it follows on the greatest id
 * of the added tokens so far, those of the vocabulary too, unless that is below the number of texts in the vocabulary:
 * then it is this number, which may be an id in use where the vocabulary has gaps. */
struct added_numbering {
    const struct vocab *vocab; /* indexed */
    int64_t             texts, next, greatest;
};
/* For the first list. texts: how many the vocabulary counts. */
void added_numbering_init(struct added_numbering *n, const struct vocab *vocab, size_t texts);
void added_next_list(struct added_numbering *n);
/* The id of a token whose text has not been numbered yet. */
int32_t added_number(struct added_numbering *n, struct str content);

static inline const struct added_token *added_of(const struct added *a, int64_t id)
{
    return id >= 0 && (uint64_t)id < a->n_ids && a->of_id[id] >= 0 ? &a->v[a->of_id[id]] : NULL;
}

/* The longest token at the beginning of p, n > 0 bytes, NULL if there is none. */
const struct added_token *added_at(const struct added_finder *f, const char *p, size_t n);

/* The first token in a text from *at on, the longest at its place, which goes to *at; NULL if there is none. Unlike the
 * walk below it asks for nothing around the token. */
const struct added_token *added_find(const struct added_finder *f, struct str text, size_t *at);

/* A walk over a text: what stands between tokens, and the tokens. */
struct added_walk {
    const struct added_finder *f;
    struct str                 text;
    const struct plain_spans  *plain;         /* where no token is recognised, or NULL */
    size_t                     offset;        /* of text in the text of the spans */
    bool                       parse_special; /* false: special tokens are plain text */
    size_t                     from;          /* where the search goes on */
    size_t                     done;          /* what has been given out */
    size_t                     space_end;     /* of the white space that a token swallowed last */
    size_t start; /* of the token given out last, [start, done); may be less than what was done before */
};
/* The next part of the text: a non-empty plain *gap (offset and length) with *token NULL, or a *token. False at the
 * end. */
bool added_next(struct added_walk *w, struct str *gap, const struct added_token **token);

#endif
