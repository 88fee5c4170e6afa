/* The kernels of ssm.h on vec.h's lanes; included once by the file of each instruction set, which names the table. */
#ifndef MLXCEL_CPU_SSM_KERNELS_H
#define MLXCEL_CPU_SSM_KERNELS_H

#include "base/num.h"
#include "cpu/ssm.h"
#include "cpu/vec_math.h"

/* One output row over the inputs in[0 .. width), the oldest first. */
VEC_INLINE void conv_row(const struct conv_scan *s, float (*w)[CONV_COLS], const float *const *in, float *y)
{
    for (int i = 0; i < s->n_col; i += VEC_LANES) {
        int n = s->n_col - i;
        vf  acc = vf_set1(0);
        for (int j = 0; j < s->width; j++)
            acc = vf_fma(vf_load(w[j] + i), vf_load(in[j] + i), acc);
        if (s->bias)
            acc = vf_add(acc, vf_load_upto(s->bias + i, n));
        vf_store_upto(y + i, s->silu ? vf_silu(acc) : acc, n);
    }
}

static void conv(const struct conv_scan *s)
{
    float        w[CONV_WIDTH_MAX][CONV_COLS] = {{0}}, held[CONV_WIDTH_MAX][CONV_COLS] = {{0}};
    const float *in[CONV_WIDTH_MAX];
    size_t       bytes = (size_t)s->n_col * sizeof(float);
    int          last = s->width - 1;
    for (int i = 0; i < s->n_col; i++)
        for (int j = 0; j < s->width; j++)
            w[j][i] = s->w[i * s->width + j];
    for (int j = 0; j < last; j++)
        memcpy(held[j], s->state + j * s->n_state_col, bytes);
    for (int j = 0; j < s->width; j++)
        in[j] = held[j];
    for (int64_t t = 0; t < s->x.n_row; t++) {
        memcpy((float *)in[last], tensor_row(s->x, t), bytes); /* y may be x */
        conv_row(s, w, in, tensor_row(s->y, t));
        const float *oldest = in[0];
        memmove(in, in + 1, (size_t)last * sizeof *in);
        in[last] = oldest;
    }
    for (int j = 0; j < last; j++)
        memcpy(s->state + j * s->n_state_col, in[j], bytes);
}

/* s = s decay + xdt b,  acc += s c */
VEC_INLINE vf ssm_step(float *state, vf decay, vf xdt, float b, float c, vf acc)
{
    vf s = vf_fma(xdt, vf_set1(b), vf_mul(vf_load(state), decay));
    vf_store(state, s);
    return vf_fma(s, vf_set1(c), acc);
}

static void mamba1(const struct mamba1_scan *s)
{
    float a[MAMBA1_STATE_MAX][VEC_LANES] = {{0}};
    for (int i = 0; i < s->n_col; i++)
        for (int n = 0; n < s->n_state; n++)
            a[n][i] = s->a_log[i * s->n_state + n];
    for (int n = 0; n < s->n_state; n++)
        vf_store(a[n], vf_sub(vf_set1(0), vf_exp(vf_load(a[n]))));
    vf d = vf_load_upto(s->d, s->n_col);
    for (int64_t t = 0; t < s->x.n_row; t++) {
        const float *b = tensor_row(s->b, t), *c = tensor_row(s->c, t);
        vf           x = vf_load_upto(tensor_row(s->x, t), s->n_col);
        vf           dt = vf_softplus(vf_load_upto(tensor_row(s->dt, t), s->n_col));
        vf           xdt = vf_mul(dt, x), acc = vf_set1(0);
        for (int n = 0; n < s->n_state; n++)
            acc = ssm_step(s->state + n * VEC_LANES, vf_exp(vf_mul(dt, vf_load(a[n]))), xdt, b[n], c[n], acc);
        vf_store_upto(tensor_row(s->y, t), vf_fma(d, x, acc), s->n_col);
    }
}

#define MAMBA2_ROWS 64 /* whose time steps are made at once */

/* The time steps and decays of n rows from row t on. */
VEC_INLINE void mamba2_times(const struct mamba2_scan *s, int64_t t, int n, float *dt, float *decay)
{
    vf a = vf_sub(vf_set1(0), vf_exp(vf_set1(s->a_log)));
    for (int i = 0; i < n; i++)
        dt[i] = *tensor_row(s->dt, t + i);
    for (int i = 0; i < n; i += VEC_LANES) {
        vf v = vf_softplus(vf_add(vf_load(dt + i), vf_set1(s->dt_bias)));
        v = vf_max(vf_set1(s->dt_min), v);
        v = vf_sub(vf_set1(0), vf_max(vf_set1(-s->dt_max), vf_sub(vf_set1(0), v)));
        vf_store(dt + i, v);
        vf_store(decay + i, vf_exp(vf_mul(v, a)));
    }
}

/* One row over two slices of channels, or one. */
VEC_INLINE void mamba2_row(const struct mamba2_scan *s, int64_t t, bool two, vf dt, vf decay)
{
    const float *b = tensor_row(s->b, t), *c = tensor_row(s->c, t), *x = tensor_row(s->x, t);
    float       *y = tensor_row(s->y, t), *s0 = s->state, *s1 = s0 + (int64_t)s->n_state * VEC_LANES;
    int          n0 = s->n_col, n1 = n0 - VEC_LANES;
    vf           x0 = vf_load_upto(x, n0), x1 = two ? vf_load_upto(x + VEC_LANES, n1) : x0, d = vf_set1(s->d);
    vf           xdt0 = vf_mul(dt, x0), xdt1 = vf_mul(dt, x1), y0 = vf_set1(0), y1 = y0;
    for (int n = 0; n < s->n_state; n++) {
        y0 = ssm_step(s0 + n * VEC_LANES, decay, xdt0, b[n], c[n], y0);
        if (two)
            y1 = ssm_step(s1 + n * VEC_LANES, decay, xdt1, b[n], c[n], y1);
    }
    vf_store_upto(y, vf_fma(d, x0, y0), n0);
    if (two)
        vf_store_upto(y + VEC_LANES, vf_fma(d, x1, y1), n1);
}

static void mamba2(const struct mamba2_scan *s)
{
    float dt[MAMBA2_ROWS] = {0}, decay[MAMBA2_ROWS];
    for (int64_t t = 0; t < s->x.n_row; t += MAMBA2_ROWS) {
        int n = (int)MIN(s->x.n_row - t, MAMBA2_ROWS);
        mamba2_times(s, t, n, dt, decay);
        if (s->n_col > VEC_LANES)
            for (int i = 0; i < n; i++)
                mamba2_row(s, t + i, true, vf_set1(dt[i]), vf_set1(decay[i]));
        else
            for (int i = 0; i < n; i++)
                mamba2_row(s, t + i, false, vf_set1(dt[i]), vf_set1(decay[i]));
    }
}

#define SSM_FNS                                                                                                        \
    {                                                                                                                  \
        conv, mamba1, mamba2                                                                                           \
    }

#endif
