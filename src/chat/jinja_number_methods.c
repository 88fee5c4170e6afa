/* Attributes and methods of numbers and ranges. Contracts in jinja_methods.h. */
#include <math.h>

#include "base/num.h"
#include "chat/jinja_big.h"
#include "chat/jinja_methods.h"
#include "chat/jinja_run.h"

#define METHOD(name) static struct value name(struct jinja_run *r, struct value self, const struct jinja_call *c)

/* A boolean as the integer that it counts as. */
static struct value plain(struct value v)
{
    return v.type == VALUE_BOOL ? value_int(v.u.b) : v;
}

struct value jinja_number_attribute(struct value v, struct str name)
{
    bool integer = value_is_int(v);
    if (v.type == VALUE_RANGE && (str_is(name, "start") || str_is(name, "stop") || str_is(name, "step")))
        return value_int(name.n == 5 ? v.u.range->start : name.p[2] == 'o' ? v.u.range->stop : v.u.range->step);
    if (!value_is_number(v))
        return (struct value){.type = VALUE_ABSENT};
    if (str_is(name, "real") || (integer && str_is(name, "numerator")))
        return plain(v);
    if (str_is(name, "imag"))
        return integer ? value_int(0) : value_float(0);
    if (integer && str_is(name, "denominator"))
        return value_int(1);
    return (struct value){.type = VALUE_ABSENT};
}

METHOD(conjugate)
{
    (void)r;
    (void)c;
    return plain(self);
}

METHOD(int_bit_length)
{
    int64_t  i = value_is_integral(self) ? value_integral(self) : 0;
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    (void)r;
    (void)c;
    if (self.type == VALUE_BIG)
        return value_int((int64_t)big_bits(self.u.big));
    return value_int(u ? 64 - __builtin_clzll(u) : 0);
}

METHOD(int_bit_count)
{
    int64_t i = value_is_integral(self) ? value_integral(self) : 0, n = 0;
    (void)r;
    (void)c;
    if (self.type == VALUE_BIG)
        for (size_t k = 0; k < self.u.big->n; k++)
            n += __builtin_popcount(self.u.big->v[k]);
    return value_int(n + __builtin_popcountll(i < 0 ? 0 - (uint64_t)i : (uint64_t)i));
}

METHOD(int_ratio)
{
    (void)c;
    return value_tuple(jinja_pair(r, plain(self), value_int(1)));
}

METHOD(float_is_integer)
{
    (void)r;
    (void)c;
    return value_bool(isfinite(self.u.d) && self.u.d == floor(self.u.d));
}

METHOD(float_hex)
{
    struct buf b;
    (void)c;
    jinja_buf_init(r, &b);
    if (!isfinite(self.u.d))
        jinja_put_float(&b, self.u.d);
    else if (self.u.d == 0)
        buf_puts(&b, signbit(self.u.d) ? "-0x0.0p+0" : "0x0.0p+0");
    else
        buf_printf(&b, "%.13a", self.u.d);
    return jinja_take(r, &b);
}

METHOD(float_ratio)
{
    int          exponent;
    double       fraction = frexp(self.u.d, &exponent);
    struct value top, bottom = value_int(1);
    (void)c;
    if (!isfinite(self.u.d))
        return jinja_fail(r, "cannot convert %s to integer ratio", isnan(self.u.d) ? "NaN" : "Infinity");
    while (fraction != floor(fraction)) {
        fraction *= 2;
        exponent--;
    }
    top = value_int((int64_t)fraction);
    struct value power = jinja_arithmetic(r, TOKEN_POW, value_int(2), value_int(exponent < 0 ? -exponent : exponent));
    if (exponent < 0)
        bottom = power;
    else
        top = jinja_arithmetic(r, TOKEN_MUL, top, power);
    return value_tuple(jinja_pair(r, top, bottom));
}

const struct jinja_row jinja_int_methods[] = {
    {"as_integer_ratio", "", int_ratio, false},
    {"bit_count", "", int_bit_count, false},
    {"bit_length", "", int_bit_length, false},
    {"conjugate", "", conjugate, false},
    {NULL, NULL, NULL, false},
};

const struct jinja_row jinja_float_methods[] = {
    {"as_integer_ratio", "", float_ratio, false}, {"conjugate", "", conjugate, false}, {"hex", "", float_hex, false},
    {"is_integer", "", float_is_integer, false},  {NULL, NULL, NULL, false},
};
