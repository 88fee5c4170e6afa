/* The digits that fit into 64 bits, converted, then scaled once by a power of ten: two roundings. Contract in decimal.h. */
#include "text/decimal.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXACT_POWER 22 /* the greatest power of ten that a double holds */
#define GREATEST_POWER 308
#define EXPONENT_MAX 100000 /* beyond any that matters */

static double power_of_ten(int n)
{
    double p = 1;
    char   text[16];
    if (n <= EXACT_POWER) {
        while (n--)
            p *= 10;
        return p;
    }
    snprintf(text, sizeof text, "1e%d", n);
    return strtod(text, NULL);
}

static double scale(uint64_t digits, int exponent)
{
    double v = (double)digits;
    for (; exponent < -GREATEST_POWER && v != 0; exponent += GREATEST_POWER)
        v /= power_of_ten(GREATEST_POWER);
    if (v == 0)
        return 0;
    if (exponent > GREATEST_POWER)
        return INFINITY;
    return exponent < 0 ? v / power_of_ten(-exponent) : v * power_of_ten(exponent);
}

static bool digit(struct str s, size_t at)
{
    return at < s.n && s.p[at] >= '0' && s.p[at] <= '9';
}

static int read_exponent(struct str s, size_t at)
{
    bool negative = at < s.n && s.p[at] == '-';
    int  v = 0;
    for (at += at < s.n && (s.p[at] == '-' || s.p[at] == '+'); digit(s, at); at++)
        if (v < EXPONENT_MAX)
            v = v * 10 + (s.p[at] - '0');
    return negative ? -v : v;
}

double decimal_read(struct str s)
{
    size_t   at = s.n && s.p[0] == '-';
    bool     negative = at > 0, fraction = false, full = false;
    uint64_t digits = 0;
    int      exponent = 0;
    for (; digit(s, at) || (at < s.n && s.p[at] == '.'); at++) {
        if (s.p[at] == '.') {
            fraction = true;
            continue;
        }
        uint64_t more;
        full = full || __builtin_mul_overflow(digits, (uint64_t)10, &more) ||
               __builtin_add_overflow(more, (uint64_t)(s.p[at] - '0'), &more);
        digits = full ? digits : more;
        exponent += full ? !fraction : -fraction;
    }
    if (at < s.n)
        exponent += read_exponent(s, at + 1);
    double v = scale(digits, exponent);
    return negative ? -v : v;
}
