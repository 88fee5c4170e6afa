/* Methods of strings that work by tables: translate and maketrans, format_map, and what only markup has. Contracts in
 * jinja_methods.h. */
#include "chat/jinja_filters.h"
#include "chat/jinja_methods.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

/* --- maketrans, translate ---------------------------------------------------------------------------------------- */

static struct value code_point(struct value s)
{
    uint32_t cp;
    text_next(s.u.s, 0, &cp);
    return value_int(cp);
}

/* A mapping whose keys are characters or their numbers. */
static struct value table_of_dict(struct jinja_run *r, struct value v)
{
    struct dict *d = jinja_dict(r);
    if (v.type != VALUE_DICT)
        return jinja_fail_type(r, "if you give only one argument to maketrans it must be a dict", v);
    for (size_t i = 0; i < v.u.dict->n && !r->status; i++) {
        struct value key = v.u.dict->v[i].key;
        bool         text = key.type == VALUE_STRING;
        if (text ? text_count(key.u.s) != 1 : !value_is_int(key))
            return jinja_fail(r, "keys in translate table must be strings of length 1 or integers");
        jinja_dict_set(r, d, text ? code_point(key) : key, v.u.dict->v[i].value);
    }
    return value_dict(d);
}

struct value string_maketrans(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    struct dict *d = jinja_dict(r);
    (void)self;
    if (c->arg[1].type == VALUE_ABSENT)
        return table_of_dict(r, c->arg[0]);
    struct str from = jinja_arg_str(r, c->arg[0], STR("")), to = jinja_arg_str(r, c->arg[1], STR(""));
    struct str gone = jinja_arg_str(r, c->arg[2], STR(""));
    uint32_t   a, b;
    if (text_count(from) != text_count(to))
        return jinja_fail(r, "the first two maketrans arguments must have equal length");
    for (size_t i = 0, j = 0; i < from.n && !r->status; i += text_next(from, i, &a), j += text_next(to, j, &b)) {
        text_next(from, i, &a);
        text_next(to, j, &b);
        jinja_dict_set(r, d, value_int(a), value_int(b));
    }
    for (size_t i = 0; i < gone.n && !r->status;) {
        i += text_next(gone, i, &a);
        jinja_dict_set(r, d, value_int(a), value_none());
    }
    return value_dict(d);
}

static void put_translated(struct jinja_run *r, struct buf *b, struct value to, uint32_t cp)
{
    if (to.type == VALUE_UNDEFINED)
        text_put(b, cp);
    else if (to.type == VALUE_STRING)
        buf_put(b, to.u.s.p, to.u.s.n);
    else if (value_is_integral(to) && value_integral(to) >= 0 && value_integral(to) <= 0x10ffff)
        text_put(b, (uint32_t)value_integral(to));
    else if (to.type != VALUE_NONE)
        jinja_fail(r, "character mapping must return integer, None or str");
}

struct value string_translate(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    struct value table = c->arg[0];
    uint32_t     cp;
    struct buf   b;
    if (table.type != VALUE_DICT && table.type != VALUE_LIST && table.type != VALUE_TUPLE && table.type != VALUE_STRING)
        return self.u.s.n ? jinja_fail_type(r, "translate needs a table", table) : self;
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < self.u.s.n && !b.failed && jinja_spend(r, 1);) {
        i += text_next(self.u.s, i, &cp);
        put_translated(r, &b, jinja_item(r, table, value_int(cp)), cp);
    }
    struct value v = jinja_take(r, &b);
    v.markup = self.markup;
    return v;
}

struct value string_format_map(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    struct jinja_args  args = {0};
    const struct dict *d = c->arg[0].type == VALUE_DICT ? c->arg[0].u.dict : NULL;
    if (d && !(args.keywords = jinja_alloc(r, d->n * sizeof *args.keywords)))
        return value_none();
    for (size_t i = 0; d && i < d->n; i++)
        if (d->v[i].key.type == VALUE_STRING)
            args.keywords[args.n_keywords++] = (struct jinja_keyword){d->v[i].key.u.s, d->v[i].value};
    return jinja_format(r, self, &args);
}

/* --- markup ------------------------------------------------------------------------------------------------------ */

static struct value markup_escape(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    (void)self;
    return filter_escape(r, c->arg[0], c);
}

static struct value markup_unescape(struct jinja_run *r, struct value self, const struct jinja_call *c)
{
    struct buf b;
    (void)c;
    jinja_spend(r, self.u.s.n / 8);
    jinja_buf_init(r, &b);
    jinja_put_unescaped(&b, self.u.s);
    return jinja_take(r, &b);
}

const struct jinja_row jinja_markup_methods[] = {
    {"escape", "s", markup_escape, false},
    {"striptags", "", filter_striptags, false},
    {"unescape", "", markup_unescape, false},
    {NULL, NULL, NULL, false},
};
