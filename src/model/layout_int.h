/* What the files of layout.h share: the patterns of rules. */
#ifndef MLXCEL_MODEL_LAYOUT_INT_H
#define MLXCEL_MODEL_LAYOUT_INT_H

#include "model/params.h"

/* What of a name the '*' of the pattern matches. */
struct star {
    const char *p;
    int         n;
};
bool layout_match(const char *pattern, const char *name, struct star *star);

/* The pattern with what was matched in the place of its '*'. False when that is too long. */
bool layout_fill(const char *pattern, const struct star *star, char out[LAYOUT_NAME]);

/* The name that rules know the row by: a bias goes by that of its module. */
const char *layout_module(const struct param *p, char out[LAYOUT_NAME]);

#endif
