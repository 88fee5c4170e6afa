/* Letter case as Oniguruma compares it under (?i), Unicode 16.0: characters that equal one another, and characters that
 * equal a string (sharp s and "ss"). */
#ifndef MLXCEL_TEXT_CASEFOLD_H
#define MLXCEL_TEXT_CASEFOLD_H

#include "text/charset.h"

#define FOLD_TEXT_MAX 3
#define FOLD_CHARS_MAX 4

/* A string of folded characters and the characters that equal it, ended by 0 where fewer. */
struct fold_string {
    int      n;
    uint32_t text[FOLD_TEXT_MAX];
    uint32_t chars[FOLD_CHARS_MAX];
};

/* Adds every character that equals one of the set. Sorts. */
void charset_fold(struct charset *s);
/* Adds every character that equals the same string as one of the set. Sorts. */
void charset_fold_strings(struct charset *s);

/* The strings by number, NULL after the last. */
const struct fold_string *fold_string(size_t i);
/* The longest of them that equals the beginning of the n characters; NULL if there is none. */
const struct fold_string *fold_string_at(const uint32_t *cp, int n);
/* The string that a character equals; NULL if there is none. */
const struct fold_string *fold_string_of(uint32_t cp);

#endif
