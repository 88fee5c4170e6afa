/* Filters on sequences and mappings as a whole. Names, arguments and results are Jinja's. */
#include "base/num.h"
#include "chat/jinja_filters.h"
#include "chat/jinja_run.h"

struct value filter_length(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    size_t n;
    (void)c;
    if (v.type == VALUE_STRING)
        jinja_spend(r, v.u.s.n / 8);
    return jinja_length(v, &n) ? value_int((int64_t)n)
                               : jinja_fail(r, "object of type '%s' has no len()", value_type_name(v.type));
}

struct value filter_list(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)c;
    return value_list(jinja_items(r, v));
}

/* The pairs of a dict. */
struct list *jinja_pairs(struct jinja_run *r, const struct dict *d)
{
    struct list *list = jinja_list(r, d->n);
    for (size_t i = 0; list && i < d->n && !r->status; i++)
        list->v[i] = value_tuple(jinja_pair(r, d->v[i].key, d->v[i].value));
    return list;
}

struct value filter_items(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)c;
    if (v.type == VALUE_UNDEFINED)
        return value_list(jinja_list(r, 0));
    if (v.type != VALUE_DICT)
        return jinja_fail(r, "Can only get item pairs from a mapping.");
    return value_list(jinja_pairs(r, v.u.dict));
}

/* --- one of them ------------------------------------------------------------------------------------------------- */

static struct value none_left(struct jinja_run *r, const char *why)
{
    return jinja_undefined_hint(r, str_of(why));
}

struct value filter_first(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct list *items;
    (void)c;
    if (!(items = jinja_items(r, v)))
        return value_none();
    if (v.type == VALUE_ITERATOR && items->n)
        v.u.iterator->at -= items->n - 1; /* the others are still to come */
    return items->n ? items->v[0] : none_left(r, "No first item, sequence was empty.");
}

struct value filter_last(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)c;
    if (v.type == VALUE_ITERATOR)
        return jinja_fail(r, "'generator' object is not reversible");
    struct list *items = jinja_items(r, v);
    if (!items)
        return value_none();
    if (!items->n)
        return none_left(r, "No last item, sequence was empty.");
    struct value last = items->v[items->n - 1];
    last.markup |= v.type == VALUE_STRING && v.markup; /* Python reaches it by its index, which keeps markup */
    return last;
}

/* Reproducible: picks by the time and the number of picks before. */
struct value filter_random(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct list *items = jinja_items(r, v);
    (void)c;
    if (!items || !items->n)
        return none_left(r, "No random item, sequence was empty.");
    return items->v[jinja_random(r) % items->n];
}

static int order_first(struct jinja_run *r, const struct value *a, const struct value *b, void *ctx)
{
    int c = jinja_order(r, *a, *b, "<");
    return ctx ? -c : c;
}

/* As lists of one key each compare: equal keys need no order. */
static int order_key(struct jinja_run *r, const struct value *a, const struct value *b, void *ctx)
{
    return jinja_equal(r, *a, *b) ? 0 : order_first(r, a, b, ctx);
}

/* Items as [key, item] in turn: the key is the attribute (or the item), folded unless case counts. */
static struct value *keyed(struct jinja_run *r, const struct list *items, struct value attribute, bool case_sensitive,
                           struct value fallback)
{
    struct list *list = jinja_list(r, items->n * 2);
    for (size_t i = 0; list && i < items->n && jinja_spend(r, 1); i++) {
        struct value key = items->v[i];
        if (attribute.type != VALUE_ABSENT && attribute.type != VALUE_NONE)
            key = jinja_path(r, key, attribute, fallback);
        list->v[2 * i] = case_sensitive || r->status ? key : jinja_fold(r, key);
        list->v[2 * i + 1] = items->v[i];
    }
    return list && !r->status ? list->v : NULL;
}

static struct value extreme(struct jinja_run *r, struct value v, const struct jinja_call *c, int sign)
{
    struct list  *items = jinja_items(r, v);
    struct value *pairs = items ? keyed(r, items, c->arg[1], value_truth(c->arg[0]), (struct value){0}) : NULL;
    size_t        best = 0;
    if (!pairs)
        return value_none();
    if (!items->n)
        return none_left(r, "No aggregated item, sequence was empty.");
    for (size_t i = 1; i < items->n && !r->status; i++)
        if (jinja_order(r, pairs[2 * i], pairs[2 * best], "<") * sign > 0)
            best = i;
    return pairs[2 * best + 1];
}

struct value filter_min(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    return extreme(r, v, c, -1);
}

struct value filter_max(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    return extreme(r, v, c, 1);
}

