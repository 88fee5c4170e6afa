/* Equality, order, membership and sorting as Python defines them. Contracts in jinja_run.h. */
#include "base/num.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

static bool equal_items(struct jinja_run *r, const struct list *a, const struct list *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n && !r->status; i++)
        if (!jinja_equal(r, a->v[i], b->v[i]))
            return false;
    return true;
}

static bool equal_dicts(struct jinja_run *r, const struct dict *a, const struct dict *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n && !r->status; i++) {
        struct value *other = jinja_dict_get(r, b, a->v[i].key);
        if (!other || !jinja_equal(r, a->v[i].value, *other))
            return false;
    }
    return true;
}

/* As sets: neither holds an item twice. Views of values are never equal. */
static bool equal_views(struct jinja_run *r, struct value a, struct value b)
{
    if (a.u.list->n != b.u.list->n || a.u.list->kind == LIST_VALUES || b.u.list->kind == LIST_VALUES)
        return false;
    for (size_t i = 0; i < a.u.list->n && !r->status; i++)
        if (!jinja_contains(r, b, a.u.list->v[i]))
            return false;
    return true;
}

bool jinja_equal(struct jinja_run *r, struct value a, struct value b)
{
    bool yes;
    if (value_is_number(a) || a.type <= VALUE_NONE || a.type == VALUE_STRING) {
        if (a.type == VALUE_STRING && b.type == VALUE_STRING)
            jinja_spend(r, MIN(a.u.s.n, b.u.s.n) / 64);
        return value_same_scalar(a, b);
    }
    if (a.type != b.type || !jinja_enter(r))
        return false;
    switch (a.type) {
    case VALUE_LIST:
    case VALUE_TUPLE:
        yes = equal_items(r, a.u.list, b.u.list);
        break;
    case VALUE_DICT:
        yes = equal_dicts(r, a.u.dict, b.u.dict);
        break;
    case VALUE_BYTES:
        yes = str_eq(a.u.s, b.u.s);
        break;
    case VALUE_VIEW:
        yes = a.u.list == b.u.list || equal_views(r, a, b);
        break;
    case VALUE_RANGE:
        yes = a.u.range->n == b.u.range->n &&
              (!a.u.range->n ||
               (a.u.range->start == b.u.range->start && (a.u.range->n == 1 || a.u.range->step == b.u.range->step)));
        break;
    case VALUE_SELF:
        yes = true;
        break;
    default:
        yes = a.u.dict == b.u.dict; /* objects equal only themselves */
    }
    jinja_leave(r);
    return yes;
}

static int sign(bool less, bool greater)
{
    return less ? -1 : greater;
}

static int order_text(struct str a, struct str b)
{
    size_t n = MIN(a.n, b.n);
    int    c = n ? memcmp(a.p, b.p, n) : 0; /* the order of code points is that of UTF-8's bytes */
    return c ? c : sign(a.n<b.n, a.n> b.n);
}

static int order_items(struct jinja_run *r, const struct list *a, const struct list *b, const char *op)
{
    for (size_t i = 0; i < a->n && i < b->n && !r->status; i++)
        if (!jinja_equal(r, a->v[i], b->v[i]))
            return jinja_order(r, a->v[i], b->v[i], op);
    return sign(a->n<b->n, a->n> b->n);
}

int jinja_order(struct jinja_run *r, struct value a, struct value b, const char *op)
{
    int c = 0;
    if (!jinja_enter(r))
        return 0;
    if (value_is_number(a) && value_is_number(b))
        c = value_order_numbers(a, b) % 2; /* nothing comes before or behind not a number */
    else if (a.type == b.type && (a.type == VALUE_STRING || a.type == VALUE_BYTES))
        c = jinja_spend(r, MIN(a.u.s.n, b.u.s.n) / 64) ? order_text(a.u.s, b.u.s) : 0;
    else if (a.type == b.type && (a.type == VALUE_LIST || a.type == VALUE_TUPLE))
        c = order_items(r, a.u.list, b.u.list, op);
    else if (a.type == VALUE_UNDEFINED || b.type == VALUE_UNDEFINED)
        jinja_fail_undefined(r, a.type == VALUE_UNDEFINED ? a : b);
    else
        jinja_fail(r, "'%s' not supported between instances of '%s' and '%s'", op, value_type_name(a.type),
                   value_type_name(b.type));
    jinja_leave(r);
    return c;
}

