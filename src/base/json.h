/* A bounded pull reader for large JSON files (tokenizer.json, safetensors headers), several times faster than building a
 * tree. Small documents (configs, requests, template values) go through jansson instead.
 *
 * json_next walks the tokens in order; the reader checks the grammar strictly (RFC 8259: no comments, no trailing commas,
 * no bare NaN, valid UTF-8, no lone surrogates), so a sequence that ends in JSON_EOF was one whole value. A fault is sticky:
 * every later call returns JSON_ERROR. It allocates only for strings that hold escapes.
 */
#ifndef MLXCEL_BASE_JSON_H
#define MLXCEL_BASE_JSON_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define JSON_DEPTH_MAX 64

enum json_token {
    JSON_ERROR,
    JSON_EOF,
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_KEY,    /* j->text */
    JSON_STRING, /* j->text */
    JSON_INT,    /* j->i and j->d */
    JSON_REAL,   /* j->d; also integers beyond int64 */
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL
};

struct json {
    const char *start, *p, *end;
    struct str  text; /* of a key or string, decoded: a view of the input or of scratch, good until the next one; of a
                       * number, as written */
    int64_t     i;
    double      d;
    int         depth;
    char        open[JSON_DEPTH_MAX]; /* '{' or '[' per level */
    char        state;                /* what may come next, see json.c */
    struct buf  scratch;
    const char *why; /* reason of the fault */
    const char *at;  /* where it stands */
};

/* The input must outlive the reader. */
void            json_init(struct json *j, const char *p, size_t n);
void            json_deinit(struct json *j);
enum json_token json_next(struct json *j);
/* Skips the value that begins with token t, which json_next has just returned. False on a fault. */
bool json_skip(struct json *j, enum json_token t);
/* Name of a token's kind for messages: "an object", "a string", ... */
const char *json_token_name(enum json_token t);
/* ERR_FORMAT: "file: not valid JSON at line L, column C: reason". */
int json_fault(const struct json *j, struct error *e, const char *file);

#endif
