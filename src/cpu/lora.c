/* Adapters of one operation: which rows have which set, the products with A shared among the threads, and what is done
 * to each output tile. See lora.h and tensor/lora.h.
 *
 * Rows that have the same set and stand together are one run; the engine puts sequences with equal sets beside each
 * other. The shares of lora_shrink are counted in products of a row of x and a row of a, over all runs, weights and
 * pairs, so that one row with many ranks is divided as evenly as many rows. Within a run rows are taken SHRINK_BLOCK at
 * a time, whose x stays in the L2 cache for all rows of a.
 */
#include "cpu/lora.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/num.h"

#define SHRINK_BLOCK 24 /* rows */
#define SHRINK_UNIT 4   /* a share's least products: rows of a that are computed side by side */

const struct lora_fns *lora_fns_for(enum cpu_level level)
{
    return KERNELS_FOR(lora, level);
}

/* --- scratch --------------------------------------------------------------------------------------------------------
 * z[n_row][LORA_WEIGHTS][n_rank], then the runs of rows. */

static int64_t z_stride(const struct cpu *c)
{
    return LORA_WEIGHTS * c->lim.n_rank;
}

int lora_reserve(struct cpu *c, struct error *e)
{
    size_t rows = (size_t)c->lim.n_row, z, runs, size;
    if (c->lim.n_rank > INT64_MAX / 64 || !num_mul(rows, (size_t)z_stride(c) * sizeof(float), &z) ||
        !num_align(z, 64, &z) || !num_mul(rows, sizeof(struct lora_rows), &runs) || !num_add(z, runs, &size) ||
        !num_align(size, 64, &size))
        return error_set(e, ERR_LIMIT, NULL, "adapters of rank %" PRId64 " are too large for steps of %" PRId64 " rows",
                         c->lim.n_rank, c->lim.n_row);
    void *scratch = aligned_alloc(64, MAX(size, (size_t)64));
    if (!scratch)
        return error_nomem(e, "the scratch of adapters");
    free(c->lora_scratch);
    c->lora_scratch = scratch;
    return 0;
}

float *lora_scratch_row(const struct cpu *c, int64_t row)
{
    return (float *)c->lora_scratch + row * z_stride(c);
}

static struct lora_rows *scratch_runs(const struct cpu *c)
{
    uintptr_t end = (uintptr_t)lora_scratch_row(c, c->lim.n_row);
    return (struct lora_rows *)((end + 63) & ~(uintptr_t)63);
}

/* --- runs of rows ---------------------------------------------------------------------------------------------------
 */

/* The pairs of a delta that act in a use, WEIGHT_LINEAR or WEIGHT_EMBED. */
#define EACH_PAIR(p, delta, use)                                                                                       \
    for (const struct lora_pair *p = (delta)->pair; p < (delta)->pair + (delta)->n_pair; p++)                          \
        if (p->uses & (unsigned)(use))

/* Notes what a set changes about weight k; returns the rank of its pairs. */
static int64_t note_set(struct lora_op *l, const struct lora_set *set, int k, const struct weight *w)
{
    int64_t rank = 0;
    for (int i = 0; i < set->n; i++) {
        const struct lora_delta *d = lora_delta_of(set, i, w);
        if (!d)
            continue;
        l->touched[k] = true;
        l->replaced[k] |= d->replace != NULL;
        EACH_PAIR(p, d, WEIGHT_LINEAR)
        rank += p->rank;
    }
    return rank;
}

bool lora_begin(struct lora_op *l, const struct run *r, int n, const struct weight *const *w, int64_t n_row)
{
    const struct cpu *c = (const struct cpu *)r->backend;
    bool              any = false;
    *l = (struct lora_op){.fns = c->lora, .z = c->lora_scratch, .z_stride = z_stride(c), .rank = c->lim.n_rank};
    l->rows = scratch_runs(c);
    for (int64_t i = 0; i < n_row; i++) {
        const struct lora_set *set = run_lora(r, i);
        struct lora_rows      *run = l->rows + l->n_rows;
        if (l->n_rows && run[-1].set == set) {
            run--;
            run->n++;
        } else {
            *run = (struct lora_rows){.row = i, .n = 1, .set = set};
            for (int k = 0; k < n && set; k++)
                run->rank += note_set(l, set, k, w[k]);
            l->n_rows++;
        }
        l->work += run->rank;
    }
    for (int k = 0; k < n; k++)
        any |= l->touched[k];
    return any;
}

/* --- products with A ------------------------------------------------------------------------------------------------
 */

