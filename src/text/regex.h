/* Regular expressions over Unicode text with PCRE2, independent of PCRE2's own Unicode tables.
 *
 * A pattern tells apart only so many kinds of characters (some 10 to 60: it treats all members of each kind alike). The
 * kinds are numbered, the pattern is rewritten as an expression over these numbers, and a text is translated, one byte
 * a character, before it is matched. So the Unicode version is that of unicode.h, classes cost one bit test, positions
 * are characters, and PCRE2 runs (with its JIT where there is one) on plain bytes. Patterns that refer back, and those
 * with more than 256 kinds, run over the text itself with their classes written out.
 *
 * Bounds, since patterns and texts come from strangers and a backtracking engine can be made to run for ever: one place
 * may cost a million steps and eight more for each byte of the text; all searches of a run together may take a second
 * of the thread's time and one more for each MB of text; memory is bounded by the text's length. Beyond them the search
 * ends with ERR_LIMIT.
 */
#ifndef MLXCEL_TEXT_REGEX_H
#define MLXCEL_TEXT_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

struct regex;

/* ERR_FORMAT, ERR_UNSUPPORTED, ERR_LIMIT: the sentence quotes the pattern. */
int  regex_new(struct regex **out, struct str pattern, struct error *e);
void regex_free(struct regex *re); /* NULL is fine */
/* Has it interpreted by PCRE2, as where machine code may not be made; for tests. */
void regex_without_jit(struct regex *re);

/* The state of one thread's searches: one text at a time, memory that is used again for the next. */
struct regex_run {
    const struct regex *re;
    struct str          text;
    struct buf          subject;              /* a byte a character */
    size_t              from;                 /* next search, in characters */
    size_t              last_end;             /* end of the match before, (size_t)-1 when none */
    size_t              seen_char, seen_byte; /* a position known in both counts */
    double              seconds, began;       /* time of its thread that the run may take; that time when it began */
    double              deadline;             /* when to look at that time again */
    unsigned            n_places;
    void               *match, *context, *stack; /* PCRE2's */
};

/* total: bytes of all the text that the run is going to see; it sets the time allowed. */
void regex_run_init(struct regex_run *r, size_t total);
void regex_run_deinit(struct regex_run *r);
/* Starts on a text, valid UTF-8, which must stay until the last regex_next. */
int regex_begin(struct regex_run *r, const struct regex *re, struct str text, struct error *e);
/* The next match, as byte offsets; *found is false after the last. Matches may be empty, but not right after another.
 */
int regex_next(struct regex_run *r, bool *found, size_t *start, size_t *end, struct error *e);

#endif
