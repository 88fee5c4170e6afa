/* Filters on numbers, and from text to numbers. */
#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "chat/jinja_filters.h"
#include "chat/jinja_run.h"
#include "chat/jinja_text.h"

struct value filter_abs(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    (void)c;
    if (v.type == VALUE_FLOAT)
        return value_float(fabs(v.u.d));
    if (!value_is_integral(v))
        return jinja_fail_type(r, "bad operand type for abs()", v);
    int64_t i = value_integral(v);
    return i == INT64_MIN ? jinja_fail(r, "an integer does not fit in 64 bits") : value_int(i < 0 ? -i : i);
}

/* s without blanks around it and single underscores between digits, as int() and float() read it; false when too long.
 */
static bool digits_of(struct str s, char *out, size_t cap)
{
    size_t n = 0;
    s = text_strip(s, NULL, TEXT_BOTH);
    for (size_t i = 0; i < s.n; i++) {
        bool between = i > 0 && i + 1 < s.n && s.p[i - 1] != '_' && s.p[i + 1] != '_';
        if (s.p[i] == '_' && between)
            continue;
        if (n + 1 >= cap || !s.p[i])
            return false;
        out[n++] = s.p[i];
    }
    out[n] = '\0';
    return n > 0;
}

/* float(text); *d is untouched when that would raise. */
static bool parse_float(struct str s, double *d)
{
    char   text[512], *end;
    double parsed;
    if (!digits_of(s, text, sizeof text) || strpbrk(text, "xXpP(")) /* strtod reads more than Python */
        return false;
    parsed = strtod(text, &end);
    if (*end || end == text)
        return false;
    *d = parsed;
    return true;
}

/* int(text, base) */
static bool parse_int(struct str s, int64_t base, int64_t *out)
{
    char        text[512];
    const char *p = text;
    bool        negative;
    int64_t     i = 0;
    if (!digits_of(s, text, sizeof text))
        return false;
    negative = *p == '-';
    p += *p == '-' || *p == '+';
    if (p[0] == '0' && p[1]) {
        int prefix = (p[1] | 0x20) == 'x' ? 16 : (p[1] | 0x20) == 'o' ? 8 : (p[1] | 0x20) == 'b' ? 2 : 0;
        if (prefix && (base == prefix || base == 0)) {
            base = prefix;
            p += 2;
        }
    }
    base = base ? base : 10;
    if (!*p)
        return false;
    for (; *p; p++) {
        int digit = *p >= '0' && *p <= '9'                     ? *p - '0'
                    : (*p | 0x20) >= 'a' && (*p | 0x20) <= 'z' ? (*p | 0x20) - 'a' + 10
                                                               : 99;
        if (digit >= base || !num_mul(i, base, &i) || !num_sub(i, digit, &i))
            return false;
    }
    if (!negative && i == INT64_MIN)
        return false;
    *out = negative ? i : -i;
    return true;
}

static bool to_int64(double d, int64_t *out)
{
    if (!(d > -9.3e18 && d < 9.3e18) || d < -0x1p63 || d >= 0x1p63)
        return false;
    *out = (int64_t)d;
    return true;
}

struct value filter_int(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct value fallback = c->arg[0].type == VALUE_ABSENT ? value_int(0) : c->arg[0];
    int64_t      base = jinja_arg_int(r, c->arg[1], 10), i;
    double       d;
    if (value_is_integral(v))
        return value_int(value_integral(v));
    if (v.type == VALUE_FLOAT)
        return to_int64(v.u.d, &i) ? value_int(i) : fallback;
    if (v.type == VALUE_UNDEFINED)
        return jinja_fail_undefined(r, v);
    if (v.type != VALUE_STRING)
        return fallback;
    if (base != 0 && (base < 2 || base > 36))
        return fallback;
    if (parse_int(v.u.s, base, &i) || (parse_float(v.u.s, &d) && to_int64(d, &i)))
        return value_int(i);
    return fallback;
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

struct value filter_round(struct jinja_run *r, struct value v, const struct jinja_call *c)
{
    struct str method = jinja_arg_str(r, c->arg[1], STR("common"));
    int64_t    precision = jinja_arg_int(r, c->arg[0], 0);
    bool       common = str_is(method, "common"), ceiling = str_is(method, "ceil");
    if (!common && !ceiling && !str_is(method, "floor"))
        return jinja_fail(r, "method must be common, ceil or floor");
    if (!value_is_number(v))
        return jinja_fail_type(r, "type doesn't define __round__ method", v);
    double d = value_number(v);
    if (!isfinite(d))
        return value_float(d);
    if (common)
        return value_is_integral(v)
                   ? (precision >= 0 ? value_int(value_integral(v)) : value_int((int64_t)round_common(d, precision)))
                   : value_float(round_common(d, precision));
    double scale = pow(10, (double)MIN(MAX(precision, -400), 400));
    double scaled = ceiling ? ceil(d * scale) : floor(d * scale);
    return value_float(isfinite(scaled) && scale > 0 ? scaled / scale : d);
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
