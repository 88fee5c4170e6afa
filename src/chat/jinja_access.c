/* a.b, a[b], and iterating. Contracts in jinja_run.h. */
#include "base/num.h"
#include "chat/jinja_methods.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

/* --- attributes -------------------------------------------------------------------------------------------------- */

static struct value loop_attribute(struct jinja_run *r, const struct loop *l, struct str name)
{
    size_t n = l->items->n, at = l->at;
    if (str_is(name, "index"))
        return value_int((int64_t)at + 1);
    if (str_is(name, "index0"))
        return value_int((int64_t)at);
    if (str_is(name, "revindex"))
        return value_int((int64_t)(n - at));
    if (str_is(name, "revindex0"))
        return value_int((int64_t)(n - at) - 1);
    if (str_is(name, "first"))
        return value_bool(at == 0);
    if (str_is(name, "last"))
        return value_bool(at + 1 == n);
    if (str_is(name, "length"))
        return value_int((int64_t)n);
    if (str_is(name, "depth"))
        return value_int(l->depth + 1);
    if (str_is(name, "depth0"))
        return value_int(l->depth);
    if (str_is(name, "previtem"))
        return at ? l->items->v[at - 1] : jinja_undefined_hint(r, STR("there is no previous item"));
    if (str_is(name, "nextitem"))
        return at + 1 < n ? l->items->v[at + 1] : jinja_undefined_hint(r, STR("there is no next item"));
    return (struct value){.type = VALUE_ABSENT};
}

static struct value macro_attribute(struct jinja_run *r, const struct macro *m, struct str name)
{
    struct builder names = {0};
    if (str_is(name, "name"))
        return m->node->kind == NODE_MACRO ? value_str(m->node->name) : value_none();
    if (str_is(name, "caller"))
        return value_bool(m->node->uses & USES_CALLER);
    if (str_is(name, "catch_varargs"))
        return value_bool(m->node->uses & USES_VARARGS);
    if (str_is(name, "catch_kwargs"))
        return value_bool(m->node->uses & USES_KWARGS);
    if (!str_is(name, "arguments"))
        return (struct value){.type = VALUE_ABSENT};
    for (const struct param *p = m->node->params; p; p = p->next)
        builder_add(r, &names, value_str(p->name));
    return value_tuple(builder_list(r, &names));
}

static struct value self_attribute(struct jinja_run *r, struct str name)
{
    for (const struct node *b = r->j->blocks; b; b = b->otherwise)
        if (str_eq(b->name, name))
            return (struct value){.type = VALUE_BLOCK, .u.block = b};
    return (struct value){.type = VALUE_ABSENT};
}

/* dict.fromkeys */
static struct value function_attribute(struct jinja_run *r, const struct function *f, struct str name)
{
    static const struct jinja_row fromkeys = {"fromkeys", "/iterable value?", jinja_dict_fromkeys, false};
    struct function              *method;
    if (f->self.type != VALUE_ABSENT || strcmp(f->row->name, "dict") != 0 || !str_is(name, fromkeys.name) ||
        !(method = jinja_alloc(r, sizeof *method)))
        return (struct value){.type = VALUE_ABSENT};
    *method = (struct function){.row = &fromkeys};
    return (struct value){.type = VALUE_FUNCTION, .u.function = method};
}

/* What an object has besides methods; absent when there is nothing of that name. */
static struct value own_attribute(struct jinja_run *r, struct value object, struct str name)
{
    struct value *found = NULL;
    switch (object.type) {
    case VALUE_NAMESPACE:
        found = jinja_dict_text(r, object.u.dict, name);
        return found ? *found : (struct value){.type = VALUE_ABSENT};
    case VALUE_LOOP:
        return loop_attribute(r, object.u.loop, name);
    case VALUE_MACRO:
        return macro_attribute(r, object.u.macro, name);
    case VALUE_SELF:
        return self_attribute(r, name);
    case VALUE_CYCLER:
        if (str_is(name, "current"))
            return object.u.cycler->items->v[object.u.cycler->at];
        if (str_is(name, "items"))
            return value_tuple(object.u.cycler->items);
        if (str_is(name, "pos"))
            return value_int((int64_t)object.u.cycler->at);
        break;
    case VALUE_JOINER:
        if (str_is(name, "sep"))
            return object.u.joiner->separator;
        if (str_is(name, "used"))
            return value_bool(object.u.joiner->used);
        break;
    case VALUE_FUNCTION:
        return function_attribute(r, object.u.function, name);
    case VALUE_TUPLE:
        if (object.u.list->kind == LIST_GROUP && (str_is(name, "grouper") || str_is(name, "list")))
            return object.u.list->v[name.p[0] == 'l'];
        break;
    default:
        return jinja_number_attribute(object, name);
    }
    return (struct value){.type = VALUE_ABSENT};
}

