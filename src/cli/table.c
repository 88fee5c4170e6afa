/* See table.h. */
#include "cli/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cli/output.h"

#define GAP 2

const char *size_text(int64_t bytes, char out[SIZE_TEXT])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double                   v = (double)bytes;
    size_t                   u = 0;
    for (; v >= 999.95 && u + 1 < ARRAY_LEN(units); u++)
        v /= 1000;
    if (bytes < 0)
        snprintf(out, SIZE_TEXT, "-");
    else
        snprintf(out, SIZE_TEXT, u ? "%.1f %s" : "%.0f %s", v, units[u]);
    return out;
}

json_t *table_parse(const char *json, struct error *e)
{
    json_t *v = json_loads(json, 0, NULL);
    if (!v)
        error_set(e, ERR_INTERNAL, NULL, "the library's report is not JSON");
    return v;
}

char *text_shown(const char *z)
{
    size_t size = 4 * strlen(z) + 2; /* each byte may become \xHH */
    char  *out = malloc(size);
    if (out)
        error_escape(out, size, z);
    return out;
}

/* The text of a cell, to be freed; NULL: out of memory. */
static char *cell_text(const json_t *row, const struct column *c)
{
    const json_t *v = json_object_get(row, c->key);
    char          size[SIZE_TEXT];
    if (c->kind == COLUMN_BYTES)
        return strdup(size_text(json_is_integer(v) ? json_integer_value(v) : -1, size));
    if (c->kind == COLUMN_NUMBER && json_is_number(v)) {
        snprintf(size, sizeof size, "%.4g", json_number_value(v));
        return strdup(size);
    }
    if (json_is_string(v))
        return text_shown(json_string_value(v));
    return v && !json_is_null(v) ? json_dumps(v, JSON_ENCODE_ANY) : strdup("");
}

/* Characters, which are columns of the terminal for the names we print. */
static size_t width_of(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void print_cell(const char *text, size_t width, bool last)
{
    size_t n = width_of(text);
    out_puts(text);
    if (!last)
        out_printf("%*s", (int)(width - n + GAP), "");
}

static void print_cells(char *const *cells, const struct column *columns, const size_t *width, size_t n)
{
    for (size_t c = 0; c < n; c++)
        print_cell(cells ? cells[c] : columns[c].title, width[c], c + 1 == n);
    out_puts("\n");
}

int table_print(const json_t *rows, const struct column *columns, size_t n, struct error *e)
{
    size_t n_cells = json_array_size(rows) * n, width[TABLE_COLUMNS_MAX];
    char **cells = calloc(n_cells + 1, sizeof *cells);
    int    rc = 0;
    if (!cells)
        return error_nomem(e, "the table");
    for (size_t c = 0; c < n; c++)
        width[c] = width_of(columns[c].title);
    for (size_t i = 0; i < n_cells; i++) {
        cells[i] = cell_text(json_array_get(rows, i / n), &columns[i % n]);
        if (!cells[i]) {
            rc = error_nomem(e, "the table");
            goto out;
        }
        width[i % n] = MAX(width[i % n], width_of(cells[i]));
    }
    print_cells(NULL, columns, width, n);
    for (size_t i = 0; i < n_cells; i += n)
        print_cells(cells + i, columns, width, n);
out:
    for (size_t i = 0; i < n_cells; i++)
        free(cells[i]);
    free(cells);
    return rc;
}

int table_report(const char *json, bool raw, const struct column *columns, size_t n, struct error *e)
{
    json_t *rows;
    int     rc;
    if (raw) {
        out_printf("%s\n", json);
        return 0;
    }
    rows = table_parse(json, e);
    rc = rows ? table_print(rows, columns, n, e) : e->code;
    json_decref(rows);
    return rc;
}
