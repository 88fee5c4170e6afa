/* Patterns over names: '*' is any run of characters, everything else stands for itself. */
#ifndef MLXCEL_BASE_GLOB_H
#define MLXCEL_BASE_GLOB_H

#include <stdbool.h>

/* Whether the pattern matches all of s. Time is bounded by the product of the lengths. */
bool glob_match(const char *pattern, const char *s);

#endif
