/* Filters that look at one item after the other: map, select, reject and their attribute forms, default, attr. */
#include "chat/jinja_filters.h"
#include "chat/jinja_run.h"

struct value filter_default(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)r;
    if (v.type == VALUE_UNDEFINED || (value_truth(c->arg[1]) && !value_truth(v)))
        return c->arg[0].type == VALUE_ABSENT ? value_str(STR("")) : c->arg[0];
    return v;
}

/* Attributes only, never items: those of a chat are methods. */
struct value filter_attr(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct str name = jinja_arg_str(r, c->arg[0], STR(""));
    if (r->status)
        return value_none();
    if (v.type == VALUE_DICT && !jinja_method_row(VALUE_DICT, name))
        return jinja_undefined(r, value_str(name), v.type);
    return jinja_attribute(r, v, name);
}

/* The arguments behind the first n. */
static struct jinja_args rest_of(const struct jinja_args *args, size_t n)
{
    struct jinja_args rest = *args;
    rest.v = n ? rest.v + n : rest.v;
    rest.n -= n;
    return rest;
}

static const struct jinja_keyword *find_keyword(const struct jinja_args *args, const char *name)
{
    for (size_t i = 0; i < args->n_keywords; i++)
        if (str_is(args->keywords[i].name, name))
            return &args->keywords[i];
    return NULL;
}

static struct value map_attribute(struct jinja_run *r, const struct list *items, const struct jinja_args *args)
{
    const struct jinja_keyword *attribute = find_keyword(args, "attribute"), *fallback = find_keyword(args, "default");
    struct list                *list = jinja_list(r, items->n);
    if (args->n_keywords > (fallback ? 2u : 1u))
        return jinja_fail(r, "map got an unexpected keyword argument");
    for (size_t i = 0; list && i < list->n && jinja_spend(r, 1); i++)
        list->v[i] = jinja_path(r, items->v[i], attribute->value, fallback ? fallback->value : (struct value){0});
    return value_list(list);
}

/* map("filter", args...) or map(attribute="a.b", default=...) */
struct value filter_map(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    const struct jinja_args *args = c->args;
    struct list             *items = value_truth(v) ? jinja_items(r, v) : jinja_list(r, 0), *list;
    if (!items)
        return value_none();
    if (!args->n && find_keyword(args, "attribute"))
        return map_attribute(r, items, args);
    if (!args->n)
        return jinja_fail(r, "map requires a filter argument");
    struct str              name = jinja_arg_str(r, args->v[0], STR(""));
    const struct jinja_row *row = jinja_filter_row(name);
    struct jinja_args       rest = rest_of(args, 1);
    if (!row && items->n)
        return jinja_fail(r, "No filter named '" STR_FMT "'.", STR_ARG(name));
    list = jinja_list(r, items->n);
    for (size_t i = 0; list && i < list->n && !r->status; i++)
        list->v[i] = jinja_call_row(r, row, items->v[i], &rest);
    return value_list(list);
}

/* Items (or their attribute, the first argument) for which a test, or truth, is `wanted`. */
static struct value choose(struct jinja_run *r, struct value v, const struct jinja_args *args, bool by_attribute,
                           bool wanted)
{
    struct list            *items = value_truth(v) ? jinja_items(r, v) : jinja_list(r, 0); /* none is empty, too */
    size_t                  at = by_attribute ? 1 : 0;
    const struct jinja_row *row = NULL;
    struct builder          kept = {0};
    if (!items)
        return value_none();
    if (args->n < at)
        return jinja_fail(r, "Missing parameter for attribute name");
    struct jinja_args rest = rest_of(args, args->n > at ? at + 1 : at);
    if (args->n > at) {
        struct str name = jinja_arg_str(r, args->v[at], STR(""));
        if (!(row = jinja_test_row(name)) && items->n)
            return jinja_fail(r, "No test named '" STR_FMT "'.", STR_ARG(name));
    }
    for (size_t i = 0; i < items->n && jinja_spend(r, 1); i++) {
        struct value item = by_attribute ? jinja_path(r, items->v[i], args->v[0], (struct value){0}) : items->v[i];
        if (r->status)
            break;
        if (value_truth(row ? jinja_call_row(r, row, item, &rest) : item) == wanted)
            builder_add(r, &kept, items->v[i]);
    }
    return value_list(builder_list(r, &kept));
}

struct value filter_select(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    return choose(r, v, c->args, false, true);
}

struct value filter_reject(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    return choose(r, v, c->args, false, false);
}

struct value filter_selectattr(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    return choose(r, v, c->args, true, true);
}

struct value filter_rejectattr(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    return choose(r, v, c->args, true, false);
}
