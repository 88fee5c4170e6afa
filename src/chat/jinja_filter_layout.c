/* Filters that lay text out: indent, center, wrap, truncate; and the JSON dumper. */
#include "base/num.h"
#include "chat/jinja_filters.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

static struct str blanks(struct jinja_run *r, int64_t n)
{
    struct buf b;
    jinja_buf_init(r, &b);
    if (n > 0 && (uint64_t)n > r->limits.memory)
        jinja_fail_memory(r, true);
    for (; n > 0 && !r->status; n--)
        buf_putc(&b, ' ');
    return jinja_take(r, &b).u.s;
}

/* A newline is added before the lines are split, so a trailing newline stays and gets no prefix. */
struct value filter_indent(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct value width = c->arg[0];
    struct value s = jinja_str(r, v);
    bool         first = value_truth(c->arg[1]), blank = value_truth(c->arg[2]);
    struct str   prefix;
    struct buf   b;
    if (v.type != VALUE_STRING)
        return jinja_fail_type(r, "indent needs a string", v);
    prefix = width.type == VALUE_STRING ? width.u.s : blanks(r, jinja_arg_int(r, width, 4));
    if (r->status || !jinja_spend(r, s.u.s.n / 8))
        return value_none();
    jinja_buf_init(r, &b);
    if (first)
        buf_put(&b, prefix.p, prefix.n);
    for (size_t at = 0, next, n = 0; at < s.u.s.n || n == 0; at = next, n++) {
        size_t end = text_line_end(s.u.s, at, &next);
        if (n)
            buf_putc(&b, '\n');
        if (n && (blank || end > at))
            buf_put(&b, prefix.p, prefix.n);
        buf_put(&b, s.u.s.p + at, end - at);
        if (next >= s.u.s.n && next > end) { /* it ends with a line break */
            buf_putc(&b, '\n');
            if (blank)
                buf_put(&b, prefix.p, prefix.n);
        }
    }
    struct value made = jinja_take(r, &b);
    made.markup = s.markup;
    return made;
}

struct value filter_center(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct value s = jinja_str(r, v);
    int64_t      width = jinja_arg_int(r, c->arg[0], 80), n, left;
    struct buf   b;
    if (r->status)
        return value_none();
    n = width - (int64_t)text_count(s.u.s);
    if (n <= 0)
        return s;
    left = n / 2 + (n & width & 1);
    struct str before = blanks(r, left), after = blanks(r, n - left);
    jinja_buf_init(r, &b);
    buf_put(&b, before.p, before.n);
    buf_put(&b, s.u.s.p, s.u.s.n);
    buf_put(&b, after.p, after.n);
    struct value made = jinja_take(r, &b);
    made.markup = s.markup;
    return made;
}

struct value filter_truncate(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct value s = jinja_str(r, v);
    int64_t      length = jinja_arg_int(r, c->arg[0], 255), leeway = jinja_arg_int(r, c->arg[3], 5), keep;
    struct str   end = jinja_arg_str(r, c->arg[2], STR("..."));
    struct buf   b;
    if (r->status || !jinja_spend(r, s.u.s.n / 8))
        return value_none();
    keep = length - (int64_t)text_count(end);
    if (keep < 0 || leeway < 0)
        return jinja_fail(r, keep < 0 ? "expected length >= %zu" : "expected leeway >= 0", text_count(end));
    if ((int64_t)text_count(s.u.s) - leeway <= length)
        return s;
    struct str cut = text_slice(s.u.s, 0, text_offset(s.u.s, (size_t)keep));
    if (!value_truth(c->arg[1])) {
        long blank = text_rfind(cut, STR(" "));
        if (blank >= 0)
            cut.n = (size_t)blank;
    }
    jinja_buf_init(r, &b);
    buf_put(&b, cut.p, cut.n);
    buf_put(&b, end.p, end.n);
    return jinja_take(r, &b);
}

struct value filter_wordcount(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct str s = jinja_text(r, v);
    int64_t    n = 0;
    bool       inside = false;
    uint32_t   cp;
    (void)c;
    jinja_spend(r, s.n / 8);
    for (size_t i = 0; i < s.n;) {
        i += text_next(s, i, &cp);
        bool word = cp == '_' || text_is_alpha(cp) || text_is_numeric(cp);
        n += word && !inside;
        inside = word;
    }
    return value_int(n);
}

/* --- wordwrap ---------------------------------------------------------------------------------------------------- */

struct wrap {
    struct buf out;
    struct str glue;
    size_t     width, column; /* code points; column of the current line */
    bool       cut_long, hyphens, any;
};

static void wrap_break(struct wrap *w)
{
    buf_put(&w->out, w->glue.p, w->glue.n);
    w->column = 0;
}

