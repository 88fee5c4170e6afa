/* The kernels of rows.h on vec.h's lanes; included once by the file of each instruction set, which names the table. */
#ifndef MLXCEL_CPU_ROWS_KERNELS_H
#define MLXCEL_CPU_ROWS_KERNELS_H

#include "base/num.h"
#include "cpu/rows.h"
#include "cpu/vec.h"

static void rms_norm(const float *x, const float *w, float eps, int64_t n, float *y)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    vf      acc = vf_set1(0);
    for (i = 0; i < whole; i += VEC_LANES) {
        vf v = vf_load(x + i);
        acc = vf_fma(v, v, acc);
    }
    if (rest) {
        vf v = vf_load_part(x + i, rest);
        acc = vf_fma(v, v, acc);
    }
    vf r = vf_set1(1.0f / sqrtf(vf_sum(acc) / (float)n + eps));
    for (i = 0; i < whole; i += VEC_LANES)
        vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), r), vf_load(w + i)));
    if (rest)
        vf_store_part(y + i, vf_mul(vf_mul(vf_load_part(x + i, rest), r), vf_load_part(w + i, rest)), rest);
}

static void add(const float *x, float scale, float *y, int64_t n)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    vf      s = vf_set1(scale);
    for (i = 0; i < whole; i += VEC_LANES)
        vf_store(y + i, vf_add(vf_load(y + i), vf_mul(vf_load(x + i), s)));
    if (rest)
        vf_store_part(y + i, vf_add(vf_load_part(y + i, rest), vf_mul(vf_load_part(x + i, rest), s)), rest);
}

VEC_INLINE void act_mul_each(vf (*act)(vf), const float *gate, const float *up, float *y, int64_t n)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    for (i = 0; i < whole; i += VEC_LANES)
        vf_store(y + i, vf_mul(act(vf_load(gate + i)), vf_load(up + i)));
    if (rest)
        vf_store_part(y + i, vf_mul(act(vf_load_part(gate + i, rest)), vf_load_part(up + i, rest)), rest);
}

static void act_mul(struct act act, const float *gate, const float *up, float *y, int64_t n)
{
    switch (act.kind) {
    case ACT_SILU:
        act_mul_each(vf_silu, gate, up, y, n);
        break;
    }
}

/* (a, b) turned by the angle whose cosine and sine are c and s. */
VEC_INLINE void turn(vf *a, vf *b, vf c, vf s)
{
    vf x = *a, y = *b;
    *a = vf_sub(vf_mul(x, c), vf_mul(y, s));
    *b = vf_add(vf_mul(x, s), vf_mul(y, c));
}

static void rope(float *x, const float *cs, int dims, bool interleaved)
{
    int half = dims / 2, i = 0;
    for (; i + VEC_LANES <= half; i += VEC_LANES) {
        vf a, b, c, s;
        vf_load_pairs(cs + 2 * i, &c, &s);
        if (interleaved) {
            vf_load_pairs(x + 2 * i, &a, &b);
            turn(&a, &b, c, s);
            vf_store_pairs(x + 2 * i, a, b);
        } else {
            a = vf_load(x + i);
            b = vf_load(x + half + i);
            turn(&a, &b, c, s);
            vf_store(x + i, a);
            vf_store(x + half + i, b);
        }
    }
    for (; i < half; i++) {
        float *p = interleaved ? x + 2 * i : x + i, *q = interleaved ? p + 1 : p + half;
        float  a = *p, b = *q, c = cs[2 * i], s = cs[2 * i + 1];
        *p = a * c - b * s;
        *q = a * s + b * c;
    }
}

static void to_f16(const float *x, uint16_t *y, int64_t n)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    for (i = 0; i < whole; i += VEC_LANES)
        vf_store_f16(y + i, vf_load(x + i));
    if (rest)
        vf_store_f16_part(y + i, vf_load_part(x + i, rest), rest);
}

static void from_f16(const uint16_t *x, float *y, int64_t n)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    for (i = 0; i < whole; i += VEC_LANES)
        vf_store(y + i, vf_load_f16(x + i));
    if (rest)
        vf_store_part(y + i, vf_load_f16_part(x + i, rest), rest);
}

/* Zero times x is not zero where x is infinite or NaN. */
static float amax(const float *x, int64_t n)
{
    vf zero = vf_set1(0), max = zero, odd = zero;
    for (int64_t i = 0; i < n; i += VEC_LANES) {
        vf a = n - i < VEC_LANES ? vf_load_part(x + i, (int)(n - i)) : vf_load(x + i);
        max = vf_max(max, vf_max(a, vf_sub(zero, a)));
        odd = vf_fma(a, zero, odd);
    }
    return vf_sum(odd) == 0 ? vf_max_lane(max) : NAN;
}

static void to_i8(const float *x, float inv, int8_t *y, int64_t n)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    for (i = 0; i < whole; i += VEC_LANES)
        vf_store_i8(y + i, vf_mul(vf_load(x + i), vf_set1(inv)));
    if (rest)
        vf_store_i8_part(y + i, vf_mul(vf_load_part(x + i, rest), vf_set1(inv)), rest);
}

static void from_i8(const int8_t *x, float *y, int64_t n)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    for (i = 0; i < whole; i += VEC_LANES)
        vf_store(y + i, vf_load_i8(x + i));
    if (rest)
        vf_store_part(y + i, vf_load_i8_part(x + i, rest), rest);
}

/* Lanes [0, n) of x + i, `fill` beyond. */
VEC_INLINE vf some(const float *x, int64_t n, vf fill)
{
    return n < VEC_LANES ? vf_keep(vf_load_part(x, (int)n), 0, (int)n, fill) : vf_load(x);
}

VEC_INLINE void put(float *y, int64_t n, vf v)
{
    if (n < VEC_LANES)
        vf_store_part(y, v, (int)n);
    else
        vf_store(y, v);
}

static void softmax(const float *x, int64_t n, float *y)
{
    vf least = vf_set1(-INFINITY), zero = vf_set1(0), max = least, sum = zero;
    for (int64_t i = 0; i < n; i += VEC_LANES)
        max = vf_max(some(x + i, n - i, least), max); /* of those that are numbers */
    max = vf_set1(vf_max_lane(max));
    for (int64_t i = 0; i < n; i += VEC_LANES) {
        vf e = vf_exp(vf_sub(some(x + i, n - i, least), max));
        sum = vf_add(sum, vf_keep(e, 0, (int)MIN(n - i, VEC_LANES), zero));
        put(y + i, n - i, e);
    }
    sum = vf_set1(vf_sum(sum));
    for (int64_t i = 0; i < n; i += VEC_LANES)
        put(y + i, n - i, vf_div(some(y + i, n - i, zero), sum));
}

static void sigmoid(const float *x, int64_t n, float *y)
{
    vf one = vf_set1(1), zero = vf_set1(0);
    for (int64_t i = 0; i < n; i += VEC_LANES)
        put(y + i, n - i, vf_div(one, vf_add(one, vf_exp(vf_sub(zero, some(x + i, n - i, zero))))));
}

#define ROW_FNS                                                                                                        \
    {                                                                                                                  \
        rms_norm, add, act_mul, rope, to_f16, from_f16, amax, to_i8, from_i8, softmax, sigmoid                         \
    }

#endif
