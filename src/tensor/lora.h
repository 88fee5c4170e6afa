/* Adapters as operations see them.
 *
 * A loaded adapter never touches a bound weight. It is a table with one place for every weight of the model
 * (weight.index): NULL, or what it changes there. A row of a step names the set of adapters, each with a scale, that
 * count for it; rows without a set are the base model's, with the base model's bytes.
 *
 * For a row with the set {(A1, s1), (A2, s2), ...}, in this order, a product with W becomes
 *
 *     y = W x                                         W the base's weight, or the one that an adapter puts in its place
 *     y = f (y + s B A x)                             an adapter with DoRA (at most one in a set), f as in lora_dora
 *     y = y + s B A x                                 then every other pair, adapters in the set's order
 *     y = y + bias                                    the base's, or the one that an adapter puts in its place
 *     y = y + s extra                                 bias terms that pairs bring along
 *
 * and a lookup of row t of an embedding the first three of these, with row t of W for W x and row t of B for B A x's
 * s B[t] A. All in float32, whatever type a and b are stored in; s is the set's scale times the pair's, rounded. Sums
 * have one order for every number of rows, threads and tiles, and every level of a machine:
 *
 *     z[j] = s * tree of 16 chains, chain l over inputs l, l + 16, ... (vf_sum's tree); lookup: s b[t][j]
 *     t[o] = (p0 + p1) + (p2 + p3), chain p_i over j = i, i + 4, ...;  y[o] = y[o] + t[o]
 *     y[o] = fma(s, extra[o], y[o])
 *
 * where every chain is acc = fma(., ., acc) from 0. Outputs that a pair does not change are not touched by it.
 *
 * LoRA: Hu et al. 2021. DoRA: Liu et al. 2024.
 */
#ifndef MLXCEL_TENSOR_LORA_H
#define MLXCEL_TENSOR_LORA_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/weight.h"

#define LORA_LANES 16 /* inputs of a row of a are padded with zeros to a multiple of it; outputs of a tile of b */

/* delta W[row .. row + n_out) += scale * B A, with A [rank, n_in] and B [n_out, rank]. */
struct lora_pair {
    int64_t     n_in, n_out, rank;
    int64_t     row;            /* the weight's first output that it changes: not 0 for a part of a fused projection */
    enum dtype  a_type, b_type; /* F32, F16, BF16 */
    const void *a;              /* [rank][n_in padded to LORA_LANES], 64-byte aligned */
    /* [tiles][rank][LORA_LANES]; tile 0 is the weight's tile row / LORA_LANES; lanes outside the n_out are 0 */
    const void  *b;
    float        scale; /* the adapter's own; a set's scale multiplies it */
    unsigned     uses;  /* WEIGHT_LINEAR, WEIGHT_EMBED: where it acts when the weight is an embedding and a head, too */
    const float *extra; /* [n_out] added to the outputs with the scale, or NULL (PEFT's lora_bias) */
};

/* Elements of a row of a. */
static inline int64_t lora_a_row(const struct lora_pair *p)
{
    return (p->n_in + LORA_LANES - 1) / LORA_LANES * LORA_LANES;
}

/* f[o] = m[o] / sqrt(ww[o] + 2 s wd[o] + s^2 dd[o]), by fma(s, fma(s, dd, wd + wd), ww): the root is the norm of row o
 * of W + s B A, of which ww, wd and dd are the inner products w.w, w.(BA) and (BA).(BA), with the
 * pairs' own scales in them; s is the set's scale. Rows that the adapter leaves alone have m = ww = 1, wd = dd = 0.
 * Acts where the delta's pairs do (pair.uses). */
struct lora_dora {
    const float *m, *ww, *wd, *dd; /* [weight's n_out] */
};

/* What one adapter changes about one weight. */
struct lora_delta {
    int                     n_pair;
    const struct lora_pair *pair;
    const struct lora_dora *dora; /* NULL: LoRA */
    /* Instead of the weight, at any scale; or NULL. Dense, as the weight is, of its shape and prepared; its bias does
     * not count. */
    const struct weight *replace;
    const float         *bias; /* [n_out] instead of the weight's bias, at any scale; or NULL */
};

struct lora {
    int                             n_weight; /* of the model: weight.index < n_weight */
    const struct lora_delta *const *delta;    /* [n_weight], NULL: unchanged */
    int                             rank;     /* the greatest sum of ranks of one weight */
};

struct lora_use {
    const struct lora *lora;
    float              scale; /* not 0 */
};

/* Immutable while a step uses it. In the order that makes results independent of the order of loading
 * (adapt/adapt.h). */
struct lora_set {
    int             n;
    int             rank; /* sum of the ranks: what a row needs of scratch for each weight */
    struct lora_use use[];
};

/* What use i of a set changes about w: NULL for nothing. */
static inline const struct lora_delta *lora_delta_of(const struct lora_set *set, int i, const struct weight *w)
{
    return set->use[i].lora->delta[w->index];
}

/* The weight that stands for w in rows of a set (NULL: none). */
static inline const struct weight *lora_weight_of(const struct lora_set *set, const struct weight *w)
{
    for (int i = 0; set && i < set->n; i++) {
        const struct lora_delta *d = lora_delta_of(set, i, w);
        if (d && d->replace)
            return d->replace;
    }
    return w;
}

/* The bias that counts for w in rows of a set (NULL: none): w's or the one that an adapter puts in its place. */
static inline const float *lora_bias_of(const struct lora_set *set, const struct weight *w)
{
    for (int i = 0; set && i < set->n; i++) {
        const struct lora_delta *d = lora_delta_of(set, i, w);
        if (d && d->bias)
            return d->bias;
    }
    return w->bias;
}

#endif
