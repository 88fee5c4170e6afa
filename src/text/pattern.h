/* Regular expressions of tokenizer files, read.
 *
 * The files' patterns are in Oniguruma's own syntax over Unicode characters. pattern_parse reads one into a tree, whose
 * characters, classes and properties are sets of code points (letter case included), and writes the tree again in
 * PCRE2's syntax with marks for the sets. regex.h then compiles that over small bytes.
 *
 * Oniguruma's ways that PCRE2 does not share and that are kept: options hold to the end of the group over all its
 * alternatives (a(?i)b|c is a(?i:b|c)); ^ and $ hold at every line; {,n} is {0,n}, {n,m}+ is one or more {n,m}, {n}? is
 * an optional {n}, {m,n} with m > n is possessive; quantifiers directly on quantifiers are joined; classes hold classes
 * and intersections; letter case knows characters that equal several (ss and sharp s); look-behinds may be of several
 * lengths; named groups make the plain ones non-capturing.
 *
 * Refused by name: conditions, absent operators, callouts, calls of groups, references without regard to letter case
 * or with a level, \y and \Y, the options C I L y, \M-x, several code points in one \x{}, and look-behinds that end in
 * something unbounded.
 */
#ifndef MLXCEL_TEXT_PATTERN_H
#define MLXCEL_TEXT_PATTERN_H

#include "base/buf.h"
#include "base/error.h"
#include "text/charset.h"

#define PATTERN_SOURCE_MAX ((size_t)16384)
#define PATTERN_SETS_MAX 1024
#define PATTERN_SET_MARK '\x01' /* in the structure: mark, number of the set in decimal, ';' */

struct pattern {
    struct buf     structure;
    struct charset sets[PATTERN_SETS_MAX]; /* sorted, no two equal */
    size_t         n_sets;
    bool           compares; /* holds references back: characters must stay apart, their sets are not enough */
    bool           atomic;   /* holds atomic groups */
};

/* Errors: ERR_FORMAT (not a regular expression), ERR_UNSUPPORTED, ERR_LIMIT, ERR_NOMEM; they quote the pattern.
 * p is to be deinitialised also after an error. */
int  pattern_parse(struct pattern *p, struct str source, struct error *e);
void pattern_deinit(struct pattern *p);

#endif
