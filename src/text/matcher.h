/* Hand-written matching of the regular expressions by which nearly all models split their texts.
 *
 * Those patterns are lists of alternatives out of some twenty-five ("optional blank, then letters", "one to three
 * digits", "white space up to the last line feed", ...). A pattern that consists of such alternatives alone, in any order
 * and number, is matched here, several times faster than by the engine of regex.h; every other pattern is left to that.
 * Both find the same matches: the unit test compares them on random texts of all classes of characters.
 */
#ifndef MLXCEL_TEXT_MATCHER_H
#define MLXCEL_TEXT_MATCHER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

struct matcher;

/* *out is NULL when the pattern holds another alternative, or one that can look at a long run of characters and take none
 * of it without a later one that takes the run. ERR_NOMEM. */
int  matcher_new(struct matcher **out, struct str pattern, struct error *e);
void matcher_free(struct matcher *m); /* NULL is fine */

/* The first match of text, valid UTF-8, that begins at byte `from` or later; false if there is none. Matches are never
 * empty. The time for all matches of a text is linear in its length. */
bool matcher_next(const struct matcher *m, struct str text, size_t from, size_t *start, size_t *end);

#endif
