/* The filter pprint: Python's pprint.pformat with its defaults. A value is written as its repr, dicts sorted by key; what
 * does not fit on a line of 80 is broken up, one item a line, and long strings into several literals at line ends and
 * blanks.
 */
#include "base/num.h"
#include "chat/jinja_filters.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

#define WIDTH 80

struct pretty {
    struct jinja_run *r;
    struct buf       *out;
};

static void put(const struct pretty *p, struct str s)
{
    buf_put(p->out, s.p, s.n);
}

static void new_line(const struct pretty *p, int64_t indent)
{
    buf_putc(p->out, '\n');
    jinja_spend(p->r, (size_t)indent / 8);
    for (; indent > 0; indent--)
        buf_putc(p->out, ' ');
}

/* Keys that cannot be compared are ordered by the names of their types. */
static int order_keys(struct jinja_run *r, const struct value *a, const struct value *b, void *ctx)
{
    bool alike = (a->type == VALUE_STRING && b->type == VALUE_STRING) || (value_is_number(*a) && value_is_number(*b)) ||
                 (a->type == VALUE_TUPLE && b->type == VALUE_TUPLE);
    (void)ctx;
    if (alike)
        return jinja_order(r, *a, *b, "<");
    return strcmp(value_type_name(a->type), value_type_name(b->type));
}

/* Keys and values in turn, by key. */
static struct list *sorted(struct jinja_run *r, const struct dict *d)
{
    struct list *pairs = jinja_list(r, d->n * 2);
    for (size_t i = 0; pairs && i < d->n; i++) {
        pairs->v[2 * i] = d->v[i].key;
        pairs->v[2 * i + 1] = d->v[i].value;
    }
    if (pairs)
        jinja_sort(r, pairs->v, d->n, 2, order_keys, NULL);
    return pairs;
}

static void put_line(const struct pretty *p, struct value v);

static void put_line_dict(const struct pretty *p, const struct dict *d)
{
    const struct list *pairs = sorted(p->r, d);
    buf_putc(p->out, '{');
    for (size_t i = 0; pairs && i < pairs->n && !p->r->status; i += 2) {
        buf_puts(p->out, i ? ", " : "");
        put_line(p, pairs->v[i]);
        buf_puts(p->out, ": ");
        put_line(p, pairs->v[i + 1]);
    }
    buf_putc(p->out, '}');
}

/* repr(v) with dicts sorted. */
static void put_line(const struct pretty *p, struct value v)
{
    if (v.type != VALUE_LIST && v.type != VALUE_TUPLE && v.type != VALUE_DICT) {
        jinja_put_repr(p->r, p->out, v);
        return;
    }
    if (!jinja_enter(p->r))
        return;
    if (v.type == VALUE_DICT)
        put_line_dict(p, v.u.dict);
    else {
        buf_putc(p->out, v.type == VALUE_LIST ? '[' : '(');
        for (size_t i = 0; i < v.u.list->n && !p->r->status; i++) {
            buf_puts(p->out, i ? ", " : "");
            put_line(p, v.u.list->v[i]);
        }
        buf_puts(p->out, v.type == VALUE_LIST ? "]" : v.u.list->n == 1 ? ",)" : ")");
    }
    jinja_leave(p->r);
}

static struct str line_of(struct jinja_run *r, struct value v)
{
    struct buf    b;
    struct pretty p = {r, &b};
    jinja_buf_init(r, &b);
    put_line(&p, v);
    return jinja_take(r, &b).u.s;
}

/* --- long strings ------------------------------------------------------------------------------------------------ */

/* The end of a word and the blanks behind it. */
static size_t word_end(struct str s, size_t at)
{
    uint32_t cp;
    size_t   n;
    for (; at < s.n && (n = text_next(s, at, &cp)) && !text_is_space(cp); at += n)
        ;
    for (; at < s.n && (n = text_next(s, at, &cp)) && text_is_space(cp); at += n)
        ;
    return at;
}

static void add_chunk(struct jinja_run *r, struct builder *chunks, struct str s)
{
    builder_add(r, chunks, value_str(line_of(r, value_str(s))));
}

