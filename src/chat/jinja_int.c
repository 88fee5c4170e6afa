/* Integers as Python has them: 64 bits while they fit, of any size beyond. Contracts in jinja_run.h. */
#include <math.h>

#include "base/num.h"
#include "chat/jinja_big.h"
#include "chat/jinja_run.h"

/* A number could not be made: its size is a matter of kilobytes, so with more of them left it was the allocator. */
static struct value fail_memory(struct jinja_run *r)
{
    return jinja_fail_memory(r, r->arena.max - r->arena.used < (size_t)BIG_LIMBS_MAX * 64);
}

static struct big *big_of(struct jinja_run *r, struct value v)
{
    struct big *x = r->status ? NULL : v.type == VALUE_BIG ? v.u.big : big_from_int(&r->arena, value_integral(v));
    if (!x)
        fail_memory(r);
    return x;
}

/* The value of a result; NULL is a lack of memory. */
static struct value made(struct jinja_run *r, struct big *x)
{
    int64_t i;
    if (!x)
        return fail_memory(r);
    if (x->n > BIG_LIMBS_MAX)
        return jinja_fail_limit(r, "262144 bits of an integer");
    return big_fits(x, &i) ? value_int(i) : (struct value){.type = VALUE_BIG, .u.big = x};
}

/* a / b, rounded once: the quotient is made with some more bits than a double has, and a bit for what is cut off. */
static struct value ratio(struct jinja_run *r, const struct big *a, const struct big *b)
{
    struct big *q, *rest;
    int64_t     shift = (int64_t)big_bits(b) - (int64_t)big_bits(a) + 60;
    struct big *x = big_shift(&r->arena, a, (size_t)MAX(shift, 0)),
               *y = big_shift(&r->arena, b, (size_t)MAX(-shift, 0));
    if (!x || !y)
        return fail_memory(r);
    x->negative = y->negative = false;
    if (!big_divide(&r->arena, x, y, &q, &rest))
        return fail_memory(r);
    if (q->n && rest->n)
        q->v[0] |= 1;
    double d = ldexp(big_to_double(q), (int)-shift);
    if (isinf(d))
        return jinja_fail(r, "integer division result too large for a float");
    return value_float(a->negative != b->negative ? -d : d);
}

static struct value power(struct jinja_run *r, struct big *a, struct value exponent)
{
    struct big *result = big_from_int(&r->arena, 1);
    int64_t     e = value_is_integral(exponent) ? value_integral(exponent) : INT64_MAX;
    if (exponent.type == VALUE_BIG && big_bits(a) > 1)
        return jinja_fail_limit(r, "262144 bits of an integer");
    if (big_bits(a) > 1 && (uint64_t)e > (uint64_t)BIG_LIMBS_MAX * 32)
        return jinja_fail_limit(r, "262144 bits of an integer");
    if (big_bits(a) <= 1 && exponent.type == VALUE_BIG) /* 0, 1, -1: only the parity counts */
        e = 2 - (int64_t)(exponent.u.big->v[0] & 1);
    else if (big_bits(a) <= 1)
        e = e > 1 ? 2 - (e & 1) : e;
    for (; e > 0 && result && a; e >>= 1) {
        if (result->n > BIG_LIMBS_MAX || a->n > BIG_LIMBS_MAX)
            return jinja_fail_limit(r, "262144 bits of an integer");
        if (!jinja_spend(r, (result->n + a->n) * a->n / 16))
            return value_none();
        if (e & 1)
            result = big_mul(&r->arena, result, a);
        if (e > 1)
            a = big_mul(&r->arena, a, a);
    }
    return made(r, a ? result : NULL);
}

struct value jinja_big_arithmetic(struct jinja_run *r, enum token_type op, struct value a, struct value b)
{
    struct big *x = big_of(r, a), *y = big_of(r, b), *q, *rest;
    if (!x || !y || !jinja_spend(r, (x->n * y->n + x->n + y->n) / 16))
        return value_none();
    switch (op) {
    case TOKEN_ADD:
    case TOKEN_SUB:
        return made(r, big_add(&r->arena, x, y, op == TOKEN_SUB));
    case TOKEN_MUL:
        return made(r, big_mul(&r->arena, x, y));
    case TOKEN_POW:
        if (y->negative)
            return x->n ? value_float(pow(big_to_double(x), big_to_double(y)))
                        : jinja_fail(r, "0.0 cannot be raised to a negative power");
        return power(r, x, b);
    default:
        if (!y->n)
            return jinja_fail(r, op == TOKEN_DIV ? "division by zero" : "integer division or modulo by zero");
        if (op == TOKEN_DIV)
            return ratio(r, x, y);
        if (!big_divide(&r->arena, x, y, &q, &rest))
            return fail_memory(r);
        return made(r, op == TOKEN_MOD ? rest : q);
    }
}

struct value jinja_int_of_double(struct jinja_run *r, double d)
{
    if (d >= -0x1p63 && d < 0x1p63)
        return value_int((int64_t)d);
    return made(r, big_from_double(&r->arena, d));
}

struct value jinja_int_parse(struct jinja_run *r, struct str digits, unsigned base, bool negative)
{
    struct big *x = big_parse(&r->arena, digits, base);
    if (x)
        x->negative = negative && x->n;
    jinja_spend(r, digits.n * digits.n / 64);
    return made(r, x);
}

/* The digits of an integer of 64 bits. */
static void put_small(struct buf *b, int64_t i, unsigned base, bool upper)
{
    char     digits[64];
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    size_t   at = sizeof digits;
    do
        digits[--at] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
    while (u /= base);
    buf_put(b, digits + at, sizeof digits - at);
}

void jinja_put_int(struct jinja_run *r, struct buf *b, struct value v, unsigned base, bool upper)
{
    if (value_is_integral(v)) {
        put_small(b, value_integral(v), base, upper);
        return;
    }
    struct big *x = big_of(r, v);
    if (x && base == 10 && big_bits(x) > 14285) /* more than 4300 digits */
        jinja_fail(r, "Exceeds the limit (%d digits) for integer string conversion", BIG_DIGITS_MAX);
    else if (x && jinja_spend(r, x->n * x->n / 16) && !big_put(&r->arena, b, x, base, upper))
        fail_memory(r);
}
