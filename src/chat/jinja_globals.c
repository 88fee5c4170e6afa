/* Global functions: those of Jinja, and raise_exception and strftime_now of Hugging Face. */
#include <stdio.h>
#include <time.h>

#include "base/num.h"
#include "chat/jinja_globals.h"
#include "chat/jinja_rows.h"
#include "chat/jinja_run.h"

#define GLOBAL(name) static struct value name(struct jinja_run *r, struct value self, const struct jinja_call *c)

/* The message stands as it is behind the place: templates write it for the user. */
GLOBAL(global_raise)
{
    struct str message = jinja_text(r, c->arg[0]);
    (void)self;
    return jinja_fail(r, STR_FMT, (int)MIN(message.n, ERROR_MSG_MAX), message.p);
}

GLOBAL(global_strftime)
{
    struct str format = jinja_arg_str(r, c->arg[0], STR(""));
    time_t     t = (time_t)r->now;
    struct tm  tm;
    struct buf z;
    char       text[4096];
    (void)self;
    if (r->status || !localtime_r(&t, &tm))
        return jinja_fail(r, "the time is out of range");
    jinja_buf_init(r, &z);
    for (size_t i = 0; i < format.n; i++) { /* %f, microseconds, is Python's own */
        bool directive = format.p[i] == '%' && i + 1 < format.n;
        if (directive && format.p[i + 1] == 'f')
            buf_puts(&z, "000000");
        else
            buf_put(&z, format.p + i, directive ? 2 : 1);
        i += directive;
    }
    buf_putc(&z, '|'); /* so that an empty result can be told from a failure */
    struct str filled = jinja_take(r, &z).u.s;
    char      *terminated = jinja_alloc(r, filled.n + 1);
    if (!terminated)
        return value_none();
    memcpy(terminated, filled.p, filled.n);
    terminated[filled.n] = '\0';
    if (memchr(terminated, '\0', filled.n))
        return jinja_fail(r, "embedded null character");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = strftime(text, sizeof text, terminated, &tm);
#pragma GCC diagnostic pop
    return n ? jinja_copy(r, (struct str){text, n - 1}) : jinja_fail(r, "the formatted time is too long");
}

GLOBAL(global_range)
{
    const struct jinja_args *a = c->args;
    int64_t                  v[3] = {0, 0, 1}, n;
    (void)self;
    if (!a->n || a->n > 3 || a->n_keywords)
        return jinja_fail(r, "range expected 1 to 3 arguments");
    for (size_t i = 0; i < a->n; i++) {
        if (!value_is_integral(a->v[i]))
            return jinja_fail_type(r, "range() needs integers", a->v[i]);
        v[a->n == 1 ? 1 : i] = value_integral(a->v[i]);
    }
    if (!v[2])
        return jinja_fail(r, "range() arg 3 must not be zero");
    for (int i = 0; i < 3; i++)
        if (v[i] > INT64_MAX / 4 || v[i] < INT64_MIN / 4)
            return jinja_fail(r, "range() argument is too large");
    n = v[2] > 0 ? (v[1] > v[0] ? (v[1] - v[0] - 1) / v[2] + 1 : 0) : (v[0] > v[1] ? (v[0] - v[1] - 1) / -v[2] + 1 : 0);
    if (n > RANGE_MAX)
        return jinja_fail_limit(r, "100000 items of a range");
    struct range *g = jinja_alloc(r, sizeof *g);
    if (!g)
        return value_none();
    *g = (struct range){v[0], v[1], v[2], n};
    return (struct value){.type = VALUE_RANGE, .u.range = g};
}

/* What dict(...) gives: a mapping or pairs, then keywords. */
static struct dict *make_dict(struct jinja_run *r, const struct jinja_args *a)
{
    struct dict *d = jinja_dict(r);
    struct list *pairs = NULL;
    if (a->n > 1)
        jinja_fail(r, "dict expected at most 1 argument, got %zu", a->n);
    else if (a->n && (a->v[0].type == VALUE_DICT || a->v[0].type == VALUE_NAMESPACE))
        for (size_t i = 0; i < a->v[0].u.dict->n && !r->status; i++)
            jinja_dict_set(r, d, a->v[0].u.dict->v[i].key, a->v[0].u.dict->v[i].value);
    else if (a->n)
        pairs = jinja_items(r, a->v[0]);
    for (size_t i = 0; pairs && i < pairs->n && !r->status; i++) {
        struct list *pair = jinja_items(r, pairs->v[i]);
        if (pair && pair->n != 2)
            jinja_fail(r, "dictionary update sequence element #%zu has length %zu; 2 is required", i, pair->n);
        else if (pair)
            jinja_dict_set(r, d, pair->v[0], pair->v[1]);
    }
    for (size_t i = 0; i < a->n_keywords && !r->status; i++)
        jinja_dict_set(r, d, value_str(a->keywords[i].name), a->keywords[i].value);
    return r->status ? NULL : d;
}

GLOBAL(global_dict)
{
    (void)self;
    return value_dict(make_dict(r, c->args));
}

GLOBAL(global_namespace)
{
    struct dict *d = make_dict(r, c->args);
    (void)self;
    for (size_t i = 0; d && i < d->n; i++)
        if (jinja_private_name(d->v[i].key))
            return jinja_fail_private(r, d->v[i].key);
    return d ? (struct value){.type = VALUE_NAMESPACE, .u.dict = d} : value_none();
}

GLOBAL(global_cycler)
{
    struct cycler *cycler = jinja_alloc(r, sizeof *cycler);
    struct list   *items = jinja_list(r, c->args->n);
    (void)self;
    if (!cycler || !items)
        return value_none();
    if (!items->n || c->args->n_keywords)
        return jinja_fail(r, "at least one item has to be provided");
    memcpy(items->v, c->args->v, items->n * sizeof *items->v);
    *cycler = (struct cycler){.items = items};
    return (struct value){.type = VALUE_CYCLER, .u.cycler = cycler};
}

GLOBAL(global_joiner)
{
    struct joiner *joiner = jinja_alloc(r, sizeof *joiner);
    (void)self;
    if (!joiner)
        return value_none();
    *joiner = (struct joiner){.separator = c->arg[0].type == VALUE_ABSENT ? value_str(STR(", ")) : c->arg[0]};
    return (struct value){.type = VALUE_JOINER, .u.joiner = joiner};
}

static const struct jinja_row globals[] = {
    {"cycler", "*", global_cycler, false},
    {"dict", "*", global_dict, false},
    {"joiner", "sep?", global_joiner, false},
    {"lipsum", "n? html? min? max?", global_lipsum, false},
    {"namespace", "*", global_namespace, false},
    {"raise_exception", "message", global_raise, false},
    {"range", "*", global_range, false},
    {"strftime_now", "format", global_strftime, false},
    {NULL, NULL, NULL, false},
};

const struct jinja_row *jinja_global_row(struct str name)
{
    return jinja_find_row(globals, name);
}
