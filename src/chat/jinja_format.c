/* "%" formatting and str.format. Contracts in jinja_run.h. */
#include "chat/jinja_format.h"

#include <math.h>

#include "base/num.h"
#include "chat/jinja_text.h"

/* --- "%s" % value ------------------------------------------------------------------------------------------------ */

struct percent {
    struct value format, value;
    size_t       at;    /* in the format */
    size_t       used;  /* values of the tuple */
    bool         named; /* %(name)s was used */
};

static struct value next_value(struct jinja_run *r, struct percent *p)
{
    bool   tuple = p->value.type == VALUE_TUPLE;
    size_t n = tuple ? p->value.u.list->n : 1;
    if (p->used >= n)
        return jinja_fail(r, "not enough arguments for format string");
    return tuple ? p->value.u.list->v[p->used++] : (p->used++, p->value);
}

static struct value named_value(struct jinja_run *r, struct percent *p)
{
    struct str    s = p->format.u.s, name = {s.p + p->at, 0};
    int           depth = 1;
    struct value *found = NULL;
    for (; p->at < s.n; p->at++) {
        depth += s.p[p->at] == '(' ? 1 : s.p[p->at] == ')' ? -1 : 0;
        if (!depth)
            break;
    }
    if (p->at >= s.n)
        return jinja_fail(r, "incomplete format key");
    name.n = (size_t)(s.p + p->at++ - name.p);
    if (p->value.type != VALUE_DICT)
        return jinja_fail(r, "format requires a mapping");
    p->named = true;
    if (!(found = jinja_dict_text(r, p->value.u.dict, name)))
        return jinja_fail(r, "'" STR_FMT "'", STR_ARG(name));
    return *found;
}

/* A width or precision: digits, or * for the next value. */
static int star_or_number(struct jinja_run *r, struct percent *p, int max)
{
    struct str s = p->format.u.s;
    if (p->at >= s.n || s.p[p->at] != '*')
        return format_number(r, s, &p->at, max);
    p->at++;
    int64_t n = jinja_arg_int(r, next_value(r, p), 0);
    if (n < -max || n > max)
        jinja_fail(r, "a width or precision is larger than %d", max);
    return r->status ? 0 : (int)n;
}

static void put_percent_int(struct jinja_run *r, struct buf *b, struct format_spec *f, struct value v)
{
    bool integer = f->type == 'x' || f->type == 'X' || f->type == 'o';
    if (v.type == VALUE_FLOAT && !integer && isfinite(v.u.d))
        v = jinja_int_of_double(r, v.u.d);
    if (!value_is_int(v)) {
        jinja_fail(r, "%%%c format: %s is required, not %s", f->type, integer ? "an integer" : "a real number",
                   value_type_name(v.type));
        return;
    }
    format_int(r, b, f, v);
}

/* Python's ascii() of a repr: the rest of Unicode as escapes. */
static struct str ascii_of(struct jinja_run *r, struct str s)
{
    struct buf b;
    uint32_t   cp;
    jinja_buf_init(r, &b);
    for (size_t i = 0; i < s.n;) {
        i += text_next(s, i, &cp);
        if (cp < 0x80)
            buf_putc(&b, (char)cp);
        else
            buf_printf(&b, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)cp);
    }
    return jinja_take(r, &b).u.s;
}

static void put_percent_text(struct jinja_run *r, struct buf *b, struct format_spec *f, struct value v, bool markup)
{
    struct buf repr;
    if (f->type == 's') {
        struct str s = markup ? jinja_escaped(r, v) : jinja_text(r, v);
        f->sign = 0;
        f->zero = false;
        format_text(r, b, f, s);
        return;
    }
    bool ascii = f->type == 'a';
    jinja_buf_init(r, &repr);
    jinja_put_repr(r, &repr, v);
    f->type = 's';
    f->sign = 0;
    f->zero = false;
    struct str s = jinja_take(r, &repr).u.s;
    format_text(r, b, f, ascii ? ascii_of(r, s) : s);
}

static void put_conversion(struct jinja_run *r, struct buf *b, struct format_spec *f, struct value v, bool markup)
{
    switch (f->type) {
    case 's':
    case 'r':
    case 'a':
        put_percent_text(r, b, f, v, markup);
        break;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        put_percent_int(r, b, f, v);
        break;
    case 'c':
        if (v.type == VALUE_STRING && text_count(v.u.s) == 1) {
            f->type = 's';
            put_percent_text(r, b, f, v, markup);
        } else if (value_is_int(v))
            format_int(r, b, f, v);
        else
            jinja_fail(r, "%%c requires int or char");
        break;
    default:
        if (value_is_number(v))
            format_float(r, b, f, value_number(v));
        else
            jinja_fail(r, "must be real number, not %s", value_type_name(v.type));
    }
}

