/* Numbers and text by a format specification; contracts in jinja_format.h. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "base/num.h"
#include "chat/jinja_format.h"
#include "chat/jinja_text.h"

int format_number(struct jinja_run *r, struct str s, size_t *at, int max)
{
    int n = -1;
    for (; *at < s.n && s.p[*at] >= '0' && s.p[*at] <= '9'; ++*at) {
        n = MAX(n, 0) * 10 + (s.p[*at] - '0');
        if (n > max) {
            jinja_fail(r, "a width or precision is larger than %d", max);
            return -1;
        }
    }
    return n;
}

/* Frees an intermediate text; its failure is the rendering's. */
static void buf_end(struct jinja_run *r, struct buf *b)
{
    if (b->failed)
        jinja_fail_memory(r, b->full);
    buf_deinit(b);
}

/* head (sign and prefix) and body, padded to the width; align says where a value of this kind goes. */
static void put_padded(struct buf *b, const struct format_spec *f, struct str head, struct str body, char align)
{
    int64_t gap = f->width - (int64_t)text_count(head) - (int64_t)text_count(body), left;
    gap = MAX(gap, 0);
    align = f->align ? f->align : f->zero ? '=' : align;
    uint32_t fill = f->fill ? f->fill : f->zero ? '0' : ' ';
    left = align == '>' ? gap : align == '^' ? gap / 2 : 0;
    for (int64_t i = 0; i < left; i++)
        text_put(b, fill);
    buf_put(b, head.p, head.n);
    for (int64_t i = 0; align == '=' && i < gap; i++)
        text_put(b, fill);
    buf_put(b, body.p, body.n);
    for (int64_t i = left; align != '=' && i < gap; i++)
        text_put(b, fill);
}

void format_text(struct jinja_run *r, struct buf *b, const struct format_spec *f, struct str s)
{
    if ((f->type && f->type != 's') || f->align == '=' || f->sign || f->grouping) {
        jinja_fail(r, "invalid format specification for a string");
        return;
    }
    if (f->precision >= 0)
        s = text_slice(s, 0, text_offset(s, (size_t)f->precision));
    struct format_spec plain = *f;
    if (plain.zero && !plain.align)
        plain.align = '<'; /* "05" on a string fills with zeros on the right */
    put_padded(b, &plain, STR(""), s, '<');
}

static struct str sign_of(const struct format_spec *f, bool negative)
{
    return negative ? STR("-") : f->sign == '+' ? STR("+") : f->sign == ' ' ? STR(" ") : STR("");
}

/* How many digits text begins with. */
static size_t leading_digits(struct str text)
{
    size_t n = 0;
    while (n < text.n && isxdigit((unsigned char)text.p[n]) && text.p[n] != 'e')
        n++;
    return n;
}

/* `zeros` zeros and text, separators between groups of the digits. */
static void group_digits(struct buf *out, size_t zeros, struct str text, char separator, size_t size)
{
    size_t digits = leading_digits(text), n = zeros + digits;
    for (size_t i = 0; i < n; i++) {
        if (i && separator && (n - i) % size == 0)
            buf_putc(out, separator);
        buf_putc(out, i < zeros ? '0' : text.p[i - zeros]);
    }
    buf_put(out, text.p + digits, text.n - digits);
}

static void put_number(struct jinja_run *r, struct buf *b, const struct format_spec *f, struct str head,
                       struct str body, size_t group)
{
    bool       fill = f->grouping && (f->align ? f->align == '=' && f->fill == '0' : f->zero);
    size_t     zeros = 0, digits = leading_digits(body);
    struct buf grouped;
    while (fill && (int64_t)(head.n + body.n + zeros + (digits + zeros - 1) / group) < f->width)
        zeros++; /* they are grouped as the digits are */
    jinja_buf_init(r, &grouped);
    group_digits(&grouped, digits ? zeros : 0, body, f->grouping, group);
    put_padded(b, f, head, buf_str(&grouped), '>');
    buf_end(r, &grouped);
}

