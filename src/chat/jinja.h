/* Jinja templates as Hugging Face configures them for chat: sandboxed, trim_blocks, lstrip_blocks, loop controls, the
 * `generation` tag, the JSON dumper of transformers as `tojson`, `raise_exception` and `strftime_now`.
 *
 * A template is parsed once into a tree and then rendered any number of times. Templates come from strangers: parsing
 * and rendering are bounded in steps, nesting, output and memory, and nothing outside the given variables can be
 * reached. docs/templates.md lists what differs from Python's jinja2 (nothing that a published chat template relies
 * on).
 */
#ifndef MLXCEL_CHAT_JINJA_H
#define MLXCEL_CHAT_JINJA_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* A parsed template: read-only, so any number of threads may render it at once. */
struct jinja;

/* Parses `source` (UTF-8; copied). `name` stands in messages. ERR_FORMAT: "NAME:LINE:COLUMN: reason"; ERR_LIMIT when
 * the source is longer than JINJA_SOURCE_MAX or nested too deeply. */
int  jinja_parse(struct jinja **out, struct str source, const char *name, struct error *e);
void jinja_free(struct jinja *j); /* NULL is fine */

/* Whether a text stands in the source. */
bool jinja_mentions(const struct jinja *j, struct str text);

#define JINJA_SOURCE_MAX ((size_t)1 << 20)

/* What one rendering may use; a zero means the default that stands behind it. */
struct jinja_limits {
    size_t output; /* bytes of the result: 64 MiB */
    size_t memory; /* bytes of values made on the way: 256 MiB */
    long   steps;  /* nodes evaluated and items touched: 20 million, a second or two */
    int    depth;  /* nested evaluations, macro calls included: 2000 */
};

/* Renders with `vars`, a JSON object whose members are the template's variables (borrowed, unchanged), and `now`, the
 * Unix time that strftime_now shows in the local time zone. Appends to `out`; nothing on a fault. Errors: ERR_INVALID
 * (what the template or Python would raise, raise_exception's message too), ERR_LIMIT (names the limit), both beginning
 * with "NAME:LINE:COLUMN: "; ERR_NOMEM. */
int jinja_render(const struct jinja *j, const json_t *vars, int64_t now, const struct jinja_limits *limits,
                 struct buf *out, struct error *e);

#endif
