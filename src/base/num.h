/* Checked arithmetic for numbers that come from outside. Each returns true when the result fits. */
#ifndef MLXCEL_BASE_NUM_H
#define MLXCEL_BASE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define num_add(a, b, r) (!__builtin_add_overflow((a), (b), (r)))
#define num_sub(a, b, r) (!__builtin_sub_overflow((a), (b), (r)))
#define num_mul(a, b, r) (!__builtin_mul_overflow((a), (b), (r)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Rounds n up to a multiple of align (a power of two); false on overflow. */
static inline bool num_align(size_t n, size_t align, size_t *r)
{
    size_t t;
    if (!num_add(n, align - 1, &t))
        return false;
    *r = t & ~(align - 1);
    return true;
}

/* The value of a hexadecimal digit, -1 for another character. */
static inline int num_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Parse a whole NUL-terminated string as one number: no blanks around it, no trailing text, in range; doubles are finite. */
bool num_parse_i64(const char *s, int64_t *out);
bool num_parse_f64(const char *s, double *out);

#endif
