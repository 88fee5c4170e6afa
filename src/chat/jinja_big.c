/* Schoolbook arithmetic on 32-bit limbs; contracts in jinja_big.h. Division is Knuth's algorithm D. */
#include "chat/jinja_big.h"

#include <math.h>

#include "base/num.h"

static struct big *make(struct arena *a, size_t n)
{
    struct big *x = arena_calloc(a, 1, sizeof *x + n * sizeof *x->v);
    if (x)
        x->n = n;
    return x;
}

static struct big *trim(struct big *x)
{
    while (x->n && !x->v[x->n - 1])
        x->n--;
    x->negative &= x->n > 0;
    return x;
}

struct big *big_from_int(struct arena *a, int64_t i)
{
    uint64_t    u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    struct big *x = make(a, 2);
    if (!x)
        return NULL;
    x->negative = i < 0;
    x->v[0] = (uint32_t)u;
    x->v[1] = (uint32_t)(u >> 32);
    return trim(x);
}

struct big *big_from_double(struct arena *a, double d)
{
    int         exponent;
    double      fraction = frexp(fabs(trunc(d)), &exponent); /* |d| = fraction * 2^exponent */
    struct big *x = big_from_int(a, (int64_t)ldexp(fraction, MIN(exponent, 53)));
    if (x && exponent > 53)
        x = big_shift(a, x, (size_t)exponent - 53);
    if (x)
        x->negative = d < 0 && x->n;
    return x;
}

