/* Making values: undefined, strings, lists, dicts, and the caller's JSON as values. Contracts in jinja_run.h. */
#include "base/num.h"
#include "chat/jinja_run.h"

struct value jinja_undefined(struct jinja_run *r, struct value name, uint8_t owner)
{
    struct undefined *u = jinja_alloc(r, sizeof *u);
    if (!u)
        return value_none();
    *u = (struct undefined){.name = name, .owner = owner};
    return (struct value){.type = VALUE_UNDEFINED, .u.undefined = u};
}

struct value jinja_undefined_hint(struct jinja_run *r, struct str hint)
{
    struct value v = jinja_undefined(r, value_none(), VALUE_ABSENT);
    if (v.type == VALUE_UNDEFINED)
        v.u.undefined->hint = hint;
    return v;
}

struct value jinja_fail_undefined(struct jinja_run *r, struct value v)
{
    const struct undefined *u = v.u.undefined;
    if (u->hint.n)
        return jinja_fail(r, STR_FMT, STR_ARG(u->hint));
    struct str name = jinja_text(r, u->name);
    if (u->owner == VALUE_ABSENT)
        return jinja_fail(r, "'" STR_FMT "' is undefined", STR_ARG(name));
    if (u->name.type != VALUE_STRING)
        return jinja_fail(r, "%s has no element " STR_FMT, value_owner_name(u->owner), STR_ARG(name));
    return jinja_fail(r, "'%s' has no attribute '" STR_FMT "'", value_owner_name(u->owner), STR_ARG(name));
}

bool jinja_private_name(struct value name)
{
    return name.type == VALUE_STRING && name.u.s.n && name.u.s.p[0] == '_';
}

struct value jinja_fail_private(struct jinja_run *r, struct value name)
{
    return jinja_fail(r, "a namespace cannot hold the name '" STR_FMT "', which begins with an underscore",
                      STR_ARG(name.u.s));
}

/* --- strings and lists ------------------------------------------------------------------------------------------- */

void jinja_buf_init(struct jinja_run *r, struct buf *b)
{
    buf_init(b, r->limits.memory - MIN(r->limits.memory, r->arena.used));
}

struct value jinja_take(struct jinja_run *r, struct buf *b)
{
    struct value v = value_str((struct str){"", 0});
    if (b->failed)
        jinja_fail_memory(r, b->full);
    else if (b->n)
        v = jinja_copy(r, buf_str(b));
    buf_deinit(b);
    return v;
}

struct value jinja_copy(struct jinja_run *r, struct str s)
{
    char *p = jinja_alloc(r, s.n);
    if (!p || !jinja_spend(r, s.n / 64))
        return value_str((struct str){"", 0});
    if (s.n)
        memcpy(p, s.p, s.n);
    return value_str((struct str){p, s.n});
}

struct list *jinja_list(struct jinja_run *r, size_t n)
{
    size_t       bytes;
    struct list *list = jinja_alloc(r, sizeof *list);
    if (!list || !jinja_spend(r, n / 8))
        return NULL;
    *list = (struct list){.n = n};
    if (!num_mul(n, sizeof *list->v, &bytes)) {
        jinja_fail_memory(r, true);
        return NULL;
    }
    if (!(list->v = jinja_alloc(r, bytes)))
        return NULL;
    memset(list->v, 0, bytes);
    return list;
}

struct list *jinja_pair(struct jinja_run *r, struct value a, struct value b)
{
    struct list *pair = jinja_list(r, 2);
    if (pair) {
        pair->v[0] = a;
        pair->v[1] = b;
    }
    return pair;
}

struct value jinja_iterator(struct jinja_run *r, struct list *list)
{
    struct iterator *it = jinja_alloc(r, sizeof *it);
    if (!it)
        return value_none();
    *it = (struct iterator){.list = list};
    return (struct value){.type = VALUE_ITERATOR, .u.iterator = it};
}

bool builder_add(struct jinja_run *r, struct builder *b, struct value v)
{
    if (!b->list && !(b->list = jinja_list(r, 0)))
        return false;
    if (b->list->n == b->cap) {
        size_t       cap = b->cap ? b->cap * 2 : 8;
        struct list *wider = jinja_list(r, cap);
        if (!wider)
            return false;
        if (b->cap)
            memcpy(wider->v, b->list->v, b->cap * sizeof v);
        b->list->v = wider->v;
        b->cap = cap;
    }
    b->list->v[b->list->n++] = v;
    return jinja_spend(r, 1);
}

struct list *builder_list(struct jinja_run *r, struct builder *b)
{
    return b->list ? b->list : jinja_list(r, 0);
}

/* --- dicts ------------------------------------------------------------------------------------------------------- */

#define INDEX_FROM 8 /* entries from which on a dict has an index */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

