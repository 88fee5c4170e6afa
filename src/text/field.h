/* Reading the small components of tokenizer.json: fields of a parsed object, with errors that name the field. */
#ifndef MLXCEL_TEXT_FIELD_H
#define MLXCEL_TEXT_FIELD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

struct json_t; /* of jansson, whose header cannot stand beside base/json.h */

#define COMPONENT_DEPTH_MAX 8 /* Sequences in Sequences */
#define COMPONENT_STEPS_MAX 64
#define COMPONENT_TEXT_MAX 4096 /* bytes of a text that a component puts or looks for */

/* What loading a component needs. Texts that stay are copied to the arena. */
struct component {
    struct arena *arena;
    const char   *role; /* "normalizer", "pre_tokenizer", ... for messages */
    struct error *e;
};

/* The component's "type"; NULL after an error (not an object, no type). */
const char *component_type(struct component *c, const struct json_t *o);
int         component_unsupported(struct component *c, const char *type);
int         component_malformed(struct component *c, const char *what);
int component_nomem(struct component *c); /* an allocation failed: ERR_NOMEM, or ERR_LIMIT if c->arena is full */
/* Calls `one` for the object o, or, if o is a Sequence with the list `key`, for each of its members, in depth. A null
 * is an empty list. At most COMPONENT_STEPS_MAX calls. */
int component_each(struct component *c, const struct json_t *o, const char *key,
                   int (*one)(struct component *c, const char *type, const struct json_t *o, void *ctx), void *ctx);

/* Fields of an object. A missing or null one leaves *out as it is. ERR_FORMAT for another type. */
int field_bool(struct component *c, const struct json_t *o, const char *key, bool *out);
int field_int(struct component *c, const struct json_t *o, const char *key, int64_t *out);
/* A view of the document. */
int field_str(struct component *c, const struct json_t *o, const char *key, struct str *out);
/* A copy in the arena; p is never NULL afterwards. The field must be there. ERR_LIMIT beyond COMPONENT_TEXT_MAX. */
int field_text(struct component *c, const struct json_t *o, const char *key, struct str *out);

#endif
