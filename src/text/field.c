/* See field.h. */
#include "text/field.h"

#include <jansson.h>

const char *component_type(struct component *c, const json_t *o)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    if (!type)
        component_malformed(c, "is not an object with a \"type\"");
    return type;
}

int component_unsupported(struct component *c, const char *type)
{
    return error_set(c->e, ERR_UNSUPPORTED, c->role, "%s '%.100s' is not supported", c->role, type);
}

int component_malformed(struct component *c, const char *what)
{
    return error_set(c->e, ERR_FORMAT, c->role, "%s %s", c->role, what);
}

int component_nomem(struct component *c)
{
    if (c->arena->full)
        return error_set(c->e, ERR_LIMIT, c->role, "%s: the texts of the components take more than %zu bytes", c->role,
                         c->arena->max);
    return error_nomem(c->e, "a tokenizer");
}

struct each {
    const char *key;
    int (*one)(struct component *c, const char *type, const json_t *o, void *ctx);
    void *ctx;
    int   n;
};

static int each(struct component *c, const json_t *o, struct each *w, int depth)
{
    const char *type;
    size_t      i;
    json_t     *member, *list = json_object_get(o, w->key);
    int         status = 0;
    if (depth > COMPONENT_DEPTH_MAX)
        return component_malformed(c, "nests Sequences deeper than 8 levels");
    if (!o || json_is_null(o))
        return 0;
    if (!(type = component_type(c, o)))
        return ERR_FORMAT;
    if (strcmp(type, "Sequence") != 0)
        return ++w->n > COMPONENT_STEPS_MAX ? component_malformed(c, "has more than 64 steps")
                                            : w->one(c, type, o, w->ctx);
    if (!json_is_array(list))
        return component_malformed(c, "is a Sequence without a list");
    json_array_foreach(list, i, member)
    {
        status = each(c, member, w, depth + 1);
        if (status)
            break;
    }
    return status;
}

int component_each(struct component *c, const json_t *o, const char *key,
                   int (*one)(struct component *c, const char *type, const json_t *o, void *ctx), void *ctx)
{
    return each(c, o, &(struct each){key, one, ctx, 0}, 0);
}

static int wrong_type(struct component *c, const char *key, const char *needed)
{
    return error_set(c->e, ERR_FORMAT, c->role, "%s: \"%s\" is not %s", c->role, key, needed);
}

int field_bool(struct component *c, const json_t *o, const char *key, bool *out)
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_boolean(v))
        return wrong_type(c, key, "true or false");
    *out = json_is_true(v);
    return 0;
}

int field_int(struct component *c, const json_t *o, const char *key, int64_t *out)
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_integer(v))
        return wrong_type(c, key, "an integer");
    *out = json_integer_value(v);
    return 0;
}

int field_str(struct component *c, const json_t *o, const char *key, struct str *out)
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_string(v))
        return wrong_type(c, key, "a string");
    *out = (struct str){json_string_value(v), json_string_length(v)};
    return 0;
}

int field_text(struct component *c, const json_t *o, const char *key, struct str *out)
{
    struct str v = {0};
    int        status = field_str(c, o, key, &v);
    if (status)
        return status;
    if (!v.p)
        return error_set(c->e, ERR_FORMAT, c->role, "%s: \"%s\" is missing", c->role, key);
    if (v.n > COMPONENT_TEXT_MAX)
        return error_set(c->e, ERR_LIMIT, c->role, "%s: \"%s\" is longer than %d bytes", c->role, key,
                         COMPONENT_TEXT_MAX);
    const char *copy = arena_strdup(c->arena, v.p, v.n);
    if (!copy)
        return component_nomem(c);
    *out = (struct str){copy, v.n};
    return 0;
}