static bool unordered(struct value a, struct value b)
{
    return value_is_number(a) && value_is_number(b) && value_order_numbers(a, b) == 2;
}

bool jinja_contains(struct jinja_run *r, struct value container, struct value item)
{
    struct list *items;
    switch (container.type) {
    case VALUE_UNDEFINED:
        return false;
    case VALUE_STRING:
        if (item.type != VALUE_STRING)
            return jinja_fail_type(r, "'in <string>' requires string as left operand", item), false;
        return jinja_spend(r, container.u.s.n / 16) && text_find(container.u.s, item.u.s) >= 0;
    case VALUE_BYTES:
        if (item.type == VALUE_BYTES)
            return text_find(container.u.s, item.u.s) >= 0;
        if (!value_is_integral(item) || value_integral(item) < 0 || value_integral(item) > 255)
            return jinja_fail_type(r, "a byte or bytes-like object is required", item), false;
        return container.u.s.n && memchr(container.u.s.p, (int)value_integral(item), container.u.s.n);
    case VALUE_DICT:
        return jinja_dict_get(r, container.u.dict, item) != NULL;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
    case VALUE_RANGE:
    case VALUE_ITERATOR:
        if (!(items = jinja_items(r, container)))
            return false;
        for (size_t i = 0; i < items->n && jinja_spend(r, 1); i++)
            if (jinja_equal(r, items->v[i], item))
                return true;
        return false;
    default:
        jinja_fail(r, "argument of type '%s' is not iterable", value_type_name(container.type));
        return false;
    }
}

bool jinja_compare(struct jinja_run *r, enum token_type op, struct value a, struct value b)
{
    switch (op) {
    case TOKEN_EQ:
        return jinja_equal(r, a, b);
    case TOKEN_NE:
        return !jinja_equal(r, a, b);
    case TOKEN_IN:
        return jinja_contains(r, b, a);
    case TOKEN_NOT_IN:
        return !jinja_contains(r, b, a);
    case TOKEN_LT:
        return jinja_order(r, a, b, "<") < 0;
    case TOKEN_LE:
        return jinja_order(r, a, b, "<=") <= 0 && !unordered(a, b);
    case TOKEN_GT:
        return jinja_order(r, a, b, ">") > 0;
    default:
        return jinja_order(r, a, b, ">=") >= 0 && !unordered(a, b);
    }
}

/* Merges the sorted halves [0, mid) and [mid, n) of v through tmp. */
static void merge(struct jinja_run *r, struct value *v, struct value *tmp, size_t mid, size_t n, size_t width,
                  jinja_order_fn fn, void *ctx)
{
    size_t i = 0, j = mid, k = 0;
    while (i < mid && j < n) {
        bool left = fn(r, v + i * width, v + j * width, ctx) <= 0;
        memcpy(tmp + k++ * width, v + (left ? i : j) * width, width * sizeof *v);
        i += left;
        j += !left;
    }
    memcpy(tmp + k * width, v + i * width, (mid - i) * width * sizeof *v);
    memcpy(v, tmp, (k + mid - i) * width * sizeof *v);
}

static void sort(struct jinja_run *r, struct value *v, struct value *tmp, size_t n, size_t width, jinja_order_fn fn,
                 void *ctx)
{
    size_t mid = n / 2;
    if (n < 2 || r->status)
        return;
    sort(r, v, tmp, mid, width, fn, ctx);
    sort(r, v + mid * width, tmp, n - mid, width, fn, ctx);
    merge(r, v, tmp, mid, n, width, fn, ctx);
}

void jinja_sort(struct jinja_run *r, struct value *v, size_t n, size_t width, jinja_order_fn fn, void *ctx)
{
    struct value *tmp = n > 1 ? jinja_alloc(r, n * width * sizeof *tmp) : NULL;
    if (tmp)
        sort(r, v, tmp, n, width, fn, ctx);
}
