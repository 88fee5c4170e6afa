/* Functions of 16 lanes on vec.h: activations and what they are made of. Written once, so the same bits at every level.
 *
 * Errors, in half units in the last place of the exact result (kernelcheck's bounds), where that is a normal number:
 *
 *   sigmoid 6, softplus 6, tanh 6, expm1 6    gelu, gelu_tanh, gelu_quick 8 + the rounded argument of exp: up to x^2 / 2
 *
 * NaN gives NaN. The coefficients were found by weighted least squares, iterated towards the least greatest error.
 */
#ifndef MLXCEL_CPU_VEC_MATH_H
#define MLXCEL_CPU_VEC_MATH_H

#include "base/num.h"
#include "cpu/vec.h"

VEC_INLINE vf vf_abs(vf x)
{
    return vf_max(x, vf_sub(vf_set1(0), x));
}

/* b where a lane of a or b is NaN. */
VEC_INLINE vf vf_min(vf a, vf b)
{
    return vf_where_gt(b, a, a, b);
}

/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1), by Horner's rule with fma. */
VEC_INLINE vf vf_poly(vf x, const float *c, int n)
{
    vf y = vf_set1(c[n - 1]);
    VEC_UNROLL
    for (int i = n - 2; i >= 0; i--)
        y = vf_fma(y, x, vf_set1(c[i]));
    return y;
}

/* 1 / (1 + e^-x). */
VEC_INLINE vf vf_sigmoid(vf x)
{
    vf one = vf_set1(1);
    return vf_div(one, vf_add(one, vf_exp(vf_sub(vf_set1(0), x))));
}

/* e^x - 1: exp's polynomial without its 1 where |x| <= 0.3466. */
VEC_INLINE vf vf_expm1(vf x)
{
    static const float q[] = {MATH_Q0, MATH_Q1, MATH_Q2, MATH_Q3, MATH_Q4};
    vf                 near = vf_fma(vf_mul(vf_poly(x, q, ARRAY_LEN(q)), x), x, x);
    return vf_where_gt(vf_abs(x), vf_set1(0.3466f), vf_sub(vf_exp(x), vf_set1(1)), near);
}

/* x + x^3 p(x^2) up to 0.625, p of relative error 4e-9; beyond it 1 - 2 / (e^(2 |x|) + 1) with the sign of x. */
VEC_INLINE vf vf_tanh(vf x)
{
    static const float p[] = {-0x1.555532p-2f, 0x1.110726p-3f, -0x1.b83c5ap-5f, 0x1.52269ep-6f, -0x1.75e1d6p-8f};
    vf                 zero = vf_set1(0), one = vf_set1(1), z = vf_abs(x), xx = vf_mul(x, x);
    vf                 near = vf_fma(vf_mul(x, xx), vf_poly(xx, p, ARRAY_LEN(p)), x);
    vf                 far = vf_sub(one, vf_div(vf_set1(2), vf_add(vf_exp(vf_add(z, z)), one)));
    far = vf_where_gt(x, zero, far, vf_sub(zero, far));
    return vf_where_gt(z, vf_set1(0.625f), far, near);
}

/* log(1 + e^x) = max(x, 0) + log(1 + u), u = e^-|x|; log(1 + u) = 2 atanh(s) = 2 s + s^3 p(s^2), s = u / (2 + u). */
VEC_INLINE vf vf_softplus(vf x)
{
    static const float p[] = {0x1.555502p-1f, 0x1.99d208p-2f, 0x1.1ebd14p-2f, 0x1.1ed79ep-2f};
    vf                 zero = vf_set1(0), u = vf_exp(vf_sub(zero, vf_abs(x)));
    vf                 s = vf_div(u, vf_add(vf_set1(2), u)), ss = vf_mul(s, s);
    vf                 log1p = vf_fma(vf_mul(s, ss), vf_poly(ss, p, ARRAY_LEN(p)), vf_add(s, s));
    return vf_add(vf_max(zero, x), log1p);
}

VEC_INLINE vf vf_identity(vf x)
{
    return x;
}

VEC_INLINE vf vf_relu(vf x)
{
    return vf_max(vf_set1(0), x);
}

VEC_INLINE vf vf_relu2(vf x)
{
    vf y = vf_relu(x);
    return vf_mul(y, y);
}

/* x Phi(x) = max(x, 0) - z Phi(-z), z = |x|, without cancellation anywhere. Phi(-z) = e^(-z^2 / 2) p(1 / (1 + 0.3 z)), p of
 * relative error 3e-9 up to z = 15, where the result is 0 already; the square's rounding error is e's factor 1 - error. */
VEC_INLINE vf vf_gelu(vf x)
{
    static const float p[] = {0x1.1054220p-21f, 0x1.ea3030p-4f, 0x1.ea410cp-4f,  0x1.c0ba6cp-4f,
                              0x1.4b322ep-4f,   0x1.71b314p-4f, -0x1.1e9f8ap-4f, 0x1.7437140p-3f,
                              -0x1.c57aa6p-3f,  0x1.c1b592p-4f, -0x1.4a8154p-6f};
    vf                 zero = vf_set1(0), one = vf_set1(1), half = vf_set1(0.5f), z = vf_min(vf_set1(15), vf_abs(x));
    vf                 zz = vf_mul(z, z), error = vf_mul(half, vf_fma(z, z, vf_sub(zero, zz)));
    vf                 e = vf_exp(vf_sub(zero, vf_mul(half, zz)));
    vf tail = vf_mul(vf_sub(e, vf_mul(e, error)), vf_poly(vf_div(one, vf_fma(vf_set1(0.3f), z, one)), p, ARRAY_LEN(p)));
    return vf_sub(vf_max(zero, x), vf_mul(z, tail));
}

/* x (1 + tanh(u)) / 2 = x / (1 + e^(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3). */
VEC_INLINE vf vf_gelu_tanh(vf x)
{
    vf one = vf_set1(1), v = vf_mul(vf_set1(-1.5957691216f), x);
    v = vf_mul(v, vf_fma(vf_mul(vf_set1(0.044715f), x), x, one));
    return vf_div(x, vf_add(one, vf_exp(v)));
}

/* x sigmoid(1.702 x). */
VEC_INLINE vf vf_gelu_quick(vf x)
{
    return vf_div(x, vf_add(vf_set1(1), vf_exp(vf_mul(vf_set1(-1.702f), x))));
}

/* min(g, limit) sigmoid(alpha min(g, limit)) (u + 1), u within +-limit. */
VEC_INLINE vf vf_swiglu_clamped(vf g, vf u, float limit, float alpha)
{
    vf one = vf_set1(1), most = vf_set1(limit);
    g = vf_min(most, g);
    u = vf_max(vf_set1(-limit), vf_min(most, u));
    return vf_mul(vf_div(g, vf_add(one, vf_exp(vf_mul(vf_set1(-alpha), g)))), vf_add(u, one));
}

/* beta x + (alpha_p x^2 where x > 0, alpha_n (e^min(x, eps) - 1 - x) elsewhere). */
VEC_INLINE vf vf_xielu(vf x, float alpha_p, float alpha_n, float beta, float eps)
{
    vf zero = vf_set1(0), pos = vf_mul(vf_mul(vf_set1(alpha_p), x), x);
    vf neg = vf_mul(vf_set1(alpha_n), vf_sub(vf_expm1(vf_min(vf_set1(eps), x)), x));
    return vf_fma(vf_set1(beta), x, vf_where_gt(x, zero, pos, neg));
}

#endif
