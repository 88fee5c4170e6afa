/* Integers of any size, for the few templates whose numbers leave 64 bits: Python's have no bounds. Pure arithmetic on
 * memory of an arena; jinja_int.c makes values of it.
 */
#ifndef MLXCEL_CHAT_JINJA_BIG_H
#define MLXCEL_CHAT_JINJA_BIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

#define BIG_LIMBS_MAX 8192  /* 262144 bits; Python has no limit */
#define BIG_DIGITS_MAX 4300 /* decimal digits that are read or written, as in Python */

/* Sign and magnitude, base 2^32, the least limb first, the last one not zero; zero has none and is not negative. */
struct big {
    bool     negative;
    size_t   n;
    uint32_t v[];
};

/* All of these give NULL when the arena is out of memory; no result has more limbs than its operands together. */
struct big *big_from_int(struct arena *a, int64_t i);
struct big *big_from_double(struct arena *a, double d);                   /* towards zero; d is finite */
struct big *big_parse(struct arena *a, struct str digits, unsigned base); /* every character is a digit of the base */
struct big *big_add(struct arena *a, const struct big *x, const struct big *y, bool subtract);
struct big *big_mul(struct arena *a, const struct big *x, const struct big *y);
/* Quotient towards minus infinity and the rest of the divisor's sign; y is not zero. False: out of memory. */
bool big_divide(struct arena *a, const struct big *x, const struct big *y, struct big **quotient, struct big **rest);
struct big *big_shift(struct arena *a, const struct big *x, size_t bits); /* x * 2^bits */

int    big_order(const struct big *x, const struct big *y); /* -1, 0, 1 */
size_t big_bits(const struct big *x);                       /* of the magnitude */
bool   big_fits(const struct big *x, int64_t *i);
double big_to_double(const struct big *x); /* nearest, ties to even; infinite when too large */
/* -1, 0, 1: x against a finite d, exactly; x has more than 63 bits. */
int big_order_double(const struct big *x, double d);
/* Appends the magnitude's digits. False: out of memory. */
bool big_put(struct arena *a, struct buf *b, const struct big *x, unsigned base, bool upper);

#endif
