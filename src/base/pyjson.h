/* Small JSON documents as Python's json module writes them, read into a jansson tree.
 *
 * Python writes NaN, Infinity and -Infinity as bare words, and integers of any size (model_max_length is often
 * 1000000000000000019884624838656). A filter makes them digestible first: the words become the strings "NaN",
 * "Infinity", "-Infinity", integers beyond 64 bits become reals. Everything else must be plain JSON, of any
 * type: duplicate keys, NUL in strings, reals beyond double, nesting deeper than 64 levels, more than 200,000 arrays and
 * objects and more than 2,000,000 values are refused, which bounds the tree's memory to some 500 MB beside the strings.
 */
#ifndef MLXCEL_BASE_PYJSON_H
#define MLXCEL_BASE_PYJSON_H

#include <jansson.h>

#include "base/buf.h"
#include "base/error.h"

/* `name` is for messages. ERR_FORMAT, ERR_LIMIT, ERR_NOMEM. The caller owns *out (json_decref). */
int pyjson_parse(json_t **out, struct str text, const char *name, struct error *e);
/* The same with other flags of jansson's than JSON_REJECT_DUPLICATES: 0, where of members of the same name the last
 * counts, and JSON_ALLOW_NUL; any type of value is read in every case. */
int pyjson_parse_with(json_t **out, struct str text, size_t flags, const char *name, struct error *e);

/* Reads a file of at most max bytes. ERR_NOT_FOUND names the path; other messages the base name. */
int pyjson_load(json_t **out, const char *path, size_t max, struct error *e);

#endif
