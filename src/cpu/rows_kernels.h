/* The kernels of rows.h on vec.h's lanes; included once by the file of each instruction set, which names the table. */
#ifndef MLXCEL_CPU_ROWS_KERNELS_H
#define MLXCEL_CPU_ROWS_KERNELS_H

#include "base/num.h"
#include "cpu/rows.h"
#include "cpu/vec_math.h"

static float sum_squares(const float *x, int64_t n)
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
    return vf_sum(acc);
}

static float sum_of(const float *x, int64_t n)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    vf      acc = vf_set1(0);
    for (i = 0; i < whole; i += VEC_LANES)
        acc = vf_add(acc, vf_load(x + i));
    if (rest)
        acc = vf_add(acc, vf_load_part(x + i, rest));
    return vf_sum(acc);
}

/* The sum of (x - mean)^2. */
static float sum_deviations(const float *x, vf mean, int64_t n)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    vf      acc = vf_set1(0);
    for (i = 0; i < whole; i += VEC_LANES) {
        vf v = vf_sub(vf_load(x + i), mean);
        acc = vf_fma(v, v, acc);
    }
    if (rest) {
        vf v = vf_keep(vf_sub(vf_load_part(x + i, rest), mean), 0, rest, vf_set1(0));
        acc = vf_fma(v, v, acc);
    }
    return vf_sum(acc);
}

/* y = x r, times w where there is one. */
static void rms_norm(const float *x, const float *w, float eps, int64_t n, float *y)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    vf      r = vf_set1(1.0f / sqrtf(sum_squares(x, n) / (float)n + eps));
    for (i = 0; i < whole; i += VEC_LANES) {
        vf v = vf_mul(vf_load(x + i), r);
        vf_store(y + i, w ? vf_mul(v, vf_load(w + i)) : v);
    }
    if (rest) {
        vf v = vf_mul(vf_load_part(x + i, rest), r);
        vf_store_part(y + i, w ? vf_mul(v, vf_load_part(w + i, rest)) : v, rest);
    }
}

static void layer_norm(const float *x, const float *w, const float *b, float eps, int64_t n, float *y)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    vf      mean = vf_set1(sum_of(x, n) / (float)n);
    vf      r = vf_set1(1.0f / sqrtf(sum_deviations(x, mean, n) / (float)n + eps));
    for (i = 0; i < whole; i += VEC_LANES) {
        vf v = vf_mul(vf_sub(vf_load(x + i), mean), r);
        v = w ? vf_mul(v, vf_load(w + i)) : v;
        vf_store(y + i, b ? vf_add(v, vf_load(b + i)) : v);
    }
    if (rest) {
        vf v = vf_mul(vf_sub(vf_load_part(x + i, rest), mean), r);
        v = w ? vf_mul(v, vf_load_part(w + i, rest)) : v;
        vf_store_part(y + i, b ? vf_add(v, vf_load_part(b + i, rest)) : v, rest);
    }
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

/* y = f(x), a function of lanes and of numbers p. */
VEC_INLINE void each(vf (*f)(vf x, const float *p), const float *p, const float *x, float *y, int64_t n)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    for (i = 0; i < whole; i += VEC_LANES)
        vf_store(y + i, f(vf_load(x + i), p));
    if (rest)
        vf_store_part(y + i, f(vf_load_part(x + i, rest), p), rest);
}

/* y = f(a, b). */
VEC_INLINE void each2(vf (*f)(vf a, vf b, const float *p), const float *p, const float *a, const float *b, float *y,
                      int64_t n)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    for (i = 0; i < whole; i += VEC_LANES)
        vf_store(y + i, f(vf_load(a + i), vf_load(b + i), p));
    if (rest)
        vf_store_part(y + i, f(vf_load_part(a + i, rest), vf_load_part(b + i, rest), p), rest);
}

VEC_INLINE vf scaled(vf x, const float *p)
{
    return vf_mul(x, vf_set1(*p));
}

static void scale(const float *x, float s, float *y, int64_t n)
{
    each(scaled, &s, x, y, n);
}

