/* The description that a family makes of a config.json given as text. Included behind cmocka.h. */
#ifndef MLXCEL_TESTS_DESCRIPTION_H
#define MLXCEL_TESTS_DESCRIPTION_H

#include <stdio.h>
#include <string.h>

#include "arch/arch.h"

/* A description and what it lives in. */
struct description {
    struct config    *c;
    struct arena      a;
    struct model_desc m;
    struct error      e;
};

/* Of {"model_type": type, sizes, fields}; fields may be "". Returns arch_describe's status. */
static inline int describe(struct description *d, const char *type, const char *sizes, const char *fields)
{
    char text[4096];
    int  n = snprintf(text, sizeof text, "{\"model_type\":\"%s\",%s%s%s}", type, sizes, *fields ? "," : "", fields);
    memset(d, 0, sizeof *d);
    arena_init(&d->a, 1 << 20);
    assert_true(n > 0 && n < (int)sizeof text);
    if (config_parse(&d->c, str_of(text), "config.json", &d->e))
        fail_msg("%s: %s", text, d->e.msg);
    return arch_describe(&d->m, d->c, &d->a, &d->e);
}

/* One that must be right. */
static inline void describe_right(struct description *d, const char *type, const char *sizes, const char *fields)
{
    if (describe(d, type, sizes, fields))
        fail_msg("%s %s: %s", type, fields, d->e.msg);
}

static inline void description_free(struct description *d)
{
    config_free(d->c);
    arena_deinit(&d->a);
}

#endif
