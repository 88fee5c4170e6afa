/* Filters on numbers, and from text to numbers. */
#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "chat/jinja_big.h"
#include "chat/jinja_filters.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

struct value filter_abs(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)c;
    if (v.type == VALUE_FLOAT)
        return value_float(fabs(v.u.d));
    if (!value_is_int(v))
        return jinja_fail_type(r, "bad operand type for abs()", v);
    return jinja_arithmetic(r, value_number(v) < 0 ? TOKEN_SUB : TOKEN_ADD, value_int(0), v);
}

/* s without blanks around it and single underscores between digits, decimal digits of all scripts as ASCII's: as int()
 * and float() read it. False when it is too long. */
static bool digits_of(struct str s, char *out, size_t cap)
{
    size_t   n = 0;
    uint32_t cp;
    s = text_strip(s, NULL, TEXT_BOTH);
    for (size_t i = 0; i < s.n;) {
        bool   between = i > 0 && i + 1 < s.n && s.p[i - 1] != '_' && s.p[i + 1] != '_';
        size_t length = text_next(s, i, &cp);
        i += length;
        if (cp == '_' && between)
            continue;
        if (n + 1 >= cap || !cp || (cp >= 0x80 && !text_is_decimal(cp)))
            return false;
        out[n++] = cp < 0x80 ? (char)cp : (char)('0' + text_decimal(cp));
    }
    out[n] = '\0';
    return n > 0;
}

/* float(text); *d is untouched when that would raise. */
static bool parse_float(struct str s, double *d)
{
    char   text[BIG_DIGITS_MAX + 100], *end;
    double parsed;
    if (!digits_of(s, text, sizeof text) || strpbrk(text, "xXpP(")) /* strtod reads more than Python */
        return false;
    parsed = strtod(text, &end);
    if (*end || end == text)
        return false;
    *d = parsed;
    return true;
}

/* The digit in a base up to 36, or a number beyond all bases. */
static unsigned digit_of(char c)
{
    return c >= '0' && c <= '9'                     ? (unsigned)(c - '0')
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (unsigned)((c | 0x20) - 'a' + 10)
                                                    : 99;
}

/* int(text, base); false when that would raise. */
static bool parse_int(struct jinja_run *r, struct str s, unsigned base, struct value *out)
{
    char        text[BIG_DIGITS_MAX + 100];
    const char *p = text;
    bool        negative, any = base == 0;
    if (!digits_of(s, text, sizeof text))
        return false;
    negative = *p == '-';
    p += *p == '-' || *p == '+';
    if (p[0] == '0' && p[1]) {
        unsigned prefix = (p[1] | 0x20) == 'x' ? 16 : (p[1] | 0x20) == 'o' ? 8 : (p[1] | 0x20) == 'b' ? 2 : 0;
        if (prefix && (base == prefix || any)) {
            base = prefix;
            p += 2;
        }
    }
    bool zeros = strspn(p, "0") == strlen(p);
    if (!*p || (any && !base && *p == '0' && !zeros)) /* base 0 reads literals: no leading zeros */
        return false;
    base = base ? base : 10;
    for (const char *c = p; *c; c++)
        if (digit_of(*c) >= base)
            return false;
    if (strlen(p) > BIG_DIGITS_MAX && (base & (base - 1)))
        return false;
    *out = jinja_int_parse(r, str_of(p), base, negative);
    return true;
}

