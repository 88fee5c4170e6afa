/* Internal: how operations with recurrent state share out a step. Every sequence's rows go in their order; who computes which
 * items (heads, slices of columns) of a sequence is free, and so is how many rows and sequences a step has. */
#ifndef MLXCEL_CPU_SCAN_H
#define MLXCEL_CPU_SCAN_H

#include "cpu/kernels.h"

#define SCAN_PARALLEL_MIN 16384 /* element operations that waking the pool costs */

/* The rows of a step that belong to one sequence. */
struct scan_rows {
    int64_t                first, n;
    char                  *state;
    const struct lora_set *lora; /* NULL: none */
};

/* An operation, and first in its struct: items [lo, hi) of a sequence. */
struct scan {
    void (*items)(const struct scan *s, const struct scan_rows *rows, int64_t lo, int64_t hi);
    struct run *run;
    int64_t     n_item;
};

static inline void scan_part(void *arg, int i, int n)
{
    const struct scan *s = arg;
    const struct step *step = s->run->step;
    long               lo, hi;
    pool_share(s->n_item, 1, i, n, &lo, &hi);
    for (int row = 0, end; lo < hi && row < step->n_row; row = end) {
        for (end = row + 1; end < step->n_row && step->seq[end] == step->seq[row]; end++)
            ;
        struct scan_rows rows = {row, end - row, step->state[step->seq[row]], run_lora(s->run, row)};
        s->items(s, &rows, lo, hi);
    }
}

/* cost: about how many element operations a row takes. */
static inline void scan_run(struct scan *s, int64_t cost)
{
    if (s->run->step->n_row * cost >= SCAN_PARALLEL_MIN)
        pool_run(((struct cpu *)s->run->backend)->pool, scan_part, s);
    else
        scan_part(s, 0, 1);
}

/* The values of a vector for a sequence, whose adapters may replace it. */
static inline const float *scan_values(const struct scan_rows *rows, const struct weight *w)
{
    return lora_weight_of(rows->lora, w)->packed;
}

/* The rows of t that are the sequence's, from column `col` on. */
static inline struct tensor scan_cols(const struct scan_rows *rows, struct tensor t, int64_t col)
{
    return (struct tensor){tensor_row(t, rows->first) + col, rows->n, t.n_col - col, t.stride};
}

#endif