VEC_INLINE vf capped(vf x, const float *p)
{
    vf cap = vf_set1(*p);
    return vf_mul(cap, vf_tanh(vf_div(x, cap)));
}

static void softcap(float cap, float *y, int64_t n)
{
    each(capped, &cap, y, y, n);
}

/* The activations of one input without numbers. */
#define EACH_ACT(ACT)                                                                                                  \
    ACT(ACT_SILU, vf_silu)                                                                                             \
    ACT(ACT_GELU, vf_gelu)                                                                                             \
    ACT(ACT_GELU_TANH, vf_gelu_tanh)                                                                                   \
    ACT(ACT_GELU_QUICK, vf_gelu_quick)                                                                                 \
    ACT(ACT_RELU, vf_relu)                                                                                             \
    ACT(ACT_RELU2, vf_relu2)                                                                                           \
    ACT(ACT_SIGMOID, vf_sigmoid)                                                                                       \
    ACT(ACT_SOFTPLUS, vf_softplus)                                                                                     \
    ACT(ACT_TANH, vf_tanh)                                                                                             \
    ACT(ACT_IDENTITY, vf_identity)

#define ACT(kind, f)                                                                                                   \
    VEC_INLINE vf act_##f(vf x, const float *p)                                                                        \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        return f(x);                                                                                                   \
    }                                                                                                                  \
    VEC_INLINE vf mul_##f(vf gate, vf up, const float *p)                                                              \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        return vf_mul(f(gate), up);                                                                                    \
    }
EACH_ACT(ACT)
#undef ACT

VEC_INLINE vf act_xielu(vf x, const float *p)
{
    return vf_xielu(x, p[0], p[1], p[2], p[3]);
}

static void act(enum act_kind kind, const float *xielu, const float *x, float *y, int64_t n)
{
    switch (kind) {
#define ACT(kind, f)                                                                                                   \
    case kind:                                                                                                         \
        each(act_##f, NULL, x, y, n);                                                                                  \
        break;
        EACH_ACT(ACT)
#undef ACT
    case ACT_XIELU:
        each(act_xielu, xielu, x, y, n);
        break;
    case ACT_SWIGLU_CLAMPED: /* needs what the gate multiplies */
        break;
    }
}

VEC_INLINE vf mul_swiglu_clamped(vf gate, vf up, const float *p)
{
    return vf_swiglu_clamped(gate, up, p[0], p[1]);
}

static void act_mul(const struct act *act, const float *gate, const float *up, float *y, int64_t n)
{
    const float clamped[] = {act->limit, act->alpha};
    switch (act->kind) {
#define ACT(kind, f)                                                                                                   \
    case kind:                                                                                                         \
        each2(mul_##f, NULL, gate, up, y, n);                                                                          \
        break;
        EACH_ACT(ACT)
#undef ACT
    case ACT_SWIGLU_CLAMPED:
        each2(mul_swiglu_clamped, clamped, gate, up, y, n);
        break;
    case ACT_XIELU: /* has no gate */
        break;
    }
}

VEC_INLINE vf clip_lanes(vf x, vf limit, vf low)
{
    x = vf_where_gt(x, limit, limit, x);
    return vf_where_gt(low, x, low, x);
}

static void clip(float limit, float *y, int64_t n)
{
    int64_t i, whole = n & -VEC_LANES;
    int     rest = (int)(n - whole);
    vf      hi = vf_set1(limit), lo = vf_set1(-limit);
    for (i = 0; i < whole; i += VEC_LANES)
        vf_store(y + i, clip_lanes(vf_load(y + i), hi, lo));
    if (rest)
        vf_store_part(y + i, clip_lanes(vf_load_part(y + i, rest), hi, lo), rest);
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

#define ROW_FNS                                                                                                        \
    {                                                                                                                  \
        rms_norm, layer_norm, add, scale, softcap, act, act_mul, clip, rope, to_f16, from_f16, amax, to_i8, from_i8,   \
            softmax                                                                                                    \
    }

#endif
