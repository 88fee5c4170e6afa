/* Slices of strings, bytes, lists, tuples and ranges. Contracts in jinja_run.h. */
#include "base/num.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

/* A bound of a slice over n items, clamped to [lo, hi]. */
static int64_t bound(struct jinja_run *r, struct value v, int64_t n, int64_t fallback, int64_t lo, int64_t hi)
{
    if (v.type == VALUE_NONE || v.type == VALUE_ABSENT)
        return fallback;
    if (v.type == VALUE_BIG)
        v = value_int(value_number(v) < 0 ? INT64_MIN / 2 : INT64_MAX / 2);
    if (!value_is_integral(v)) {
        jinja_fail_type(r, "slice indices must be integers or None", v);
        return 0;
    }
    int64_t i = value_integral(v);
    if (i < 0)
        i += n;
    return MIN(MAX(i, lo), hi);
}

static struct value slice_string(struct jinja_run *r, struct value s, int64_t from, int64_t step, int64_t n)
{
    struct buf b;
    if (!jinja_spend(r, s.u.s.n / 4))
        return value_none();
    if (step == 1) {
        size_t start = text_offset(s.u.s, (size_t)from);
        size_t len = text_offset(text_slice(s.u.s, start, s.u.s.n), (size_t)n);
        return value_markup(text_slice(s.u.s, start, start + len), s.markup);
    }
    struct list *chars = jinja_items(r, s);
    jinja_buf_init(r, &b);
    for (int64_t i = 0; chars && i < n; i++)
        buf_put(&b, chars->v[from + i * step].u.s.p, chars->v[from + i * step].u.s.n);
    struct value v = jinja_take(r, &b);
    v.markup = s.markup;
    return v;
}

static struct value slice_bytes(struct jinja_run *r, struct value s, int64_t from, int64_t step, int64_t n)
{
    struct buf b;
    jinja_buf_init(r, &b);
    for (int64_t i = 0; i < n; i++)
        buf_putc(&b, s.u.s.p[from + i * step]);
    struct value v = jinja_take(r, &b);
    v.type = VALUE_BYTES;
    return v;
}

static struct value slice_range(struct jinja_run *r, const struct range *of, int64_t from, int64_t to, int64_t step,
                                int64_t n)
{
    struct range *g = jinja_alloc(r, sizeof *g);
    if (!g)
        return value_none();
    *g = (struct range){.n = n};
    if (!num_mul(from, of->step, &g->start) || !num_add(of->start, g->start, &g->start) ||
        !num_mul(to, of->step, &g->stop) || !num_add(of->start, g->stop, &g->stop) ||
        !num_mul(step, of->step, &g->step))
        return jinja_fail_limit(r, "64 bits of a range");
    return (struct value){.type = VALUE_RANGE, .u.range = g};
}

static struct value slice_list(struct jinja_run *r, struct value object, int64_t from, int64_t step, int64_t n)
{
    struct list *list = step == 1 ? jinja_alloc(r, sizeof *list) : jinja_list(r, (size_t)n);
    if (!list)
        return value_none();
    if (step == 1)
        *list = (struct list){.n = (size_t)n, .v = n ? object.u.list->v + from : NULL}; /* lists never change */
    for (int64_t i = 0; step != 1 && i < n; i++)
        list->v[i] = object.u.list->v[from + i * step];
    return object.type == VALUE_LIST ? value_list(list) : value_tuple(list);
}

/* The step of a slice; 0 is a fault already set. */
static int64_t step_of(struct jinja_run *r, struct value step)
{
    if (step.type == VALUE_NONE || step.type == VALUE_ABSENT)
        return 1;
    if (step.type == VALUE_BIG)
        return value_number(step) < 0 ? -INT32_MAX : INT32_MAX;
    if (!value_is_integral(step))
        jinja_fail_type(r, "slice indices must be integers or None", step);
    else if (!value_integral(step))
        jinja_fail(r, "slice step cannot be zero");
    return r->status ? 0 : MIN(MAX(value_integral(step), -INT32_MAX), INT32_MAX);
}

static bool can_be_sliced(struct jinja_run *r, struct value v)
{
    switch (v.type) {
    case VALUE_STRING:
    case VALUE_BYTES:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_RANGE:
        return true;
    case VALUE_UNDEFINED:
        jinja_fail_undefined(r, v);
        return false;
    case VALUE_DICT:
        jinja_fail(r, "unhashable type: 'slice'");
        return false;
    default:
        jinja_fail(r, "'%s' object is not subscriptable", value_type_name(v.type));
        return false;
    }
}

struct value jinja_slice(struct jinja_run *r, struct value object, struct value from, struct value to,
                         struct value step)
{
    int64_t by = can_be_sliced(r, object) ? step_of(r, step) : 0, n, start, stop;
    size_t  length = 0;
    if (!by)
        return value_none();
    jinja_length(object, &length);
    n = (int64_t)length;
    start = by > 0 ? bound(r, from, n, 0, 0, n) : bound(r, from, n, n - 1, -1, n - 1);
    stop = by > 0 ? bound(r, to, n, n, 0, n) : bound(r, to, n, -1, -1, n - 1);
    n = by > 0 ? (stop > start ? (stop - start - 1) / by + 1 : 0) : (start > stop ? (start - stop - 1) / -by + 1 : 0);
    if (r->status)
        return value_none();
    if (object.type == VALUE_STRING)
        return slice_string(r, object, n ? start : 0, by, n);
    if (object.type == VALUE_BYTES)
        return slice_bytes(r, object, start, by, n);
    if (object.type == VALUE_RANGE)
        return slice_range(r, object.u.range, start, stop, by, n);
    return slice_list(r, object, start, by, n);
}