/* "%c", the character of a code point. */
static void format_char(struct jinja_run *r, struct buf *b, const struct format_spec *f, struct value v)
{
    int64_t    i = value_is_integral(v) ? value_integral(v) : -1;
    struct buf one;
    if (i < 0 || i > 0x10ffff)
        jinja_fail(r, "%%c arg not in range(0x110000)");
    buf_init(&one, 4);
    text_put(&one, (uint32_t)i);
    put_padded(b, f, STR(""), buf_str(&one), '<');
    buf_deinit(&one);
}

void format_int(struct jinja_run *r, struct buf *b, const struct format_spec *f, struct value v)
{
    char       head[8];
    unsigned   base = f->type == 'x' || f->type == 'X' ? 16 : f->type == 'o' ? 8 : f->type == 'b' ? 2 : 10;
    struct buf digits;
    if (f->type && strchr("eEfFgG%", f->type)) {
        if (isinf(value_number(v)))
            jinja_fail(r, "int too large to convert to float");
        format_float(r, b, f, value_number(v));
        return;
    }
    if (f->type == 'c') {
        format_char(r, b, f, v);
        return;
    }
    if (f->type && !strchr("diunxXob", f->type)) {
        jinja_fail(r, "Unknown format code '%c' for object of type 'int'", f->type);
        return;
    }
    bool prefix = f->alternate && base != 10;
    snprintf(head, sizeof head, STR_FMT "%s%.1s", STR_ARG(sign_of(f, value_number(v) < 0)), prefix ? "0" : "",
             prefix ? &f->type : "");
    jinja_buf_init(r, &digits);
    jinja_put_int(r, &digits, v, base, f->type == 'X');
    struct str body = buf_str(&digits);
    char       exact[FORMAT_PRECISION_MAX];
    if (f->precision > (int)body.n) { /* "%.5d": at least so many digits */
        int zeros = f->precision - (int)body.n;
        memset(exact, '0', (size_t)zeros);
        memcpy(exact + zeros, body.p, body.n);
        body = (struct str){exact, (size_t)f->precision};
    }
    put_number(r, b, f, str_of(head), body, base == 10 ? 3 : 4);
    buf_end(r, &digits);
}

/* The digits of |d|; false: unknown type letter. */
static bool float_digits(struct buf *out, const struct format_spec *f, double d)
{
    int  precision = f->precision < 0 ? 6 : f->precision;
    char type = f->type == 'n' ? 'g' : f->type;
    if (!isfinite(d)) {
        bool upper = type == 'E' || type == 'F' || type == 'G';
        buf_puts(out, isnan(d) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf");
        return true;
    }
    switch (type) {
    case 'e':
    case 'E':
        buf_printf(out, type == 'e' ? (f->alternate ? "%#.*e" : "%.*e") : (f->alternate ? "%#.*E" : "%.*E"), precision,
                   d);
        return true;
    case 'f':
    case 'F':
        buf_printf(out, f->alternate ? "%#.*f" : "%.*f", precision, d);
        return true;
    case 'g':
    case 'G':
        buf_printf(out, type == 'g' ? (f->alternate ? "%#.*g" : "%.*g") : (f->alternate ? "%#.*G" : "%.*G"), precision,
                   d);
        return true;
    case '%':
        buf_printf(out, "%.*f%%", precision, d * 100);
        return true;
    case 0:
        if (f->precision < 0)
            jinja_put_float(out, d);
        else {
            buf_printf(out, "%.*g", precision, d);
            if (!strpbrk(buf_cstr(out), ".e"))
                buf_puts(out, ".0");
        }
        return true;
    default:
        return false;
    }
}

void format_float(struct jinja_run *r, struct buf *b, const struct format_spec *f, double d)
{
    struct buf digits;
    jinja_buf_init(r, &digits);
    if (float_digits(&digits, f, fabs(d)))
        put_number(r, b, f, sign_of(f, signbit(d) && !isnan(d)), buf_str(&digits), 3);
    else
        jinja_fail(r, "Unknown format code '%c' for object of type 'float'", f->type);
    buf_end(r, &digits);
}