struct value filter_int(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct value fallback = c->arg[0].type == VALUE_ABSENT ? value_int(0) : c->arg[0], i;
    int64_t      base = c->arg[1].type == VALUE_NONE ? -1 : jinja_arg_int(r, c->arg[1], 10);
    double       d;
    if (value_is_int(v))
        return v.type == VALUE_BOOL ? value_int(v.u.b) : v;
    if (v.type == VALUE_FLOAT && isinf(v.u.d))
        return jinja_fail(r, "cannot convert float infinity to integer");
    if (v.type == VALUE_FLOAT)
        return isnan(v.u.d) ? fallback : jinja_int_of_double(r, v.u.d);
    if (v.type == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (v.type != VALUE_STRING)
        return fallback;
    if ((base == 0 || (base >= 2 && base <= 36)) && parse_int(r, v.u.s, (unsigned)base, &i))
        return i;
    return parse_float(v.u.s, &d) && isfinite(d) ? jinja_int_of_double(r, d) : fallback;
}

struct value filter_float(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    double d;
    if (value_is_number(v))
        return value_float(value_number(v));
    if (v.type == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (v.type == VALUE_STRING && parse_float(v.u.s, &d))
        return value_float(d);
    return c->arg[0].type == VALUE_ABSENT ? value_float(0) : c->arg[0];
}

/* "common" rounds half to even on the binary value, as Python's round; exact decimal digits through printf. */
static double round_common(double d, int64_t precision)
{
    char text[400];
    if (precision >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)MIN(precision, 330), d);
        return strtod(text, NULL);
    }
    double scale = pow(10, (double)MIN(-precision, 400));
    return isinf(scale) ? 0 : nearbyint(d / scale) * scale;
}

/* An integer to a multiple of 10 ** -precision, half to even. */
static struct value round_int(struct jinja_run *r, struct value v, int64_t precision)
{
    struct value unit, rest, down;
    if (precision >= 0)
        return jinja_arithmetic(r, TOKEN_ADD, v, value_int(0));
    unit = jinja_arithmetic(r, TOKEN_POW, value_int(10), value_int(MIN(-precision, 100000)));
    rest = jinja_arithmetic(r, TOKEN_MOD, v, unit);
    down = jinja_arithmetic(r, TOKEN_SUB, v, rest);
    if (r->status)
        return value_none();
    int          half = value_order_numbers(jinja_arithmetic(r, TOKEN_ADD, rest, rest), unit);
    struct value twice = jinja_arithmetic(r, TOKEN_ADD, unit, unit);
    bool         even = !r->status && !value_truth(jinja_arithmetic(r, TOKEN_MOD, down, twice));
    return half > 0 || (half == 0 && !even) ? jinja_arithmetic(r, TOKEN_ADD, down, unit) : down;
}

struct value filter_round(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct str method = jinja_arg_str(r, c->arg[1], STR("common"));
    int64_t    precision = jinja_arg_int(r, c->arg[0], 0);
    bool       common = str_is(method, "common"), ceiling = str_is(method, "ceil");
    if (!common && !ceiling && !str_is(method, "floor"))
        return jinja_fail(r, "method must be common, ceil or floor");
    if (!value_is_number(v))
        return jinja_fail_type(r, "type doesn't define __round__ method", v);
    if (common && value_is_int(v))
        return round_int(r, v, precision);
    double d = value_number(v);
    if (!isfinite(d))
        return value_is_int(v) || !common ? jinja_fail(r, "the number is too large to be rounded") : value_float(d);
    if (common)
        return value_float(round_common(d, precision));
    double scale = pow(10, (double)MIN(MAX(precision, -400), 400));
    double scaled = ceiling ? ceil(d * scale) : floor(d * scale);
    return value_float((isfinite(scaled) && scale > 0 ? scaled / scale : d) + 0.0); /* no -0.0 */
}

struct value filter_filesizeformat(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    bool                     by_1024 = value_truth(c->arg[0]);
    double                   base = by_1024 ? 1024 : 1000, d = 0, unit = base;
    size_t                   i = 0;
    struct buf               b;
    if (value_is_number(v))
        d = value_number(v);
    else if (v.type != VALUE_STRING || !parse_float(v.u.s, &d))
        return jinja_fail_type(r, "could not convert to float", v);
    jinja_buf_init(r, &b);
    if (d == 1)
        buf_puts(&b, "1 Byte");
    else if (d < base)
        buf_printf(&b, "%d Bytes", (int)d);
    else {
        while (i + 1 < ARRAY_LEN(decimal) && d >= unit * base) {
            unit *= base;
            i++;
        }
        buf_printf(&b, "%.1f %s", d / unit, by_1024 ? binary[i] : decimal[i]);
    }
    return jinja_take(r, &b);
}