/* x = x * factor + add; x has room. */
static void multiply_add(struct big *x, uint32_t factor, uint32_t add)
{
    uint64_t carry = add;
    for (size_t i = 0; i < x->n; i++) {
        carry += (uint64_t)x->v[i] * factor;
        x->v[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry)
        x->v[x->n++] = (uint32_t)carry;
}

struct big *big_parse(struct arena *a, struct str digits, unsigned base)
{
    struct big *x = make(a, digits.n / 6 + 2); /* a digit has at most log2(36) < 5.2 bits */
    if (!x)
        return NULL;
    x->n = 0;
    for (size_t i = 0; i < digits.n; i++) {
        char c = digits.p[i];
        multiply_add(x, base, (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10));
    }
    return trim(x);
}

static int order_magnitude(const struct big *x, const struct big *y)
{
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    for (size_t i = x->n; i-- > 0;)
        if (x->v[i] != y->v[i])
            return x->v[i] < y->v[i] ? -1 : 1;
    return 0;
}

int big_order(const struct big *x, const struct big *y)
{
    if (x->negative != y->negative)
        return x->negative ? -1 : 1;
    return x->negative ? order_magnitude(y, x) : order_magnitude(x, y);
}

/* |x| + |y| */
static struct big *add_magnitude(struct arena *a, const struct big *x, const struct big *y)
{
    size_t      n = MAX(x->n, y->n);
    struct big *sum = make(a, n + 1);
    uint64_t    carry = 0;
    for (size_t i = 0; sum && i <= n; i++) {
        carry += (uint64_t)(i < x->n ? x->v[i] : 0) + (i < y->n ? y->v[i] : 0);
        sum->v[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return sum;
}

/* |x| - |y|, which is not negative */
static struct big *subtract_magnitude(struct arena *a, const struct big *x, const struct big *y)
{
    struct big *rest = make(a, x->n);
    int64_t     borrow = 0;
    for (size_t i = 0; rest && i < x->n; i++) {
        borrow += (int64_t)x->v[i] - (i < y->n ? y->v[i] : 0);
        rest->v[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    return rest;
}

struct big *big_add(struct arena *a, const struct big *x, const struct big *y, bool subtract)
{
    bool        y_negative = y->negative != subtract, first = order_magnitude(x, y) >= 0;
    struct big *sum = x->negative == y_negative ? add_magnitude(a, x, y)
                      : first                   ? subtract_magnitude(a, x, y)
                                                : subtract_magnitude(a, y, x);
    if (!sum)
        return NULL;
    sum->negative = x->negative == y_negative || first ? x->negative : y_negative;
    return trim(sum);
}

struct big *big_mul(struct arena *a, const struct big *x, const struct big *y)
{
    struct big *product = make(a, x->n + y->n);
    if (!product)
        return NULL;
    for (size_t i = 0; i < x->n; i++) {
        uint64_t carry = 0;
        for (size_t j = 0; j < y->n; j++) {
            carry += (uint64_t)x->v[i] * y->v[j] + product->v[i + j];
            product->v[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product->v[i + y->n] = (uint32_t)carry;
    }
    product->negative = x->negative != y->negative;
    return trim(product);
}

struct big *big_shift(struct arena *a, const struct big *x, size_t bits)
{
    size_t      limbs = bits / 32, rest = bits % 32;
    struct big *y = make(a, x->n + limbs + 1);
    if (!y)
        return NULL;
    for (size_t i = 0; i < x->n; i++) {
        uint64_t wide = (uint64_t)x->v[i] << rest;
        y->v[i + limbs] |= (uint32_t)wide;
        y->v[i + limbs + 1] = (uint32_t)(wide >> 32);
    }
    y->negative = x->negative;
    return trim(y);
}

/* --- division ---------------------------------------------------------------------------------------------------- */

/* x /= divisor; returns the rest. */
static uint32_t divide_small(struct big *x, uint32_t divisor)
{
    uint64_t rest = 0;
    for (size_t i = x->n; i-- > 0;) {
        rest = rest << 32 | x->v[i];
        x->v[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    trim(x);
    return (uint32_t)rest;
}

/* u[0..n] -= q * v[0..n), q being at most 2 too large, which is repaired. Returns the true digit. */
static uint32_t subtract_multiple(uint32_t *u, const uint32_t *v, size_t n, uint64_t q)
{
    int64_t  borrow = 0;
    uint64_t carry = 0;
    for (size_t i = 0; i <= n; i++) {
        carry += i < n ? q * v[i] : 0;
        borrow += (int64_t)u[i] - (int64_t)(uint32_t)carry;
        u[i] = (uint32_t)borrow;
        borrow >>= 32;
        carry >>= 32;
    }
    for (; borrow < 0; q--) {
        carry = 0;
        for (size_t i = 0; i <= n; i++) {
            carry += (uint64_t)u[i] + (i < n ? v[i] : 0);
            u[i] = (uint32_t)carry;
            carry >>= 32;
        }
        borrow += (int64_t)carry;
    }
    return (uint32_t)q;
}

/* |x| / |y| by algorithm D; the rest is left in *rest. */
static struct big *divide_magnitude(struct arena *a, const struct big *x, const struct big *y, struct big **rest)
{
    size_t      n = y->n, shift = (size_t)__builtin_clz(y->v[n - 1]);
    struct big *u = big_shift(a, x, shift), *v = big_shift(a, y, shift), *q = make(a, x->n - n + 1);
    if (!u || !v || !q)
        return NULL;
    for (size_t i = u->n; i < x->n + 1; i++)
        u->v[i] = 0; /* big_shift makes room for it */
    for (size_t j = x->n - n + 1; j-- > 0;) {
        uint64_t top = (uint64_t)u->v[j + n] << 32 | u->v[j + n - 1];
        uint64_t digit = MIN(top / v->v[n - 1], UINT32_MAX), over = top - digit * v->v[n - 1];
        while (n > 1 && over <= UINT32_MAX && digit * v->v[n - 2] > (over << 32 | u->v[j + n - 2])) {
            digit--;
            over += v->v[n - 1];
        }
        q->v[j] = subtract_multiple(u->v + j, v->v, n, digit);
    }
    u->n = n;
    for (size_t i = 0; shift && i < n; i++)
        u->v[i] = u->v[i] >> shift | (i + 1 < n ? u->v[i + 1] << (32 - shift) : 0);
    *rest = trim(u);
    return trim(q);
}

bool big_divide(struct arena *a, const struct big *x, const struct big *y, struct big **quotient, struct big **rest)
{
    bool        opposite = x->negative != y->negative;
    struct big *q, *r = NULL, *one = big_from_int(a, 1);
    if (order_magnitude(x, y) < 0) {
        q = big_from_int(a, 0);
        r = big_shift(a, x, 0);
    } else
        q = divide_magnitude(a, x, y, &r);
    if (!q || !r || !one)
        return false;
    q->negative = opposite && q->n;
    r->negative = x->negative && r->n;
    if (r->n && opposite) { /* from towards zero to towards minus infinity */
        q = big_add(a, q, one, true);
        r = big_add(a, r, y, false);
    }
    *quotient = q;
    *rest = r;
    return q && r;
}

/* --- as other things --------------------------------------------------------------------------------------------- */

size_t big_bits(const struct big *x)
{
    return x->n ? x->n * 32 - (size_t)__builtin_clz(x->v[x->n - 1]) : 0;
}

bool big_fits(const struct big *x, int64_t *i)
{
    uint64_t u = (x->n > 1 ? (uint64_t)x->v[1] << 32 : 0) | (x->n ? x->v[0] : 0);
    if (x->n > 2 || u > (uint64_t)INT64_MAX + x->negative)
        return false;
    *i = x->negative ? (int64_t)(0 - u) : (int64_t)u;
    return true;
}

/* The 64 highest bits of at least so many. */
static uint64_t top_bits(const struct big *x, size_t low)
{
    uint64_t top = 0;
    for (size_t i = 0; i < 64; i++)
        top |= (uint64_t)(x->v[(low + i) / 32] >> (low + i) % 32 & 1) << i;
    return top;
}

/* Whether any of the lowest `bits` bits is set. */
static bool low_bits(const struct big *x, size_t bits)
{
    for (size_t i = 0; i < bits; i += 32)
        if (x->v[i / 32] & (bits - i < 32 ? ((uint32_t)1 << (bits - i)) - 1 : UINT32_MAX))
            return true;
    return false;
}

double big_to_double(const struct big *x)
{
    size_t  bits = big_bits(x), low = bits > 64 ? bits - 64 : 0;
    int64_t small;
    if (big_fits(x, &small))
        return (double)small;
    if (bits < 64)
        low = 0;
    uint64_t top = top_bits(x, low) | low_bits(x, low); /* what is cut off decides ties */
    double   d = ldexp((double)top, (int)low);
    return x->negative ? -d : d;
}

int big_order_double(const struct big *x, double d)
{
    int      exponent, magnitude;
    size_t   bits = big_bits(x), low = bits - 64;
    double   fraction = frexp(fabs(d), &exponent);
    uint64_t top, other = (uint64_t)ldexp(fraction, 64);
    if (x->negative != (d < 0))
        return x->negative ? -1 : 1;
    if (exponent < 0 || (size_t)exponent != bits)
        magnitude = exponent < 0 || bits > (size_t)exponent ? 1 : -1;
    else {
        top = top_bits(x, low);
        magnitude = top < other ? -1 : top > other || low_bits(x, low);
    }
    return x->negative ? -magnitude : magnitude;
}

bool big_put(struct arena *a, struct buf *b, const struct big *x, unsigned base, bool upper)
{
    const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    size_t      start = b->n;
    struct big *rest = big_shift(a, x, 0);
    if (!rest)
        return false;
    unsigned step = base == 10 ? 9 : base == 16 ? 7 : base == 8 ? 10 : 31; /* digits a division gives */
    uint32_t divisor = 1;
    for (unsigned i = 0; i < step; i++)
        divisor *= base;
    do {
        uint32_t part = divide_small(rest, divisor);
        for (unsigned i = 0; i < step && (rest->n || part || !i); i++, part /= base)
            buf_putc(b, digits[part % base]);
    } while (rest->n);
    for (size_t i = start, j = b->n; !b->failed && i + 1 < j; i++) {
        char c = b->p[i];
        b->p[i] = b->p[--j];
        b->p[j] = c;
    }
    return true;
}
