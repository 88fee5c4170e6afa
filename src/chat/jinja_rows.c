/* Looking rows up, and the table of filters. */
#include "chat/jinja_rows.h"

#include "chat/jinja_filters.h"

static const struct jinja_row filters[] = {
#define FILTER(name, params, fn) {name, params, fn, false},
#define LAZY(name, params, fn) {name, params, fn, true},
#include "chat/jinja_filters.def"
#undef LAZY
#undef FILTER
    {NULL, NULL, NULL, false},
};

const struct jinja_row *jinja_find_row(const struct jinja_row *table, struct str name)
{
    for (; table->name; table++)
        if (str_is(name, table->name))
            return table;
    return NULL;
}

const struct jinja_row *jinja_filter_row(struct str name)
{
    return jinja_find_row(filters, name);
}