/* A chunk is a run of blanks, or a word (up to a hyphen inside it). */
static size_t chunk_end(const struct wrap *w, struct str s, size_t at)
{
    uint32_t cp, next;
    bool     space;
    size_t   start = at;
    text_next(s, at, &cp);
    space = text_is_space(cp);
    while (at < s.n) {
        size_t n = text_next(s, at, &cp);
        if (text_is_space(cp) != space)
            break;
        at += n;
        if (w->hyphens && cp == '-' && at < s.n && at - start > 1 && text_next(s, at, &next) && text_is_alpha(next))
            break;
    }
    return at;
}

static void wrap_chunk(struct wrap *w, struct str chunk)
{
    size_t n = text_count(chunk);
    if (w->column && w->column + n > w->width) {
        struct str kept = text_strip(buf_str(&w->out), NULL, TEXT_RIGHT); /* blanks at a line's end go */
        w->out.n = kept.n;
        wrap_break(w);
        chunk = text_strip(chunk, NULL, TEXT_LEFT);
        n = text_count(chunk);
    }
    while (w->cut_long && n > w->width) {
        size_t cut = text_offset(chunk, w->width);
        buf_put(&w->out, chunk.p, cut);
        chunk = text_slice(chunk, cut, chunk.n);
        n -= w->width;
        wrap_break(w);
    }
    buf_put(&w->out, chunk.p, chunk.n);
    w->column += n;
}

struct value filter_wordwrap(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct str  s = jinja_text(r, v);
    int64_t     width = jinja_arg_int(r, c->arg[0], 79);
    struct wrap w = {.glue = STR("\n"), .cut_long = true, .hyphens = true};
    if (c->arg[1].type != VALUE_ABSENT)
        w.cut_long = value_truth(c->arg[1]);
    if (c->arg[2].type == VALUE_STRING)
        w.glue = c->arg[2].u.s;
    if (c->arg[3].type != VALUE_ABSENT)
        w.hyphens = value_truth(c->arg[3]);
    if (width < 1)
        return jinja_fail(r, "invalid width %lld (must be > 0)", (long long)width);
    w.width = (size_t)width;
    jinja_buf_init(r, &w.out);
    for (size_t at = 0, next = 0; at < s.n && !w.out.failed; at = next) {
        struct str line = text_slice(s, at, text_line_end(s, at, &next));
        if (at)
            wrap_break(&w);
        for (size_t i = 0, end; i < line.n && jinja_spend(r, 1); i = end) {
            end = chunk_end(&w, line, i);
            wrap_chunk(&w, text_slice(line, i, end));
        }
    }
    return jinja_take(r, &w.out);
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

struct value filter_tojson(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct json_style style = {.ascii = value_truth(c->arg[0]), .sort = value_truth(c->arg[3])};
    struct value      indent = c->arg[1], separators = c->arg[2];
    struct buf        b;
    style.lines = indent.type != VALUE_ABSENT && indent.type != VALUE_NONE;
    style.indent = indent.type == VALUE_STRING ? indent.u.s : blanks(r, jinja_arg_int(r, indent, 0));
    style.item = style.lines ? STR(",") : STR(", ");
    style.key = STR(": ");
    if (value_truth(separators)) {
        struct list *pair = jinja_items(r, separators);
        if (!pair || pair->n != 2 || pair->v[0].type != VALUE_STRING || pair->v[1].type != VALUE_STRING)
            return jinja_fail(r, "separators must be two strings");
        style.item = pair->v[0].u.s;
        style.key = pair->v[1].u.s;
    }
    jinja_buf_init(r, &b);
    jinja_put_json(r, &b, v, &style);
    return jinja_take(r, &b);
}

/* The members of a mapping as attributes; none and undefined ones are left out. */
struct value filter_xmlattr(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct buf b;
    if (v.type != VALUE_DICT)
        return jinja_fail_type(r, "xmlattr needs a mapping", v);
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < v.u.dict->n && jinja_spend(r, 1); i++) {
        const struct dict_entry *entry = &v.u.dict->v[i];
        struct str               key = jinja_text(r, entry->key);
        if (entry->value.type == VALUE_NONE || entry->value.type == VALUE_UNDEFINED)
            continue;
        for (size_t k = 0; k < key.n; k++)
            if (key.p[k] == '/' || key.p[k] == '>' || key.p[k] == '=' || text_is_space((unsigned char)key.p[k]))
                jinja_fail(r, "Invalid character in attribute name");
        if (b.n || c->arg[0].type == VALUE_ABSENT || value_truth(c->arg[0]))
            buf_putc(&b, ' ');
        jinja_put_escaped(&b, key);
        buf_puts(&b, "=\"");
        jinja_put_escaped(&b, jinja_text(r, entry->value));
        buf_putc(&b, '"');
    }
    return jinja_take(r, &b);
}