/* What a thread computes: products [lo, hi) of all, of which those before `at` have been passed. */
struct share {
    int64_t lo, hi, at;
};

/* Rows of a, of a pair of so many ranks for m rows of x, that begin before product `to`. */
static int64_t ranks_before(const struct share *s, int64_t to, int64_t m, int64_t rank)
{
    int64_t j = to <= s->at ? 0 : (to - s->at + m - 1) / m;
    return MIN(j, rank);
}

/* The share of rows [row, row + m), which have one set. */
static void shrink_rows(const struct lora_op *l, int n, const struct weight *const *w, const struct lora_set *set,
                        struct tensor x, int64_t row, int64_t m, struct share *s)
{
    for (int k = 0; k < n; k++) {
        float *z = l->z + row * l->z_stride + k * l->rank;
        for (int i = 0; i < set->n; i++) {
            const struct lora_delta *d = lora_delta_of(set, i, w[k]);
            if (!d)
                continue;
            EACH_PAIR(p, d, WEIGHT_LINEAR)
            {
                int64_t j0 = ranks_before(s, s->lo, m, p->rank), j1 = ranks_before(s, s->hi, m, p->rank);
                if (j0 < j1)
                    l->fns->shrink(p, j0, j1, tensor_row(x, row), x.stride, m, set->use[i].scale * p->scale, z,
                                   l->z_stride);
                s->at += p->rank * m;
                z += p->rank;
            }
        }
    }
}

void lora_shrink(const struct lora_op *l, int n, const struct weight *const *w, struct tensor x, int member,
                 int members)
{
    struct share s = {0};
    long         lo, hi;
    pool_share((long)l->work, SHRINK_UNIT, member, members, &lo, &hi);
    s.lo = lo;
    s.hi = hi;
    for (const struct lora_rows *run = l->rows; run < l->rows + l->n_rows; run++) {
        for (int64_t i = 0, m; i < run->n && run->rank; i += m) {
            m = MIN(run->n - i, SHRINK_BLOCK);
            if (s.at >= s.hi)
                return;
            if (s.at + run->rank * m <= s.lo)
                s.at += run->rank * m;
            else
                shrink_rows(l, n, w, run->set, x, run->row + i, m, &s);
        }
    }
}

/* --- output tiles ---------------------------------------------------------------------------------------------------
 */

static const struct lora_rows *run_at(const struct lora_op *l, int64_t row)
{
    const struct lora_rows *run = l->rows;
    while (row >= run->row + run->n)
        run++;
    return run;
}

const struct weight *lora_rows_weight(const struct lora_op *l, const struct weight *w, int64_t row, int64_t *n)
{
    const struct lora_rows *run = run_at(l, row), *end = l->rows + l->n_rows;
    const struct weight    *found = lora_weight_of(run->set, w);
    int64_t                 last = run->row + run->n;
    while (last < row + *n && ++run < end && lora_weight_of(run->set, w) == found)
        last = run->row + run->n;
    *n = MIN(*n, last - row);
    return found;
}

/* Narrows out->lo and hi to the outputs of a pair, out's first being output o of the weight; false: it has none
 * there. */
static bool pair_outputs(const struct lora_pair *p, int64_t o, struct lora_out *out)
{
    out->lo = MAX(p->row - o, 0);
    out->hi = MIN(p->row + p->n_out - o, out->n);
    return out->lo < out->hi;
}

static const struct lora_out *all_outputs(struct lora_out *out)
{
    out->lo = 0;
    out->hi = out->n;
    return out;
}

/* The tile of b with output o of the weight. */
static const void *pair_tile(const struct lora_pair *p, int64_t o)
{
    size_t size = (size_t)p->rank * LORA_LANES * dtype_size(p->b_type);
    return (const char *)p->b + (size_t)(o / LORA_LANES - p->row / LORA_LANES) * size;
}

static bool has_dora(const struct lora_delta *d, enum weight_use use)
{
    return d->dora && d->n_pair && d->pair[0].uses & (unsigned)use;
}

/* The pairs of the adapters with (or without) DoRA, and their factors, for outputs from o on. z: of the set's first
 * pair. */
