/* Decoders: how the texts of tokens become one text, as a list of steps that detok.c runs.
 *
 * Each step takes strings and passes strings on; until one of them joins (ByteLevel, Fuse), a string is a token's.
 */
#ifndef MLXCEL_TEXT_DECODER_H
#define MLXCEL_TEXT_DECODER_H

#include "text/detok.h"
#include "text/finder.h"

enum decoder_kind {
    DECODE_JOIN,          /* no decoder: tokens with a space between */
    DECODE_BYTE_LEVEL,    /* bytes in the spelling of bytelevel.h; joins */
    DECODE_REPLACE,       /* every `find` in a string by `text` */
    DECODE_BYTE_FALLBACK, /* runs of "<0xHH>" */
    DECODE_FUSE,          /* joins */
    DECODE_STRIP,         /* up to `start` leading and `stop` trailing copies of `text` off each string */
    DECODE_METASPACE,     /* `text` by a space; in the first string by nothing if `prefix` */
    DECODE_WORD_PIECE, /* a space before each string but the first and those that begin with `find`, which loses that;
                             if `cleanup`, no space before marks and the like */
    DECODE_BPE         /* `find`, the end of a word, by a space; in the last string by nothing */
};

/* What a step costs for each token, and how long all steps together make a text, is bounded. */
#define DECODER_TEXT_MAX 256   /* bytes of `find` and `text` */
#define DECODER_STRIP_MAX 1024 /* characters at either end */
#define DECODER_GROWTH_MAX 16  /* times */

struct decoder_step {
    enum decoder_kind kind;
    bool              joined; /* its input is one string that comes in parts */
    struct str        find, text;
    size_t            start, stop;
    bool              prefix, cleanup;
};

struct decoder {
    struct decoder_step v[DETOK_STEPS_MAX];
    size_t              n;
    size_t              growth; /* how many times as long the steps so far can make a text */
};

/* o may be NULL or null. ERR_NOMEM, ERR_FORMAT, ERR_UNSUPPORTED, ERR_LIMIT. */
int decoder_load(struct decoder *d, struct component *c, const struct json_t *o);

#endif
