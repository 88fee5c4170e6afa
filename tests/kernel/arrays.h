/* Arrays of any length for the checks of row kernels. */
#ifndef MLXCEL_TESTS_ARRAYS_H
#define MLXCEL_TESTS_ARRAYS_H

#include "harness.h"

#define N_MAX 1200
#define CASES 150

static inline int some_length(struct kc *k)
{
    int n = kc_pick(k, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 128, 576, 0);
    return n ? n : 1 + kc_below(k, N_MAX);
}

/* Two inputs, a weight and two outputs of n floats each: what the level gives and what scalar gives. */
struct arrays {
    int    n;
    float *a, *b, *got, *want;
    double ref[N_MAX], bound[N_MAX];
};

static inline void arrays_new(struct kc *k, struct arrays *x, double extreme)
{
    x->n = some_length(k);
    kc_notef(k, "n %d", x->n);
    x->a = kc_floats(x->n);
    x->b = kc_floats(x->n);
    x->got = kc_floats(x->n);
    x->want = kc_floats(x->n);
    kc_fill(k, x->a, x->n, extreme);
    kc_fill(k, x->b, x->n, extreme);
}

static inline void arrays_check(struct kc *k, struct arrays *x)
{
    kc_close(k, "against double", x->got, x->ref, x->bound, x->n);
    kc_same_floats(k, "against scalar", x->got, x->want, x->n);
    kc_unguard(k, x->a);
    kc_unguard(k, x->b);
    kc_unguard(k, x->got);
    kc_unguard(k, x->want);
}

#endif
