/* The kernels of delta.h on vec.h's lanes; included once by the file of each instruction set, which names the table. */
#ifndef MLXCEL_CPU_DELTA_KERNELS_H
#define MLXCEL_CPU_DELTA_KERNELS_H

#include "cpu/delta.h"
#include "cpu/vec_math.h"

static void unit(float *x, float eps, float scale, int64_t n)
{
    vf sum = vf_set1(0);
    for (int64_t i = 0; i < n; i += VEC_LANES) {
        vf v = vf_load_upto(x + i, n - i);
        sum = vf_fma(v, v, sum);
    }
    vf r = vf_set1(1.0f / sqrtf(vf_sum(sum) + eps)), s = vf_set1(scale);
    for (int64_t i = 0; i < n; i += VEC_LANES)
        vf_store_upto(x + i, vf_mul(vf_mul(vf_load_upto(x + i, n - i), r), s), n - i);
}

static void decay(const float *a_log, bool one, const float *dt, float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += VEC_LANES) {
        vf rate = vf_exp(one ? vf_set1(*a_log) : vf_load_upto(a_log + i, n - i));
        vf step = vf_softplus(vf_add(vf_load_upto(x + i, n - i), vf_load_upto(dt + i, n - i)));
        vf_store_upto(x + i, vf_exp(vf_sub(vf_set1(0), vf_mul(rate, step))), n - i);
    }
}

/* The key of row t under its decay; zeros after the last row, whose prediction nobody wants. */
VEC_INLINE void decayed_key(const struct delta_scan *s, int64_t t, float *out)
{
    if (t == s->y.n_row) {
        memset(out, 0, (size_t)s->k_dim * sizeof *out);
        return;
    }
    const float *k = tensor_row(s->k, t), *g = tensor_row(s->decay, t);
    for (int i = 0; i < s->k_dim; i += VEC_LANES) {
        int n = s->k_dim - i;
        vf_store_upto(out + i, vf_mul(vf_load_upto(k + i, n), s->per_channel ? vf_load_upto(g + i, n) : vf_set1(*g)),
                      n);
    }
}

/* What the state S predicts for the next row's values: the sums of S[d] key[d]. */
VEC_INLINE void predict(const struct delta_scan *s, int w, const float *key, vf *sum)
{
    VEC_UNROLL for (int i = 0; i < w; i++) sum[i] = vf_set1(0);
    for (int d = 0; d < s->k_dim; d++)
        VEC_UNROLL for (int i = 0; i < w; i++)
        {
            vf S = vf_load(s->state + ((int64_t)i * s->k_dim + d) * VEC_LANES);
            sum[i] = vf_fma(S, vf_set1(key[d]), sum[i]);
        }
}

/* Row t in one pass over w slices of the state: S = S g + k u; y = the sums of S q, and of S `next` for the row that
 * follows. */
VEC_INLINE void advance(const struct delta_scan *s, int w, bool per_channel, int64_t t, const vf *u, const float *next,
                        vf *y, vf *sum)
{
    const float *q = tensor_row(s->q, t), *k = tensor_row(s->k, t), *g = tensor_row(s->decay, t);
    VEC_UNROLL for (int i = 0; i < w; i++) y[i] = sum[i] = vf_set1(0);
    for (int d = 0; d < s->k_dim; d++) {
        vf decayed = vf_set1(g[per_channel ? d : 0]), key = vf_set1(k[d]);
        VEC_UNROLL for (int i = 0; i < w; i++)
        {
            float *at = s->state + ((int64_t)i * s->k_dim + d) * VEC_LANES;
            vf     S = vf_fma(key, u[i], vf_mul(vf_load(at), decayed));
            vf_store(at, S);
            y[i] = vf_fma(S, vf_set1(q[d]), y[i]);
            sum[i] = vf_fma(S, vf_set1(next[d]), sum[i]);
        }
    }
}

VEC_INLINE void scan_slices(const struct delta_scan *s, int w, bool per_channel)
{
    float key[DELTA_K_DIM_MAX];
    vf    sum[2], u[2], y[2];
    decayed_key(s, 0, key);
    predict(s, w, key, sum);
    for (int64_t t = 0; t < s->y.n_row; t++) {
        vf beta = vf_set1(*tensor_row(s->beta, t));
        VEC_UNROLL for (int i = 0; i < w; i++)
        {
            vf v = vf_load_upto(tensor_row(s->v, t) + i * VEC_LANES, s->n_col - i * VEC_LANES);
            u[i] = vf_mul(vf_sub(v, sum[i]), beta);
        }
        decayed_key(s, t + 1, key);
        advance(s, w, per_channel, t, u, key, y, sum);
        VEC_UNROLL for (int i = 0; i < w; i++)
            vf_store_upto(tensor_row(s->y, t) + i * VEC_LANES, y[i], s->n_col - i * VEC_LANES);
    }
}

static void scan(const struct delta_scan *s)
{
    if (s->n_col > VEC_LANES)
        s->per_channel ? scan_slices(s, 2, true) : scan_slices(s, 2, false);
    else
        s->per_channel ? scan_slices(s, 1, true) : scan_slices(s, 1, false);
}

#define DELTA_FNS                                                                                                      \
    {                                                                                                                  \
        unit, decay, scan                                                                                              \
    }

#endif
