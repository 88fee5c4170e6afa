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
    struct value s = v;
    int64_t      length = jinja_arg_int(r, c->arg[0], 255), leeway = jinja_arg_int(r, c->arg[3], 5), keep;
    struct str   end = jinja_arg_str(r, c->arg[2], STR("..."));
    size_t       n;
    struct buf   b;
    if (r->status || (s.type == VALUE_STRING && !jinja_spend(r, s.u.s.n / 8)))
        return value_none();
    keep = length - (int64_t)text_count(end);
    if (keep < 0 || leeway < 0)
        return jinja_fail(r, keep < 0 ? "expected length >= %zu" : "expected leeway >= 0", text_count(end));
    if (!jinja_length(s, &n))
        return jinja_fail(r, "object of type '%s' has no len()", value_type_name(s.type));
    if ((int64_t)n - leeway <= length)
        return s;
    if (s.type != VALUE_STRING)
        return jinja_fail_type(r, "truncate needs a string", s);
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
    bool       cut_long, hyphens;
    bool       first; /* the first line of a paragraph, which keeps its blanks */
};

static bool is_blank(uint32_t cp)
{
    return cp == ' ' || (cp >= 0x09 && cp <= 0x0d);
}

/* Blanks at a line's end go. */
static void wrap_trim(struct wrap *w)
{
    while (w->column && w->out.n && is_blank((unsigned char)w->out.p[w->out.n - 1])) {
        w->out.n--;
        w->column--;
    }
}

static void wrap_break(struct wrap *w)
{
    wrap_trim(w);
    buf_put(&w->out, w->glue.p, w->glue.n);
    w->column = 0;
    w->first = false;
}

/* A chunk is a run of blanks, or a word (up to a hyphen inside it). */
static size_t chunk_end(const struct wrap *w, struct str s, size_t at)
{
    uint32_t cp, next;
    bool     space;
    size_t   start = at;
    text_next(s, at, &cp);
    space = is_blank(cp);
    while (at < s.n) {
        size_t n = text_next(s, at, &cp);
        if (is_blank(cp) != space)
            break;
        at += n;
        if (w->hyphens && cp == '-' && at < s.n && at - start > 1 && text_next(s, at, &next) && text_is_alpha(next))
            break;
    }
    return at;
}

/* Bytes of a long word that fill what is left of the line, up to a hyphen if there is one. */
static size_t word_cut(const struct wrap *w, struct str word)
{
    size_t cut = text_offset(word, w->width - MIN(w->column, w->width));
    long   hyphen = w->hyphens ? text_rfind(text_slice(word, 0, cut), STR("-")) : -1;
    return hyphen > 0 && word.p[0] != '-' ? (size_t)hyphen + 1 : cut;
}

static void wrap_chunk(struct wrap *w, struct str chunk)
{
    bool   blank = is_blank((unsigned char)chunk.p[0]);
    size_t n = text_count(chunk);
    while (chunk.n && !w->out.failed && (!blank || w->column || w->first)) {
        size_t cut = chunk.n, taken = n;
        bool   fits = w->column + n <= w->width;
        if (!fits && w->cut_long && n > w->width) {
            cut = word_cut(w, chunk);
            taken = text_count(text_slice(chunk, 0, cut));
        } else if (!fits && w->column)
            cut = taken = 0;
        buf_put(&w->out, chunk.p, cut);
        w->column += taken;
        n -= taken;
        chunk = text_slice(chunk, cut, chunk.n);
        if (chunk.n)
            wrap_break(w);
    }
}

struct value filter_wordwrap(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct str  s = v.type == VALUE_STRING ? v.u.s : STR("");
    int64_t     width = jinja_arg_int(r, c->arg[0], 79);
    struct wrap w = {.glue = STR("\n"), .cut_long = true, .hyphens = true};
    if (c->arg[1].type != VALUE_ABSENT)
        w.cut_long = value_truth(c->arg[1]);
    if (c->arg[2].type == VALUE_STRING)
        w.glue = c->arg[2].u.s;
    if (c->arg[3].type != VALUE_ABSENT)
        w.hyphens = value_truth(c->arg[3]);
    if (v.type != VALUE_STRING)
        return jinja_fail_type(r, "wordwrap needs a string", v);
    if (width < 1)
        return jinja_fail(r, "invalid width %lld (must be > 0)", (long long)width);
    w.width = (size_t)width;
    jinja_buf_init(r, &w.out);
    for (size_t at = 0, next = 0; at < s.n && !w.out.failed; at = next) {
        struct str line = text_slice(s, at, text_line_end(s, at, &next));
        if (at)
            wrap_break(&w);
        w.first = true;
        for (size_t i = 0, end; i < line.n && jinja_spend(r, 1); i = end) {
            end = chunk_end(&w, line, i);
            wrap_chunk(&w, text_slice(line, i, end));
        }
        wrap_trim(&w);
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