/* The directive behind a '%'. */
static void percent_directive(struct jinja_run *r, struct buf *b, struct percent *p)
{
    struct format_spec f = FORMAT_SPEC_NONE;
    struct str         s = p->format.u.s;
    struct value       v = {.type = VALUE_ABSENT};
    bool               plain = p->at < s.n && s.p[p->at] == '%'; /* "%%" */
    if (p->at < s.n && s.p[p->at] == '(') {
        p->at++;
        v = named_value(r, p);
    }
    for (; p->at < s.n && s.p[p->at] && strchr("-+ #0", s.p[p->at]); p->at++) {
        char c = s.p[p->at];
        f.align = c == '-' ? '<' : f.align;
        f.sign = c == '+' || (c == ' ' && !f.sign) ? c : f.sign;
        f.alternate |= c == '#';
        f.zero |= c == '0';
    }
    f.width = star_or_number(r, p, FORMAT_WIDTH_MAX);
    if (f.width < -1) {
        f.align = '<';
        f.width = -f.width;
    }
    if (p->at < s.n && s.p[p->at] == '.') {
        p->at++;
        f.precision = star_or_number(r, p, FORMAT_PRECISION_MAX);
        f.precision = MAX(f.precision, 0);
    }
    while (p->at < s.n && s.p[p->at] && strchr("hlL", s.p[p->at]))
        p->at++;
    f.type = p->at < s.n ? s.p[p->at++] : 0;
    f.zero &= f.align != '<';
    if (r->status)
        return;
    if (f.type == '%' && plain)
        buf_putc(b, '%');
    else if (!f.type || !strchr("sradiuxXoceEfFgG", f.type))
        jinja_fail(r, f.type ? "unsupported format character '%c'" : "incomplete format", f.type);
    else {
        if (!f.align && !f.zero)
            f.align = '>';
        v = v.type == VALUE_ABSENT ? next_value(r, p) : v;
        if (!r->status)
            put_conversion(r, b, &f, v, p->format.markup);
    }
}

/* It can be indexed: Python then takes it for a mapping, which may have more than the format asks for. */
static bool has_items(struct value v)
{
    return v.type == VALUE_DICT || v.type == VALUE_LIST || v.type == VALUE_RANGE || v.type == VALUE_UNDEFINED;
}

struct value jinja_percent(struct jinja_run *r, struct value format, struct value v)
{
    struct percent p = {.format = format, .value = v};
    struct str     s = format.u.s;
    struct buf     b;
    jinja_buf_init(r, &b);
    while (p.at < s.n && !b.failed && jinja_spend(r, 1)) {
        const char *mark = memchr(s.p + p.at, '%', s.n - p.at);
        size_t      end = mark ? (size_t)(mark - s.p) : s.n;
        buf_put(&b, s.p + p.at, end - p.at);
        p.at = end + 1;
        if (mark)
            percent_directive(r, &b, &p);
    }
    bool rest = v.type == VALUE_TUPLE ? p.used < v.u.list->n : !p.used && !has_items(v);
    if (rest && !p.named && !b.failed)
        jinja_fail(r, "not all arguments converted during string formatting");
    struct value made = jinja_take(r, &b);
    made.markup = format.markup;
    return made;
}

/* --- str.format -------------------------------------------------------------------------------------------------- */

struct fields {
    const struct jinja_args *args;
    bool                     markup;
    size_t                   next; /* of {} */
};

static void put_template(struct jinja_run *r, struct buf *b, struct fields *fields, struct str s, int depth);

static struct value first_field(struct jinja_run *r, struct fields *fields, struct str name)
{
    size_t at = 0;
    int    i = name.n ? format_number(r, name, &at, 1000000) : (int)fields->next++;
    if (at == name.n) {
        if ((size_t)i >= fields->args->n)
            return jinja_fail(r, "Replacement index %d out of range for positional args tuple", i);
        return fields->args->v[i];
    }
    for (size_t k = 0; k < fields->args->n_keywords; k++)
        if (str_eq(fields->args->keywords[k].name, name))
            return fields->args->keywords[k].value;
    return jinja_fail(r, "'" STR_FMT "'", STR_ARG(name));
}

/* name.attribute[item]... */
static struct value field_value(struct jinja_run *r, struct fields *fields, struct str s)
{
    size_t end = 0;
    while (end < s.n && s.p[end] != '.' && s.p[end] != '[')
        end++;
    struct value v = first_field(r, fields, text_slice(s, 0, end));
    while (end < s.n && !r->status) {
        bool   item = s.p[end++] == '[';
        size_t start = end;
        while (end < s.n && (item ? s.p[end] != ']' : s.p[end] != '.' && s.p[end] != '['))
            end++;
        struct str part = text_slice(s, start, end);
        size_t     digits = 0;
        int        i = item ? format_number(r, part, &digits, 1000000000) : -1;
        if (item && end++ >= s.n)
            return jinja_fail(r, "expected '}' before end of string");
        v = !item ? jinja_attribute(r, v, part)
                  : jinja_item(r, v, i >= 0 && digits == part.n ? value_int(i) : value_str(part));
    }
    return v;
}

