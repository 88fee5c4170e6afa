/* Regular expressions of tokenizer files, read.
 *
 * The files' patterns are in Oniguruma's Ruby syntax over Unicode characters. pattern_parse resolves every character,
 * class and property of a pattern to a set of code points (letter case included) and leaves only the structure as text:
 * groups, alternatives, quantifiers and assertions, which mean the same to PCRE2. regex.h then compiles it over small
 * bytes.
 *
 * Not built, and refused by name: back references, named groups, options other than (?i), scripts and other properties
 * that are not general categories, POSIX brackets, \h \R \X \G \K, possessive {n,m}+ and {n}? (whose meaning differs).
 */
#ifndef MLXCEL_TEXT_PATTERN_H
#define MLXCEL_TEXT_PATTERN_H

#include "base/error.h"
#include "text/charset.h"

#include "base/buf.h"

#define PATTERN_SOURCE_MAX ((size_t)16384)
#define PATTERN_SETS_MAX 1024
#define PATTERN_SET_MARK '\x01' /* in the structure: mark, number of the set in decimal, ';' */

struct pattern {
    struct buf     structure;
    struct charset sets[PATTERN_SETS_MAX]; /* sorted, no two equal */
    size_t         n_sets;
};

/* Errors: ERR_FORMAT (not a regular expression), ERR_UNSUPPORTED, ERR_LIMIT, ERR_NOMEM; they quote the pattern.
 * p is to be deinitialised also after an error. */
int  pattern_parse(struct pattern *p, struct str source, struct error *e);
void pattern_deinit(struct pattern *p);

#endif
