/* Values as text: Python's str and repr, and json.dumps. Contracts in jinja_run.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/utf8.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

/* The shortest digits that read back as d, placed as Python does: an exponent below 1e-4 and from 1e16 on. */
void jinja_put_float(struct buf *b, double d)
{
    char digits[40], *e;
    int  exponent, precision = 0;
    if (!isfinite(d)) {
        buf_puts(b, isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
        return;
    }
    do
        snprintf(digits, sizeof digits, "%.*e", precision, d);
    while (strtod(digits, NULL) != d && precision++ < 17);
    e = strchr(digits, 'e');
    exponent = atoi(e + 1);
    if (exponent < -4 || exponent >= 16) {
        *e = '\0';
        buf_printf(b, "%se%c%02d", digits, exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    buf_printf(b, "%.*f", MAX(precision - exponent, 1), d);
}

/* --- repr -------------------------------------------------------------------------------------------------------- */

static void put_repr_str(struct buf *b, struct str s)
{
    char     quote = s.n && memchr(s.p, '\'', s.n) && !memchr(s.p, '"', s.n) ? '"' : '\'';
    uint32_t cp;
    buf_putc(b, quote);
    for (size_t i = 0; i < s.n;) {
        size_t n = text_next(s, i, &cp);
        if (cp == (uint32_t)quote || cp == '\\')
            buf_printf(b, "\\%c", (char)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            buf_puts(b, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
        else if (text_is_printable(cp))
            buf_put(b, s.p + i, n);
        else
            buf_printf(b, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)cp);
        i += n;
    }
    buf_putc(b, quote);
}

static void put_sequence(struct jinja_run *r, struct buf *b, const struct list *list, const char *open,
                         const char *close)
{
    buf_puts(b, open);
    for (size_t i = 0; i < list->n && !r->status && !b->failed; i++) {
        if (i)
            buf_puts(b, ", ");
        jinja_put_repr(r, b, list->v[i]);
    }
    buf_puts(b, close);
}

static void put_dict(struct jinja_run *r, struct buf *b, const struct dict *d)
{
    buf_putc(b, '{');
    for (size_t i = 0; i < d->n && !r->status && !b->failed; i++) {
        if (i)
            buf_puts(b, ", ");
        jinja_put_repr(r, b, d->v[i].key);
        buf_puts(b, ": ");
        jinja_put_repr(r, b, d->v[i].value);
    }
    buf_putc(b, '}');
}

static void put_range(struct buf *b, const struct range *g)
{
    buf_printf(b, "range(%lld, %lld", (long long)g->start, (long long)g->stop);
    if (g->step != 1)
        buf_printf(b, ", %lld", (long long)g->step);
    buf_putc(b, ')');
}

static void put_other(struct jinja_run *r, struct buf *b, struct value v)
{
    switch (v.type) {
    case VALUE_LIST:
        put_sequence(r, b, v.u.list, "[", "]");
        break;
    case VALUE_TUPLE:
        put_sequence(r, b, v.u.list, "(", v.u.list->n == 1 ? ",)" : ")");
        break;
    case VALUE_DICT:
        put_dict(r, b, v.u.dict);
        break;
    case VALUE_VIEW:
        put_sequence(r, b, v.u.list,
                     v.u.list->kind == LIST_KEYS     ? "dict_keys(["
                     : v.u.list->kind == LIST_VALUES ? "dict_values(["
                                                     : "dict_items([",
                     "])");
        break;
    case VALUE_RANGE:
        put_range(b, v.u.range);
        break;
    case VALUE_NAMESPACE:
        buf_puts(b, "<Namespace ");
        put_dict(r, b, v.u.dict);
        buf_putc(b, '>');
        break;
    case VALUE_MACRO:
        if (v.u.macro->node->kind == NODE_MACRO)
            buf_printf(b, "<Macro '" STR_FMT "'>", STR_ARG(v.u.macro->node->name));
        else
            buf_puts(b, "<Macro anonymous>");
        break;
    case VALUE_LOOP:
        buf_printf(b, "<LoopContext %zu/%zu>", v.u.loop->at + 1, v.u.loop->items->n);
        break;
    case VALUE_BYTES:
        jinja_spend(r, v.u.s.n / 8);
        jinja_put_bytes(b, v.u.s);
        break;
    default:
        buf_printf(b, "<%s>", value_owner_name(v.type));
    }
}

void jinja_put_repr(struct jinja_run *r, struct buf *b, struct value v)
{
    if (!jinja_enter(r))
        return;
    switch (v.type) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
        buf_puts(b, "Undefined");
        break;
    case VALUE_NONE:
        buf_puts(b, "None");
        break;
    case VALUE_BOOL:
        buf_puts(b, v.u.b ? "True" : "False");
        break;
    case VALUE_INT:
    case VALUE_BIG:
        buf_puts(b, value_number(v) < 0 ? "-" : "");
        jinja_put_int(r, b, v, 10, false);
        break;
    case VALUE_FLOAT:
        jinja_put_float(b, v.u.d);
        break;
    case VALUE_STRING:
        buf_puts(b, v.markup ? "Markup(" : "");
        put_repr_str(b, v.u.s);
        buf_puts(b, v.markup ? ")" : "");
        jinja_spend(r, v.u.s.n / 8);
        break;
    default:
        put_other(r, b, v);
    }
    jinja_leave(r);
}

void jinja_put_str(struct jinja_run *r, struct buf *b, struct value v)
{
    if (v.type == VALUE_STRING)
        buf_put(b, v.u.s.p, v.u.s.n);
    else if (v.type != VALUE_UNDEFINED)
        jinja_put_repr(r, b, v);
}

struct value jinja_str(struct jinja_run *r, struct value v)
{
    struct buf b;
    if (v.type == VALUE_STRING)
        return v;
    jinja_buf_init(r, &b);
    jinja_put_str(r, &b, v);
    return jinja_take(r, &b);
}

struct str jinja_text(struct jinja_run *r, struct value v)
{
    struct value s = jinja_str(r, v);
    return s.type == VALUE_STRING ? s.u.s : (struct str){"", 0};
}

void jinja_put_escaped(struct buf *b, struct str s)
{
    static const char        special[] = "&<>'\"";
    static const char *const as[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    for (size_t i = 0; i < s.n; i++) {
        const char *c = s.p[i] ? strchr(special, s.p[i]) : NULL;
        if (c)
            buf_puts(b, as[c - special]);
        else
            buf_putc(b, s.p[i]);
    }
}

struct str jinja_escaped(struct jinja_run *r, struct value v)
{
    struct buf b;
    struct str s = jinja_text(r, v);
    if (v.type == VALUE_STRING && v.markup)
        return s;
    jinja_buf_init(r, &b);
    jinja_put_escaped(&b, s);
    return jinja_take(r, &b).u.s;
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

static void put_json_str(struct jinja_run *r, struct buf *b, struct str s, bool ascii)
{
    static const char plain[] = "\"\\\n\r\t\b\f", as[] = "\"\\nrtbf";
    uint32_t          cp;
    buf_putc(b, '"');
    jinja_spend(r, s.n / 8);
    for (size_t i = 0; i < s.n;) {
        size_t      n = text_next(s, i, &cp);
        const char *c = cp && cp < 0x80 ? strchr(plain, (int)cp) : NULL;
        if (c)
            buf_printf(b, "\\%c", as[c - plain]);
        else if (cp < 0x20 || (ascii && cp >= 0x7f && cp < 0x10000))
            buf_printf(b, "\\u%04x", (unsigned)cp);
        else if (ascii && cp >= 0x10000)
            buf_printf(b, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (cp >> 10)), (unsigned)(0xdc00 | (cp & 0x3ff)));
        else
            buf_put(b, s.p + i, n);
        i += n;
    }
    buf_putc(b, '"');
}

static void put_json_scalar(struct jinja_run *r, struct buf *b, struct value v)
{
    if (v.type == VALUE_INT || v.type == VALUE_BIG)
        jinja_put_repr(r, b, v);
    else if (v.type == VALUE_FLOAT && !isfinite(v.u.d))
        buf_puts(b, isnan(v.u.d) ? "NaN" : v.u.d < 0 ? "-Infinity" : "Infinity");
    else if (v.type == VALUE_FLOAT)
        jinja_put_float(b, v.u.d);
    else
        buf_puts(b, v.type == VALUE_NONE ? "null" : v.u.b ? "true" : "false");
}

static void new_line(struct buf *b, const struct json_style *style, int level)
{
    if (!style->lines)
        return;
    buf_putc(b, '\n');
    for (int i = 0; i < level; i++)
        buf_put(b, style->indent.p, style->indent.n);
}

static void put_json(struct jinja_run *r, struct buf *b, struct value v, const struct json_style *style, int level);

static void put_json_list(struct jinja_run *r, struct buf *b, const struct list *list, const struct json_style *style,
                          int level)
{
    buf_putc(b, '[');
    for (size_t i = 0; i < list->n && !r->status && !b->failed; i++) {
        if (i)
            buf_put(b, style->item.p, style->item.n);
        new_line(b, style, level + 1);
        put_json(r, b, list->v[i], style, level + 1);
    }
    if (list->n)
        new_line(b, style, level);
    buf_putc(b, ']');
}

static int order_keys(struct jinja_run *r, const struct value *a, const struct value *b, void *ctx)
{
    (void)ctx;
    return jinja_order(r, *a, *b, "<");
}

/* Keys and values in turn, sorted by key. */
static const struct value *sorted_pairs(struct jinja_run *r, const struct dict *d)
{
    struct list *list = jinja_list(r, d->n * 2);
    if (!list)
        return NULL;
    for (size_t i = 0; i < d->n; i++) {
        list->v[2 * i] = d->v[i].key;
        list->v[2 * i + 1] = d->v[i].value;
    }
    jinja_sort(r, list->v, d->n, 2, order_keys, NULL);
    return list->v;
}

static void put_json_dict(struct jinja_run *r, struct buf *b, const struct dict *d, const struct json_style *style,
                          int level)
{
    const struct value *sorted = style->sort && d->n ? sorted_pairs(r, d) : NULL;
    buf_putc(b, '{');
    for (size_t i = 0; i < d->n && !r->status && !b->failed; i++) {
        struct value key = sorted ? sorted[2 * i] : d->v[i].key;
        if (i)
            buf_put(b, style->item.p, style->item.n);
        new_line(b, style, level + 1);
        if (key.type == VALUE_STRING)
            put_json_str(r, b, key.u.s, style->ascii);
        else if (key.type == VALUE_NONE || value_is_number(key)) {
            buf_putc(b, '"');
            put_json_scalar(r, b, key);
            buf_putc(b, '"');
        } else
            jinja_fail(r, "keys must be str, int, float, bool or None, not %s", value_type_name(key.type));
        buf_put(b, style->key.p, style->key.n);
        put_json(r, b, sorted ? sorted[2 * i + 1] : d->v[i].value, style, level + 1);
    }
    if (d->n)
        new_line(b, style, level);
    buf_putc(b, '}');
}

static void put_json(struct jinja_run *r, struct buf *b, struct value v, const struct json_style *style, int level)
{
    if (!jinja_enter(r))
        return;
    switch (v.type) {
    case VALUE_NONE:
    case VALUE_BOOL:
    case VALUE_INT:
    case VALUE_BIG:
    case VALUE_FLOAT:
        put_json_scalar(r, b, v);
        break;
    case VALUE_STRING:
        put_json_str(r, b, v.u.s, style->ascii);
        break;
    case VALUE_LIST:
    case VALUE_TUPLE:
        put_json_list(r, b, v.u.list, style, level);
        break;
    case VALUE_DICT:
        put_json_dict(r, b, v.u.dict, style, level);
        break;
    default:
        jinja_fail(r, "Object of type %s is not JSON serializable", value_type_name(v.type));
    }
    jinja_leave(r);
}

void jinja_put_json(struct jinja_run *r, struct buf *b, struct value v, const struct json_style *style)
{
    put_json(r, b, v, style, 0);
}