/* --- order ------------------------------------------------------------------------------------------------------- */

/* A string turns around into a string. */
struct value filter_reverse(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)c;
    if (v.type == VALUE_STRING)
        return jinja_slice(r, v, value_none(), value_none(), value_int(-1));
    struct list *items = jinja_items(r, v), *list = items ? jinja_list(r, items->n) : NULL;
    for (size_t i = 0; list && i < list->n; i++)
        list->v[i] = items->v[list->n - 1 - i];
    return jinja_iterator(r, list);
}

/* The key of "a,b": a list of both attributes. */
static struct value multi_key(struct jinja_run *r, struct value item, struct value attribute, bool case_sensitive)
{
    struct builder keys = {0};
    for (struct str rest = attribute.u.s; !r->status;) {
        const char  *comma = rest.n ? memchr(rest.p, ',', rest.n) : NULL;
        struct str   part = {rest.p, comma ? (size_t)(comma - rest.p) : rest.n};
        struct value key = jinja_path(r, item, value_str(part), (struct value){0});
        builder_add(r, &keys, case_sensitive || r->status ? key : jinja_fold(r, key));
        if (!comma)
            break;
        rest = (struct str){comma + 1, rest.n - part.n - 1};
    }
    return value_list(builder_list(r, &keys));
}

struct value filter_sort(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct list *items = jinja_items(r, v);
    struct value attribute = c->arg[2];
    bool         case_sensitive = value_truth(c->arg[1]);
    bool multi = attribute.type == VALUE_STRING && attribute.u.s.n && memchr(attribute.u.s.p, ',', attribute.u.s.n);
    struct value *pairs =
        items ? keyed(r, items, multi ? value_none() : attribute, case_sensitive || multi, (struct value){0}) : NULL;
    if (!pairs)
        return value_none();
    for (size_t i = 0; multi && i < items->n && !r->status; i++)
        pairs[2 * i] = multi_key(r, items->v[i], attribute, case_sensitive);
    jinja_sort(r, pairs, items->n, 2, order_key, value_truth(c->arg[0]) ? r : NULL);
    struct list *list = r->status ? NULL : jinja_list(r, items->n);
    for (size_t i = 0; list && i < list->n; i++)
        list->v[i] = pairs[2 * i + 1];
    return value_list(list);
}

struct value filter_dictsort(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct str   by = jinja_arg_str(r, c->arg[1], STR("key"));
    struct list *pairs = v.type == VALUE_DICT ? jinja_pairs(r, v.u.dict) : NULL;
    bool         fold = !value_truth(c->arg[0]);
    if (v.type != VALUE_DICT)
        return jinja_fail_type(r, "dictsort needs a mapping", v);
    if (!str_is(by, "key") && !str_is(by, "value"))
        return jinja_fail(r, "You can only sort by either \"key\" or \"value\"");
    struct list *list = pairs ? jinja_list(r, pairs->n * 2) : NULL;
    for (size_t i = 0; list && i < pairs->n && !r->status; i++) {
        struct value key = pairs->v[i].u.list->v[by.p[0] == 'v'];
        list->v[2 * i] = fold ? jinja_fold(r, key) : key;
        list->v[2 * i + 1] = pairs->v[i];
    }
    if (r->status)
        return value_none();
    jinja_sort(r, list->v, pairs->n, 2, order_first, value_truth(c->arg[2]) ? r : NULL);
    for (size_t i = 0; i < pairs->n; i++)
        pairs->v[i] = list->v[2 * i + 1];
    return value_list(pairs);
}

struct value filter_unique(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct list   *items = jinja_items(r, v);
    struct value  *pairs = items ? keyed(r, items, c->arg[1], value_truth(c->arg[0]), (struct value){0}) : NULL;
    struct dict   *seen = jinja_dict(r);
    struct builder kept = {0};
    for (size_t i = 0; pairs && i < items->n && !r->status; i++) {
        if (jinja_dict_get(r, seen, pairs[2 * i]))
            continue;
        jinja_dict_set(r, seen, pairs[2 * i], value_none());
        builder_add(r, &kept, pairs[2 * i + 1]);
    }
    return value_list(builder_list(r, &kept));
}