static void expand_pairs(const struct lora_op *l, const struct lora_set *set, const struct weight *w, bool dora,
                         int64_t o, const float *z, int64_t n, struct lora_out *out)
{
    for (int i = 0; i < set->n; i++) {
        const struct lora_delta *d = lora_delta_of(set, i, w);
        if (!d)
            continue;
        EACH_PAIR(p, d, WEIGHT_LINEAR)
        {
            if (has_dora(d, WEIGHT_LINEAR) == dora && pair_outputs(p, o, out))
                l->fns->expand(p->b_type, pair_tile(p, o + out->lo), LORA_LANES, p->rank * LORA_LANES, p->rank, z,
                               l->z_stride, n, out);
            z += p->rank;
        }
        if (dora && has_dora(d, WEIGHT_LINEAR))
            l->fns->dora(d->dora, o, set->use[i].scale, n, all_outputs(out));
    }
}

/* Bias terms that pairs bring along. */
static void add_extras(const struct lora_op *l, const struct lora_set *set, const struct weight *w, int64_t o,
                       int64_t n, struct lora_out *out)
{
    for (int i = 0; i < set->n; i++) {
        const struct lora_delta *d = lora_delta_of(set, i, w);
        if (!d)
            continue;
        EACH_PAIR(p, d, WEIGHT_LINEAR)
        {
            if (p->extra && pair_outputs(p, o, out))
                l->fns->add(p->extra + (o + out->lo - p->row), set->use[i].scale * p->scale, n, out);
        }
    }
}

/* Outputs of `out` from o on, of n rows that have one set. */
static void set_outputs(const struct lora_op *l, const struct weight *w, const struct lora_set *set, int64_t o,
                        const float *z, int64_t n, struct lora_out *out)
{
    const float *bias = lora_bias_of(set, w);
    if (set) {
        expand_pairs(l, set, w, true, o, z, n, out);
        expand_pairs(l, set, w, false, o, z, n, out);
    }
    if (bias)
        l->fns->add(bias + o, 1, n, all_outputs(out));
    if (set)
        add_extras(l, set, w, o, n, out);
}

void lora_tiles(const struct lora_op *l, int k, const struct weight *w, int64_t tile, int n_tile, int64_t row,
                int64_t n, struct tensor y)
{
    const struct lora_rows *run = run_at(l, row);
    int64_t                 o = tile * LORA_LANES;
    struct lora_out         out = {.stride = y.stride, .n = MIN(w->n_out - o, (int64_t)n_tile * LORA_LANES)};
    for (int64_t end = row + n, m; row < end; row += m, run++) {
        m = MIN(run->row + run->n, end) - row;
        out.y = tensor_row(y, row) + o;
        set_outputs(l, w, run->set, o, l->z + row * l->z_stride + k * l->rank, m, &out);
    }
}

/* --- lookups --------------------------------------------------------------------------------------------------------
 */

/* y += s b[token] A: a's columns are what the outputs of a product are, its rows stand far apart. */
static void lookup_pair(const struct lora_fns *fns, const struct lora_pair *p, float s, int64_t token, float *z,
                        float *y)
{
    const void *b = pair_tile(p, token);
    for (int64_t j = 0; j < p->rank; j++)
        z[j] = s * dtype_load(p->b_type, b, j * LORA_LANES + token % LORA_LANES);
    fns->expand(p->a_type, p->a, lora_a_row(p), LORA_LANES, p->rank, z, 0, 1,
                &(struct lora_out){y, 0, p->n_in, 0, p->n_in});
}

static float dora_factor(const struct lora_dora *d, float s, int64_t o)
{
    return d->m[o] / sqrtf(fmaf(s, fmaf(s, d->dd[o], d->wd[o] + d->wd[o]), d->ww[o]));
}

static void lookup_pairs(const struct lora_fns *fns, const struct lora_set *set, const struct weight *w, bool dora,
                         int64_t token, float *z, float *y)
{
    for (int i = 0; i < set->n; i++) {
        const struct lora_delta *d = lora_delta_of(set, i, w);
        if (!d || has_dora(d, WEIGHT_EMBED) != dora)
            continue;
        EACH_PAIR(p, d, WEIGHT_EMBED)
        if (token >= p->row && token < p->row + p->n_out)
            lookup_pair(fns, p, set->use[i].scale * p->scale, token, z, y);
        if (dora) {
            float f = dora_factor(d->dora, set->use[i].scale, token);
            for (int64_t c = 0; c < w->n_in; c++)
                y[c] *= f;
        }
    }
}

void lora_lookup(const struct lora_fns *fns, const struct lora_set *set, const struct weight *w, int64_t token,
                 float *z, float *y)
{
    lookup_pairs(fns, set, w, true, token, z, y);
    lookup_pairs(fns, set, w, false, token, z, y);
}