/* getattr in the sandbox: absent when the object has no such attribute. */
static struct value get_attribute(struct jinja_run *r, struct value object, struct str name)
{
    struct value            v = own_attribute(r, object, name);
    const struct jinja_row *row = v.type == VALUE_ABSENT ? jinja_method_row(object.type, name) : NULL;
    if (!row && object.type == VALUE_STRING && object.markup)
        row = jinja_find_row(jinja_markup_methods, name);
    if (!row || v.type != VALUE_ABSENT)
        return v;
    if (!row->fn) {
        struct buf b;
        jinja_buf_init(r, &b);
        buf_printf(&b, "access to attribute '%s' of '%s' object is unsafe.", row->name, value_type_name(object.type));
        return jinja_undefined_hint(r, jinja_take(r, &b).u.s);
    }
    struct function *f = jinja_alloc(r, sizeof *f);
    if (!f)
        return value_none();
    *f = (struct function){.row = row, .self = object};
    return (struct value){.type = VALUE_FUNCTION, .u.function = f};
}

static bool internal(struct str name)
{
    return name.n >= 2 && name.p[0] == '_' && name.p[1] == '_';
}

/* --- items ------------------------------------------------------------------------------------------------------- */

static struct value string_item(struct value s, int64_t i)
{
    uint32_t cp;
    size_t   at;
    if (i < 0 && !num_add(i, (int64_t)text_count(s.u.s), &i))
        i = -1;
    if (i < 0 || (uint64_t)i >= s.u.s.n || (at = text_offset(s.u.s, (size_t)i)) >= s.u.s.n)
        return (struct value){.type = VALUE_ABSENT};
    return value_markup(text_slice(s.u.s, at, at + text_next(s.u.s, at, &cp)), s.markup);
}

/* object[i]; absent when out of range. */
static struct value indexed(struct jinja_run *r, struct value object, int64_t i)
{
    int64_t n;
    switch (object.type) {
    case VALUE_STRING:
        return jinja_spend(r, object.u.s.n / 4) ? string_item(object, i) : value_none();
    case VALUE_BYTES:
        n = (int64_t)object.u.s.n;
        i += i < 0 ? n : 0;
        if (i >= 0 && i < n)
            return value_int((unsigned char)object.u.s.p[i]);
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
        n = (int64_t)object.u.list->n;
        i += i < 0 ? n : 0;
        if (i >= 0 && i < n)
            return object.u.list->v[i];
        break;
    case VALUE_RANGE:
        n = object.u.range->n;
        i += i < 0 ? n : 0;
        if (i >= 0 && i < n)
            return range_item(object.u.range, i);
        break;
    default:
        break;
    }
    return (struct value){.type = VALUE_ABSENT};
}

/* obj[index] of Python; absent when it raises. */
static struct value get_item(struct jinja_run *r, struct value object, struct value index)
{
    struct value *found = NULL;
    if (object.type == VALUE_DICT || (object.type == VALUE_NAMESPACE && index.type == VALUE_STRING)) {
        if (index.type != VALUE_LIST && index.type != VALUE_DICT && index.type != VALUE_VIEW)
            found = jinja_dict_get(r, object.u.dict, index);
        return found ? *found : (struct value){.type = VALUE_ABSENT};
    }
    return value_is_integral(index) ? indexed(r, object, value_integral(index)) : (struct value){.type = VALUE_ABSENT};
}

struct value jinja_attribute(struct jinja_run *r, struct value object, struct str name)
{
    struct value v;
    if (object.type == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, object);
    if (internal(name))
        return jinja_undefined(r, value_str(name), object.type);
    v = get_attribute(r, object, name);
    if (v.type == VALUE_ABSENT)
        v = get_item(r, object, value_str(name));
    return v.type == VALUE_ABSENT ? jinja_undefined(r, value_str(name), object.type) : v;
}