static struct format_spec parse_spec(struct jinja_run *r, struct str s)
{
    struct format_spec f = FORMAT_SPEC_NONE;
    uint32_t           cp = 0;
    size_t             at = s.n ? text_next(s, 0, &cp) : 0;
    if (at < s.n && strchr("<>^=", s.p[at]) && s.p[at]) {
        f.fill = cp;
        f.align = s.p[at++];
    } else if (s.n && strchr("<>^=", s.p[0]) && s.p[0])
        f.align = s.p[0];
    else
        at = 0;
    if (at < s.n && s.p[at] && strchr("+- ", s.p[at]))
        f.sign = s.p[at++];
    if (at < s.n && s.p[at] == '#')
        f.alternate = at++ || true;
    if (at < s.n && s.p[at] == '0') {
        f.zero = true;
        at++;
    }
    f.width = format_number(r, s, &at, FORMAT_WIDTH_MAX);
    if (at < s.n && (s.p[at] == ',' || s.p[at] == '_'))
        f.grouping = s.p[at++];
    if (at < s.n && s.p[at] == '.') {
        at++;
        f.precision = format_number(r, s, &at, FORMAT_PRECISION_MAX);
    }
    if (at < s.n)
        f.type = s.p[at++];
    if (at < s.n)
        jinja_fail(r, "Invalid format specifier");
    return f;
}

static void put_field(struct jinja_run *r, struct buf *b, struct fields *fields, struct value v, char conversion,
                      struct str spec)
{
    struct format_spec f = parse_spec(r, spec);
    struct buf         repr;
    if (r->status)
        return;
    if (conversion == 'r' || conversion == 'a') {
        jinja_buf_init(r, &repr);
        jinja_put_repr(r, &repr, v);
        v = jinja_take(r, &repr);
        if (conversion == 'a')
            v = value_str(ascii_of(r, v.u.s));
    } else if (conversion == 's')
        v = jinja_str(r, v);
    bool integer = v.type == VALUE_INT || v.type == VALUE_BIG || (v.type == VALUE_BOOL && spec.n);
    if (integer && f.precision >= 0 && (!f.type || !strchr("eEfFgG%", f.type)))
        jinja_fail(r, "Precision not allowed in integer format specifier");
    else if (integer)
        format_int(r, b, &f, v);
    else if (v.type == VALUE_FLOAT)
        format_float(r, b, &f, v.u.d);
    else if (v.type == VALUE_STRING || !spec.n)
        format_text(r, b, &f, fields->markup ? jinja_escaped(r, v) : jinja_text(r, v));
    else
        jinja_fail(r, "unsupported format string passed to %s.__format__", value_type_name(v.type));
}

/* The text between braces: field, !conversion, :spec; the spec may hold fields itself. */
static void put_replacement(struct jinja_run *r, struct buf *b, struct fields *fields, struct str s, int depth)
{
    size_t     end = 0;
    char       conversion = 0;
    struct buf spec;
    while (end < s.n && s.p[end] != '!' && s.p[end] != ':') {
        if (s.p[end] == '[') /* a key may hold anything */
            while (end < s.n && s.p[end] != ']')
                end++;
        end += end < s.n;
    }
    struct value v = field_value(r, fields, text_slice(s, 0, end));
    if (end < s.n && s.p[end] == '!') {
        conversion = end + 1 < s.n ? s.p[end + 1] : 0;
        end += 2;
        if ((conversion != 'r' && conversion != 's' && conversion != 'a') || (end < s.n && s.p[end] != ':'))
            jinja_fail(r, "expected ':' after conversion specifier");
    }
    jinja_buf_init(r, &spec);
    if (end < s.n && !r->status)
        put_template(r, &spec, fields, text_slice(s, end + 1, s.n), depth + 1);
    if (!r->status)
        put_field(r, b, fields, v, conversion, buf_str(&spec));
    buf_deinit(&spec);
}

static void put_template(struct jinja_run *r, struct buf *b, struct fields *fields, struct str s, int depth)
{
    if (depth > 1) {
        jinja_fail(r, "Max string recursion exceeded");
        return;
    }
    for (size_t i = 0; i < s.n && !b->failed && jinja_spend(r, 1);) {
        char c = s.p[i];
        if ((c == '{' || c == '}') && i + 1 < s.n && s.p[i + 1] == c && !depth) {
            buf_putc(b, c);
            i += 2;
        } else if (c == '{') {
            size_t end = ++i;
            for (int open = 1; end < s.n && (open += s.p[end] == '{' ? 1 : s.p[end] == '}' ? -1 : 0); end++)
                ;
            if (end >= s.n) {
                jinja_fail(r, "Single '{' encountered in format string");
                return;
            }
            put_replacement(r, b, fields, text_slice(s, i, end), depth);
            i = end + 1;
        } else if (c == '}') {
            jinja_fail(r, "Single '}' encountered in format string");
            return;
        } else {
            buf_putc(b, c);
            i++;
        }
    }
}

struct value jinja_format(struct jinja_run *r, struct value format, const struct jinja_args *args)
{
    struct fields fields = {.args = args, .markup = format.markup};
    struct buf    b;
    jinja_buf_init(r, &b);
    put_template(r, &b, &fields, format.u.s, 0);
    struct value v = jinja_take(r, &b);
    v.markup = format.markup;
    return v;
}
