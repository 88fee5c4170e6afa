/* Methods of dicts, lists, tuples, and of Jinja's own objects. What would change a list or dict is refused, as in the
 * immutable sandbox: such a row has no function. */
#include "chat/jinja_methods.h"

#include "base/num.h"
#include "chat/jinja_run.h"

#define METHOD(name) static struct value name(struct jinja_run *r, struct value self, const struct jinja_call *c)

/* --- dict -------------------------------------------------------------------------------------------------------- */

static struct value view(struct list *list, enum list_kind kind)
{
    if (list)
        list->kind = kind;
    return list ? (struct value){.type = VALUE_VIEW, .u.list = list} : value_none();
}

METHOD(dict_items)
{
    (void)c;
    return view(jinja_pairs(r, self.u.dict), LIST_ITEMS);
}

METHOD(dict_keys)
{
    (void)c;
    return view(jinja_items(r, self), LIST_KEYS);
}

METHOD(dict_values)
{
    struct list *list = jinja_list(r, self.u.dict->n);
    (void)c;
    for (size_t i = 0; list && i < list->n; i++)
        list->v[i] = self.u.dict->v[i].value;
    return view(list, LIST_VALUES);
}

METHOD(dict_get)
{
    struct value *found = jinja_dict_get(r, self.u.dict, c->arg[0]);
    if (found)
        return *found;
    return c->arg[1].type == VALUE_ABSENT ? value_none() : c->arg[1];
}

/* Values never change, so a copy is the same. */
METHOD(copy)
{
    (void)r;
    (void)c;
    return self;
}

struct value jinja_dict_fromkeys(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    struct list *keys = jinja_items(r, c->arg[0]);
    struct dict *d = jinja_dict(r);
    (void)self;
    for (size_t i = 0; keys && i < keys->n && !r->status; i++)
        jinja_dict_set(r, d, keys->v[i], c->arg[1].type == VALUE_ABSENT ? value_none() : c->arg[1]);
    return value_dict(d);
}

/* No item of a view of keys or items is one of another iterable. */
METHOD(view_isdisjoint)
{
    struct list *others = jinja_items(r, c->arg[0]);
    for (size_t i = 0; others && i < others->n && !r->status; i++)
        if (jinja_contains(r, self, others->v[i]))
            return value_bool(false);
    return value_bool(true);
}

/* --- list, tuple ------------------------------------------------------------------------------------------------- */

METHOD(list_count)
{
    struct list *items = jinja_items(r, self);
    int64_t      n = 0;
    for (size_t i = 0; items && i < items->n && jinja_spend(r, 1); i++)
        n += jinja_equal(r, items->v[i], c->arg[0]);
    return value_int(n);
}

METHOD(list_index)
{
    struct list *items = jinja_items(r, self);
    int64_t      n = items ? (int64_t)items->n : 0, from = jinja_arg_int(r, c->arg[1], 0),
            to = jinja_arg_int(r, c->arg[2], n);
    from = MAX(from < 0 ? from + n : from, 0);
    to = MIN(to < 0 ? to + n : to, n);
    for (int64_t i = from; i < to && jinja_spend(r, 1); i++)
        if (jinja_equal(r, items->v[i], c->arg[0]))
            return value_int(i);
    return jinja_fail(r, "the value is not in the %s", value_type_name(self.type));
}

/* --- loop, cycler, self ------------------------------------------------------------------------------------------ */

METHOD(loop_cycle)
{
    if (!c->args->n || c->args->n_keywords)
        return jinja_fail(r, "no items for cycling given");
    return c->args->v[self.u.loop->at % c->args->n];
}

/* Whether the arguments differ from those of the call before. */
METHOD(loop_changed)
{
    struct list *now = jinja_list(r, c->args->n);
    if (!now)
        return value_none();
    if (now->n)
        memcpy(now->v, c->args->v, now->n * sizeof *now->v);
    bool same = self.u.loop->changed.type == VALUE_TUPLE && jinja_equal(r, self.u.loop->changed, value_tuple(now));
    self.u.loop->changed = value_tuple(now);
    return value_bool(!same);
}

METHOD(cycler_next)
{
    struct cycler *cycler = self.u.cycler;
    struct value   v = cycler->items->v[cycler->at];
    (void)r;
    (void)c;
    cycler->at = (cycler->at + 1) % cycler->items->n;
    return v;
}

METHOD(cycler_reset)
{
    (void)r;
    (void)c;
    self.u.cycler->at = 0;
    return value_none();
}

static const struct jinja_row dict_methods[] = {
    {"clear", "", NULL, false},
    {"copy", "", copy, false},
    {"fromkeys", "/iterable value?", jinja_dict_fromkeys, false},
    {"get", "/key default?", dict_get, false},
    {"items", "", dict_items, false},
    {"keys", "", dict_keys, false},
    {"pop", "", NULL, false},
    {"popitem", "", NULL, false},
    {"setdefault", "", NULL, false},
    {"update", "", NULL, false},
    {"values", "", dict_values, false},
    {NULL, NULL, NULL, false},
};

static const struct jinja_row list_methods[] = {
    {"append", "", NULL, false}, {"clear", "", NULL, false},
    {"copy", "", copy, false},   {"count", "/value", list_count, false},
    {"extend", "", NULL, false}, {"index", "/value start? stop?", list_index, false},
    {"insert", "", NULL, false}, {"pop", "", NULL, false},
    {"remove", "", NULL, false}, {"reverse", "", NULL, false},
    {"sort", "", NULL, false},   {NULL, NULL, NULL, false},
};

static const struct jinja_row view_methods[] = {
    {"isdisjoint", "/other", view_isdisjoint, false},
    {NULL, NULL, NULL, false},
};

static const struct jinja_row tuple_methods[] = {
    {"count", "/value", list_count, false},
    {"index", "/value start? stop?", list_index, false},
    {NULL, NULL, NULL, false},
};

static const struct jinja_row loop_methods[] = {
    {"changed", "*", loop_changed, false},
    {"cycle", "*", loop_cycle, false},
    {NULL, NULL, NULL, false},
};

static const struct jinja_row cycler_methods[] = {
    {"next", "", cycler_next, false},
    {"reset", "", cycler_reset, false},
    {NULL, NULL, NULL, false},
};

const struct jinja_row *jinja_method_row(uint8_t type, struct str name)
{
    switch (type) {
    case VALUE_STRING:
        return jinja_find_row(jinja_string_methods, name);
    case VALUE_BOOL:
    case VALUE_INT:
    case VALUE_BIG:
        return jinja_find_row(jinja_int_methods, name);
    case VALUE_FLOAT:
        return jinja_find_row(jinja_float_methods, name);
    case VALUE_BYTES:
        return jinja_find_row(jinja_bytes_methods, name);
    case VALUE_DICT:
        return jinja_find_row(dict_methods, name);
    case VALUE_VIEW:
        return jinja_find_row(view_methods, name);
    case VALUE_LIST:
        return jinja_find_row(list_methods, name);
    case VALUE_TUPLE:
    case VALUE_RANGE:
        return jinja_find_row(tuple_methods, name);
    case VALUE_LOOP:
        return jinja_find_row(loop_methods, name);
    case VALUE_CYCLER:
        return jinja_find_row(cycler_methods, name);
    default:
        return NULL;
    }
}
