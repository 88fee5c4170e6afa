/* Internal: adapters inside the operations of the CPU backend. tensor/lora.h has the arithmetic.
 *
 * A product of rows with adapters takes two steps, both within the operation's one run of the pool: before its barrier
 * the threads share the products with A (lora_shrink), whose results z are few; after it, each output tile gets its
 * part of B z and what else its rows' sets change (lora_tiles) while it is still in the cache of the thread that
 * computed it.
 */
#ifndef MLXCEL_CPU_LORA_H
#define MLXCEL_CPU_LORA_H

#include "cpu/kernels.h"

#define LORA_WEIGHTS 4 /* of one operation */

/* Outputs lo .. hi - 1 of the n that stand at y + r * stride for row r. Output 0 begins a tile. */
struct lora_out {
    float  *y;
    int64_t stride;
    int64_t n, lo, hi;
};

/* The kernels, of n_row rows each. s: the scale. */
struct lora_fns {
    /* z[r][j] = s (a[j] . x[r]) for the pair's rows j0 <= j < j1 of a. */
    void (*shrink)(const struct lora_pair *p, int64_t j0, int64_t j1, const float *x, int64_t x_stride, int64_t n_row,
                   float s, float *z, int64_t z_stride);
    /* y += z b. b: of a type, of the tile of output lo: row j of a tile is LORA_LANES elements, `b_row` elements behind
     * row j - 1; a tile is `b_tile` elements behind the one before. */
    void (*expand)(enum dtype type, const void *b, int64_t b_row, int64_t b_tile, int64_t rank, const float *z,
                   int64_t z_stride, int64_t n_row, const struct lora_out *out);
    void (*dora)(const struct lora_dora *d, int64_t o, float s, int64_t n_row,
                 const struct lora_out *out); /* y *= f[o ..] */
    void (*add)(const float *v, float s, int64_t n_row,
                const struct lora_out *out); /* y[i] = fma(s, v[i - lo], y[i]) */
};

extern const struct lora_fns lora_scalar, lora_avx2, lora_avx512, lora_neon;

/* Rows [row, row + n) of an operation, which have one set (NULL: the base). */
struct lora_rows {
    int64_t                row, n;
    int64_t                rank; /* of all pairs of its set that act in the operation */
    const struct lora_set *set;
};

/* The adapters of one operation. */
struct lora_op {
    const struct lora_fns *fns;
    struct lora_rows      *rows;
    int64_t                n_rows; /* runs of rows */
    float                 *z;      /* [rows][z_stride], of weight k from k * rank on */
    int64_t                z_stride, rank;
    int64_t                work;                                          /* products of a row of x and one of a */
    bool                   touched[LORA_WEIGHTS], replaced[LORA_WEIGHTS]; /* by the set of some row */
};

/* What the step's adapters change about products of n_row rows with n weights; false: nothing. */
bool lora_begin(struct lora_op *l, const struct run *r, int n, const struct weight *const *w, int64_t n_row);
/* Member's share of the products with A. */
void lora_shrink(const struct lora_op *l, int n, const struct weight *const *w, struct tensor x, int member,
                 int members);
/* The weight that stands for w in row `row`; *n is lowered to the rows from there on of which this holds. */
const struct weight *lora_rows_weight(const struct lora_op *l, const struct weight *w, int64_t row, int64_t *n);
/* Finishes rows [row, row + n) of n_tile tiles of weight k, where y holds the product without any bias. */
void lora_tiles(const struct lora_op *l, int k, const struct weight *w, int64_t tile, int n_tile, int64_t row,
                int64_t n, struct tensor y);
/* What a set adds to y, row `token` of an embedding; z: scratch of the set's rank. */
void   lora_lookup(const struct lora_fns *fns, const struct lora_set *set, const struct weight *w, int64_t token,
                   float *z, float *y);
float *lora_scratch_row(const struct cpu *c, int64_t row); /* z of lora_lookup */

#endif
