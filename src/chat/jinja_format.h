/* Python's format specification, which "%" formatting and str.format share. */
#ifndef MLXCEL_CHAT_JINJA_FORMAT_H
#define MLXCEL_CHAT_JINJA_FORMAT_H

#include "chat/jinja_run.h"

#define FORMAT_WIDTH_MAX 1000000
#define FORMAT_PRECISION_MAX 1000

struct format_spec {
    uint32_t fill;      /* a code point; 0: a blank */
    char     align;     /* < > ^ =, or 0: by the kind of the value */
    char     sign;      /* + - or a blank, 0: - */
    bool     alternate; /* # */
    bool     zero;
    char     grouping; /* , or _ or 0 */
    char     type;     /* 0: by the kind of the value */
    int      width;    /* -1: none */
    int      precision;
};
#define FORMAT_SPEC_NONE ((struct format_spec){.width = -1, .precision = -1})

/* A decimal number at *at, limited to max; -1 without digits; a fault when it is larger. Moves *at on. */
int format_number(struct jinja_run *r, struct str s, size_t *at, int max);
/* Each appends one value to b; a fault for a type letter that does not fit. */
void format_text(struct jinja_run *r, struct buf *b, const struct format_spec *f, struct str s);
void format_int(struct jinja_run *r, struct buf *b, const struct format_spec *f, struct value i);
void format_float(struct jinja_run *r, struct buf *b, const struct format_spec *f, double d);

#endif