/* Tuples (key, items) with the names grouper and list, in the order of the keys. */
struct value filter_groupby(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct list   *items = jinja_items(r, v);
    bool           fold = !value_truth(c->arg[2]);
    struct value  *pairs = items ? keyed(r, items, c->arg[0], !fold, c->arg[1]) : NULL;
    struct builder groups = {0}, members = {0};
    if (!pairs)
        return value_none();
    jinja_sort(r, pairs, items->n, 2, order_first, NULL);
    for (size_t i = 0; i < items->n && builder_add(r, &members, pairs[2 * i + 1]); i++) {
        if (i + 1 < items->n && jinja_equal(r, pairs[2 * i], pairs[2 * i + 2]))
            continue;
        struct value key = fold ? jinja_path(r, members.list->v[0], c->arg[0], c->arg[1]) : pairs[2 * i];
        struct list *group = jinja_pair(r, key, value_list(members.list));
        if (group) {
            group->kind = LIST_GROUP;
            builder_add(r, &groups, value_tuple(group));
        }
        members = (struct builder){0};
    }
    return value_list(builder_list(r, &groups));
}

/* --- joining and cutting ----------------------------------------------------------------------------------------- */

struct value filter_join(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct list *items = jinja_items(r, v);
    struct str   glue = c->arg[0].type == VALUE_ABSENT ? STR("") : jinja_text(r, c->arg[0]);
    bool         escape = r->autoescape;
    struct buf   b;
    if (escape && c->arg[0].type != VALUE_ABSENT)
        glue = jinja_escaped(r, c->arg[0]);
    jinja_buf_init(r, &b);
    for (size_t i = 0; items && i < items->n && jinja_spend(r, 1); i++) {
        struct value item = items->v[i];
        if (c->arg[1].type != VALUE_ABSENT && c->arg[1].type != VALUE_NONE)
            item = jinja_path(r, item, c->arg[1], (struct value){0});
        struct str text = r->status ? STR("") : escape ? jinja_escaped(r, item) : jinja_text(r, item);
        buf_put(&b, glue.p, i ? glue.n : 0);
        buf_put(&b, text.p, text.n);
    }
    struct value made = jinja_take(r, &b);
    made.markup = escape;
    return made;
}

struct value filter_sum(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct list *items = jinja_items(r, v);
    struct value total = c->arg[1].type == VALUE_ABSENT ? value_int(0) : c->arg[1];
    for (size_t i = 0; items && i < items->n && jinja_spend(r, 1); i++) {
        struct value item = items->v[i];
        if (c->arg[0].type != VALUE_ABSENT && c->arg[0].type != VALUE_NONE)
            item = jinja_path(r, item, c->arg[0], (struct value){0});
        total = r->status ? total : jinja_arithmetic(r, TOKEN_ADD, total, item);
    }
    return total;
}

/* items[from, to) and `fill` copies of `with`, as a list. */
static struct value part(struct jinja_run *r, const struct list *items, size_t from, size_t to, size_t fill,
                         struct value with)
{
    struct list *list = jinja_list(r, to - from + fill);
    for (size_t i = 0; list && i < list->n; i++)
        list->v[i] = i < to - from ? items->v[from + i] : with;
    return value_list(list);
}

static bool given(struct value v)
{
    return v.type != VALUE_ABSENT && v.type != VALUE_NONE;
}

struct value filter_batch(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct list   *items = jinja_items(r, v);
    int64_t        n = jinja_arg_int(r, c->arg[0], 0);
    struct builder lists = {0};
    if (!items || r->status)
        return value_none();
    if (n == 0 && items->n) /* what Python's loop gives: an empty list, then all */
        builder_add(r, &lists, value_list(jinja_list(r, 0)));
    size_t each = n > 0 && (uint64_t)n < items->n ? (size_t)n : MAX(items->n, 1);
    for (size_t at = 0; at < items->n && !r->status; at += each) {
        size_t  end = MIN(at + each, items->n);
        int64_t missing = given(c->arg[1]) ? MAX(n - (int64_t)(end - at), 0) : 0;
        builder_add(r, &lists, part(r, items, at, end, (size_t)missing, c->arg[1]));
    }
    return value_list(builder_list(r, &lists));
}

/* n lists whose lengths differ by one at most; shorter ones get the filler. */
struct value filter_slice(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct list   *items = jinja_items(r, v);
    int64_t        n = jinja_arg_int(r, c->arg[0], 0);
    struct builder lists = {0};
    if (!items || r->status)
        return value_none();
    if (n == 0)
        return jinja_fail(r, "integer division or modulo by zero");
    if (n < 0)
        return value_list(jinja_list(r, 0));
    size_t each = items->n / (size_t)n, more = items->n % (size_t)n, at = 0;
    for (size_t i = 0; i < (size_t)n && !r->status; i++) {
        size_t end = at + each + (i < more);
        builder_add(r, &lists, part(r, items, at, end, given(c->arg[1]) && i >= more, c->arg[1]));
        at = end;
    }
    return value_list(builder_list(r, &lists));
}