/* Equal keys have equal hashes, also 1, 1.0 and true. False: unhashable, a fault. */
static bool hash(struct jinja_run *r, struct value key, uint64_t *out)
{
    uint64_t h = 0;
    if (value_is_number(key)) {
        double d = value_number(key);
        if (d == 0)
            d = 0; /* not minus zero */
        memcpy(&h, &d, sizeof h);
        *out = mix(1, h);
        return true;
    }
    switch (key.type) {
    case VALUE_STRING:
    case VALUE_BYTES:
        for (size_t i = 0; i < key.u.s.n; i++)
            h = (h ^ (unsigned char)key.u.s.p[i]) * 0x100000001b3u;
        *out = mix(2, h);
        return jinja_spend(r, key.u.s.n / 64);
    case VALUE_TUPLE:
        *out = 3;
        if (!jinja_enter(r))
            return false;
        for (size_t i = 0; i < key.u.list->n && hash(r, key.u.list->v[i], &h); i++)
            *out = mix(*out, h);
        jinja_leave(r);
        return !r->status;
    case VALUE_LIST:
    case VALUE_DICT:
    case VALUE_VIEW:
        jinja_fail_type(r, "unhashable type", key);
        return false;
    default:
        *out = key.type;
        return true;
    }
}

/* The entry of a key, or the index slot where it would go (when the dict has an index). */
static struct dict_entry *locate(struct jinja_run *r, const struct dict *d, struct value key, uint64_t h, size_t *slot)
{
    if (!d->n_index) {
        for (size_t i = 0; i < d->n; i++)
            if (d->v[i].hash == h && jinja_equal(r, d->v[i].key, key))
                return &d->v[i];
        return NULL;
    }
    for (size_t i = h & (d->n_index - 1);; i = (i + 1) & (d->n_index - 1)) {
        if (slot)
            *slot = i;
        if (!d->index[i])
            return NULL;
        struct dict_entry *entry = &d->v[d->index[i] - 1];
        if (!jinja_spend(r, 1))
            return NULL;
        if (entry->hash == h && jinja_equal(r, entry->key, key))
            return entry;
    }
}

static bool grow(struct jinja_run *r, struct dict *d)
{
    size_t             cap = d->cap ? d->cap * 2 : 4;
    struct dict_entry *v = cap < UINT32_MAX / 4 ? jinja_alloc(r, cap * sizeof *v) : NULL;
    if (!v)
        return false;
    if (d->n)
        memcpy(v, d->v, d->n * sizeof *v);
    d->v = v;
    d->cap = cap;
    if (cap <= INDEX_FROM)
        return true;
    d->n_index = 0;
    if (!(d->index = jinja_alloc(r, cap * 2 * sizeof *d->index)))
        return false;
    d->n_index = cap * 2;
    memset(d->index, 0, d->n_index * sizeof *d->index);
    for (size_t i = 0; i < d->n; i++) {
        size_t at = v[i].hash & (d->n_index - 1);
        while (d->index[at])
            at = (at + 1) & (d->n_index - 1);
        d->index[at] = (uint32_t)i + 1;
    }
    return jinja_spend(r, cap / 8);
}

struct dict *jinja_dict(struct jinja_run *r)
{
    struct dict *d = jinja_alloc(r, sizeof *d);
    if (d)
        *d = (struct dict){0};
    return d;
}

bool jinja_dict_set(struct jinja_run *r, struct dict *d, struct value key, struct value v)
{
    uint64_t h;
    size_t   slot = 0;
    if (!d || !hash(r, key, &h))
        return false;
    struct dict_entry *entry = locate(r, d, key, h, &slot);
    if (entry) {
        entry->value = v;
        return true;
    }
    if (d->n == d->cap && !grow(r, d))
        return false;
    if (d->n_index) {
        locate(r, d, key, h, &slot);
        d->index[slot] = (uint32_t)d->n + 1;
    }
    d->v[d->n++] = (struct dict_entry){key, v, h};
    return !r->status;
}

struct value *jinja_dict_get(struct jinja_run *r, const struct dict *d, struct value key)
{
    uint64_t           h;
    struct dict_entry *entry = hash(r, key, &h) ? locate(r, d, key, h, NULL) : NULL;
    return entry ? &entry->value : NULL;
}

struct value *jinja_dict_text(struct jinja_run *r, const struct dict *d, struct str key)
{
    return jinja_dict_get(r, d, value_str(key));
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

static struct value from_array(struct jinja_run *r, const json_t *json)
{
    size_t       n = json_array_size(json);
    struct list *list = jinja_list(r, n);
    for (size_t i = 0; i < n && !r->status; i++)
        list->v[i] = jinja_from_json(r, json_array_get(json, i));
    return value_list(list);
}

static struct value from_object(struct jinja_run *r, const json_t *json)
{
    struct dict *d = jinja_dict(r);
    for (void *it = json_object_iter((json_t *)json); it && !r->status;
         it = json_object_iter_next((json_t *)json, it)) {
        struct str key = {json_object_iter_key(it), json_object_iter_key_len(it)};
        jinja_dict_set(r, d, value_str(key), jinja_from_json(r, json_object_iter_value(it)));
    }
    return value_dict(d);
}

struct value jinja_from_json(struct jinja_run *r, const json_t *json)
{
    struct value v = value_none();
    if (!jinja_enter(r))
        return v;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        v = from_object(r, json);
        break;
    case JSON_ARRAY:
        v = from_array(r, json);
        break;
    case JSON_STRING:
        v = value_str((struct str){json_string_value(json), json_string_length(json)});
        break;
    case JSON_INTEGER:
        v = value_int(json_integer_value(json));
        break;
    case JSON_REAL:
        v = value_float(json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        v = value_bool(json_is_true(json));
        break;
    case JSON_NULL:
        break;
    }
    jinja_leave(r);
    return v;
}