/* A line that is too long by itself: as many words in a literal as fit. */
static void break_line(struct jinja_run *r, struct builder *chunks, struct str line, int64_t width, int64_t last_width)
{
    size_t start = 0, end = 0;
    while (end < line.n && !r->status) {
        size_t  next = word_end(line, end);
        int64_t fits = next == line.n ? last_width : width;
        if ((int64_t)text_count(line_of(r, value_str(text_slice(line, start, next)))) > fits && end > start) {
            add_chunk(r, chunks, text_slice(line, start, end));
            start = end;
        }
        end = next;
    }
    if (end > start)
        add_chunk(r, chunks, text_slice(line, start, end));
}

static void put_string(const struct pretty *p, struct str s, int64_t indent, int64_t allowance, bool top)
{
    struct builder chunks = {0};
    struct str     repr = STR("''");
    indent += top;
    allowance += top;
    for (size_t at = 0, next; at < s.n && !p->r->status; at = next) {
        int64_t width = WIDTH - indent, last_width;
        text_line_end(s, at, &next);
        struct str line = text_slice(s, at, next);
        last_width = next == s.n ? width - allowance : width;
        repr = line_of(p->r, value_str(line));
        if ((int64_t)text_count(repr) <= last_width)
            builder_add(p->r, &chunks, value_str(repr));
        else
            break_line(p->r, &chunks, line, width, last_width);
    }
    struct list *list = builder_list(p->r, &chunks);
    if (!list || list->n < 2) {
        put(p, repr);
        return;
    }
    buf_puts(p->out, top ? "(" : "");
    for (size_t i = 0; i < list->n; i++) {
        if (i)
            new_line(p, indent);
        put(p, list->v[i].u.s);
    }
    buf_puts(p->out, top ? ")" : "");
}

/* --- containers -------------------------------------------------------------------------------------------------- */

static void put_value(const struct pretty *p, struct value v, int64_t indent, int64_t allowance, bool top);

/* allowance: columns that what closes the containers around needs on the last line. */
static void put_items(const struct pretty *p, struct value v, int64_t indent, int64_t allowance)
{
    const struct list *list = v.u.list;
    const char        *close = v.type == VALUE_LIST ? "]" : list->n == 1 ? ",)" : ")";
    buf_putc(p->out, v.type == VALUE_LIST ? '[' : '(');
    for (size_t i = 0; i < list->n && !p->r->status; i++) {
        if (i) {
            buf_putc(p->out, ',');
            new_line(p, indent + 1);
        }
        put_value(p, list->v[i], indent + 1, i + 1 == list->n ? allowance + (int64_t)strlen(close) : 1, false);
    }
    buf_puts(p->out, close);
}

static void put_dict(const struct pretty *p, const struct dict *d, int64_t indent, int64_t allowance)
{
    const struct list *pairs = sorted(p->r, d);
    buf_putc(p->out, '{');
    for (size_t i = 0; pairs && i < pairs->n && !p->r->status; i += 2) {
        struct str key = line_of(p->r, pairs->v[i]);
        if (i) {
            buf_putc(p->out, ',');
            new_line(p, indent + 1);
        }
        put(p, key);
        buf_puts(p->out, ": ");
        put_value(p, pairs->v[i + 1], indent + (int64_t)text_count(key) + 3, i + 2 == pairs->n ? allowance + 1 : 1,
                  false);
    }
    buf_putc(p->out, '}');
}

static void put_value(const struct pretty *p, struct value v, int64_t indent, int64_t allowance, bool top)
{
    struct str line = line_of(p->r, v);
    if (!jinja_enter(p->r))
        return;
    bool fits = (int64_t)text_count(line) <= WIDTH - indent - allowance;
    if (!fits && (v.type == VALUE_LIST || v.type == VALUE_TUPLE) && v.u.list->kind == LIST_PLAIN)
        put_items(p, v, indent, allowance);
    else if (!fits && v.type == VALUE_DICT)
        put_dict(p, v.u.dict, indent, allowance);
    else if (!fits && v.type == VALUE_STRING && !v.markup)
        put_string(p, v.u.s, indent, allowance, top);
    else
        put(p, line);
    jinja_leave(p->r);
}

struct value filter_pprint(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct buf    b;
    struct pretty p = {r, &b};
    (void)c;
    jinja_buf_init(r, &b);
    put_value(&p, v, 0, 0, true);
    return jinja_take(r, &b);
}
