/* What a Split or Replace component looks for: a literal text or a regular expression. */
#ifndef MLXCEL_TEXT_FINDER_H
#define MLXCEL_TEXT_FINDER_H

#include "text/field.h"
#include "text/matcher.h"
#include "text/regex.h"

/* One of these. */
struct finder {
    struct matcher *matcher; /* of a regular expression that matcher.h knows */
    struct regex   *regex;   /* of any other */
    struct str      literal;
};

/* From {"String": s} or {"Regex": s}. */
int  finder_load(struct finder *f, struct component *c, const struct json_t *pattern);
int  finder_regex(struct finder *f, struct component *c, struct str pattern);
void finder_deinit(struct finder *f);

/* One thread's searches, one text at a time. */
struct finder_run {
    const struct finder *f;
    struct str           text;
    size_t               from;
    struct regex_run     regex;
};
/* The next match, in bytes; *found is false after the last. */
int finder_begin(struct finder_run *r, const struct finder *f, struct str text, struct error *e);
int finder_next(struct finder_run *r, bool *found, size_t *start, size_t *end, struct error *e);

#endif
