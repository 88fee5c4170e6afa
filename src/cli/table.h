/* Facts for people: aligned columns of text, and numbers as one reads them. */
#ifndef MLXCEL_CLI_TABLE_H
#define MLXCEL_CLI_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define SIZE_TEXT 32

/* A text of some file as a terminal may show it, control characters escaped; to be freed, NULL: out of memory. */
char *text_shown(const char *z);

/* "98.4 MB", powers of 1000; "-" below 0. Writes to out and returns it. */
const char *size_text(int64_t bytes, char out[SIZE_TEXT]);

/* One column of a table that is made from a JSON array of objects. */
struct column {
    const char *title, *key;
    enum { COLUMN_TEXT, COLUMN_BYTES, COLUMN_NUMBER } kind; /* any value as text; a number of bytes; 4 digits */
};

/* Prints the titles, then a line per object, columns (1 to TABLE_COLUMNS_MAX) as wide as they need to be. ERR_NOMEM. */
#define TABLE_COLUMNS_MAX 8
int table_print(const json_t *rows, const struct column *columns, size_t n, struct error *e);

/* A JSON array of the API: as it is with `raw`, else as a table. */
int table_report(const char *json, bool raw, const struct column *columns, size_t n, struct error *e);

/* Parses a JSON text of the API. */
json_t *table_parse(const char *json, struct error *e); /* NULL: *e set */

#endif
