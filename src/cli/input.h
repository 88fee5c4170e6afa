/* Reading what the user gives: whole files, stdin, lines of JSON. */
#ifndef MLXCEL_CLI_INPUT_H
#define MLXCEL_CLI_INPUT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

#define INPUT_MAX ((size_t)256 << 20)     /* bytes of one file, of stdin, of a line */
#define INPUT_JSON_MAX ((size_t)16 << 20) /* of a JSON text that becomes a tree, which may take 80 times the memory */

/* Initialises b and appends all of a file of any kind (a pipe, a device); path NULL or "-": stdin. The caller frees b
 * also when it failed. ERR_NOT_FOUND, ERR_IO, ERR_LIMIT, ERR_NOMEM. */
int input_read(struct buf *b, const char *path, struct error *e);
/* Reads the next line of stdin into `line`, which it clears first, without its newline; line->max is the limit. *end:
 * there was none. ERR_IO (also when a signal came), ERR_LIMIT, ERR_NOMEM. */
int input_line(struct buf *line, bool *end, struct error *e);
/* As a message calls it: the path, or "standard input". */
const char *input_name(const char *path);

/* Parses a whole text as one JSON value of any kind, as base/pyjson.h does, NUL in strings too. ERR_FORMAT: "NAME: not valid JSON at line L, column C: reason";
 * ERR_LIMIT, ERR_NOMEM. */
int input_json(json_t **out, struct str text, const char *name, struct error *e);

/* --jsonl: calls answer for every line of stdin that is not blank and prints what it sets *out to, or {"error": "..."}
 * when it fails, as one line. Returns non-zero only when stdin cannot be read or memory is out. */
typedef int input_answer(void *ctx, struct str line, json_t **out, struct error *e);
int         input_each_line(input_answer *answer, void *ctx, struct error *e);

/* Compact JSON as one line on stdout; takes the reference v, which may be NULL for out of memory. */
int output_json(json_t *v, struct error *e);

#endif
