/* The filters' functions, by topic in jinja_filter_text.c, jinja_filter_layout.c, jinja_filter_list.c,
 * jinja_filter_choose.c, jinja_filter_number.c, jinja_pprint.c and jinja_urlize.c; the table is jinja_filters.def. */
#ifndef MLXCEL_CHAT_JINJA_FILTERS_H
#define MLXCEL_CHAT_JINJA_FILTERS_H

#include "chat/jinja_rows.h"

#define FILTER(name, params, fn) struct value fn(struct jinja_run *r, struct value v, const struct jinja_call *c);
#define LAZY FILTER
#include "chat/jinja_filters.def"
#undef LAZY
#undef FILTER

/* For comparing without case: lower case of a string, anything else as it is. */
struct value jinja_fold(struct jinja_run *r, struct value v);

#endif