struct value jinja_item(struct jinja_run *r, struct value object, struct value index)
{
    struct value v;
    if (object.type == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, object);
    v = get_item(r, object, index);
    if (v.type == VALUE_ABSENT && index.type == VALUE_STRING && !internal(index.u.s))
        v = get_attribute(r, object, index.u.s);
    return v.type == VALUE_ABSENT ? jinja_undefined(r, index, object.type) : v;
}

static bool is_digits(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return s.n > 0 && s.n < 10;
}

struct value jinja_path(struct jinja_run *r, struct value object, struct value path, struct value fallback)
{
    bool falls_back = fallback.type != VALUE_ABSENT && fallback.type != VALUE_NONE;
    if (path.type != VALUE_STRING) {
        object = jinja_item(r, object, path);
        return object.type == VALUE_UNDEFINED && falls_back ? fallback : object;
    }
    for (struct str rest = path.u.s; !r->status;) {
        const char *dot = rest.n ? memchr(rest.p, '.', rest.n) : NULL;
        struct str  part = {rest.p, dot ? (size_t)(dot - rest.p) : rest.n};
        int64_t     i = 0;
        for (size_t k = 0; is_digits(part) && k < part.n; k++)
            i = i * 10 + (part.p[k] - '0');
        object = jinja_item(r, object, is_digits(part) ? value_int(i) : value_str(part));
        if (object.type == VALUE_UNDEFINED && falls_back)
            object = fallback;
        if (!dot)
            break;
        rest = text_slice(rest, part.n + 1, rest.n);
    }
    return object;
}

/* --- iterating --------------------------------------------------------------------------------------------------- */

/* Code points of s as a list of one-character strings. */
static struct list *characters(struct jinja_run *r, struct value s)
{
    uint32_t     cp;
    size_t       n = text_count(s.u.s), at = 0;
    struct list *list = jinja_list(r, n);
    for (size_t i = 0; list && i < n; i++) {
        size_t len = text_next(s.u.s, at, &cp);
        list->v[i] = value_str(text_slice(s.u.s, at, at + len)); /* iterating markup gives plain characters */
        at += len;
    }
    return list;
}

bool jinja_length(struct value v, size_t *n)
{
    switch (v.type) {
    case VALUE_UNDEFINED:
        *n = 0;
        return true;
    case VALUE_STRING:
        *n = text_count(v.u.s);
        return true;
    case VALUE_BYTES:
        *n = v.u.s.n;
        return true;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        *n = v.u.list->n;
        return true;
    case VALUE_DICT:
        *n = v.u.dict->n;
        return true;
    case VALUE_RANGE:
        *n = (size_t)v.u.range->n;
        return true;
    case VALUE_LOOP:
        *n = v.u.loop->items->n;
        return true;
    default:
        return false;
    }
}

/* What is left of an iterator, which is used up then. */
static struct list *rest_of_iterator(struct jinja_run *r, struct iterator *it)
{
    struct list *rest = jinja_alloc(r, sizeof *rest);
    if (rest && !it->list && jinja_enter(r)) { /* it may apply to a lazy iterator itself */
        struct value made = it->make->row->fn(r, it->source, it->make);
        it->list = r->status ? NULL : made.u.list;
        jinja_leave(r);
    }
    if (!rest || !it->list)
        return NULL;
    *rest = (struct list){.n = it->list->n - it->at, .v = it->list->v + it->at};
    it->at = it->list->n;
    return rest;
}

struct list *jinja_items(struct jinja_run *r, struct value v)
{
    struct list *list;
    switch (v.type) {
    case VALUE_UNDEFINED:
        return jinja_list(r, 0);
    case VALUE_STRING:
        return jinja_spend(r, v.u.s.n / 8) ? characters(r, v) : NULL;
    case VALUE_BYTES:
        return jinja_byte_list(r, v.u.s);
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        return v.u.list;
    case VALUE_DICT:
        if ((list = jinja_list(r, v.u.dict->n)))
            for (size_t i = 0; i < list->n; i++)
                list->v[i] = v.u.dict->v[i].key;
        return list;
    case VALUE_RANGE:
        if ((list = jinja_list(r, (size_t)v.u.range->n)))
            for (size_t i = 0; i < list->n; i++)
                list->v[i] = range_item(v.u.range, (int64_t)i);
        return list;
    case VALUE_ITERATOR:
        return rest_of_iterator(r, v.u.iterator);
    default:
        jinja_fail(r, "'%s' object is not iterable", value_type_name(v.type));
        return NULL;
    }
}
