/* Rows of fused parameters: the arithmetic of fuse.h.
 *
 * A is laid out once for a parameter as float32 tiles of 16 inputs, [n_in / 16][rank][16], so that a tile stays in the
 * nearest cache while the outputs that were asked for go by, two at a time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapt/fuse_int.h"
#include "base/half.h"
#include "base/num.h"

#define LANES 16

typedef float v4 __attribute__((vector_size(16), may_alias));

static int64_t padded(int64_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

/* --- terms of a parameter --------------------------------------------------------------------------------------- */

struct fuse_term *fuse_terms(const struct fuse *f, const struct param *p, size_t *n)
{
    size_t lo = 0, hi = f->n_term;
    while (lo < hi) { /* the first that is not before p */
        size_t mid = lo + (hi - lo) / 2;
        if (f->term[mid].param < p)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (*n = 0; lo + *n < f->n_term && f->term[lo + *n].param == p;)
        ++*n;
    return *n ? &f->term[lo] : NULL;
}

static bool has_pair(const struct fuse_term *t)
{
    return t->kind == FUSE_DORA || t->kind == FUSE_PAIR;
}

static int lay_out(struct fuse_term *t, struct error *e)
{
    int64_t rank = t->pair->a.n_row, col = t->pair->col, size = padded(t->pair->weight->n_in);
    float  *row = malloc((size_t)MAX(size, 1) * sizeof *row);
    t->a = row ? aligned_alloc(64, (size_t)MAX(size * rank, LANES) * sizeof *t->a) : NULL;
    if (!t->a) {
        free(row);
        return error_nomem(e, t->pair->module->spelled);
    }
    memset(t->a, 0, (size_t)(size * rank) * sizeof *t->a);
    for (int64_t j = 0; j < rank; j++) {
        adapter_matrix_row(&t->pair->a, j, row);
        for (int64_t i = col; i < col + t->pair->a.n_col; i++)
            t->a[(i / LANES * rank + j) * LANES + i % LANES] = row[i - col];
    }
    free(row);
    return 0;
}

int fuse_open(void *ctx, const struct param *p, struct error *e)
{
    struct fuse *f = ctx;
    int          err = 0;
    f->open = fuse_terms(f, p, &f->n_open);
    for (size_t i = 0; i < f->n_open && !err; i++)
        if (has_pair(&f->open[i]))
            err = lay_out(&f->open[i], e);
    return err;
}

void fuse_close(void *ctx)
{
    struct fuse *f = ctx;
    for (size_t i = 0; i < f->n_open; i++) {
        const struct fuse_term *t = &f->open[i];
        free(t->a);
        f->open[i].a = NULL;
        if (t->pair) { /* the files' pages are not needed any more */
            checkpoint_release(t->pair->module->a);
            checkpoint_release(t->pair->module->b);
        }
    }
    f->n_open = 0;
}

/* --- rounding --------------------------------------------------------------------------------------------------- */

static inline float round_to(enum dtype d, float f)
{
    if (d == DTYPE_F16)
        return f16_to_f32(f32_to_f16(f));
    if (d != DTYPE_BF16)
        return f;
    uint32_t u = f32_bits(f), nan = u | 0x400000, r = u + 0x7fff + (u >> 16 & 1);
    return f32_from_bits(((u & 0x7fffffff) > 0x7f800000 ? nan : r) & 0xffff0000);
}

/* x = T(x + T(d)). Whole blocks have a fixed length, which compilers make vectors of. */
static inline void add_rounded(enum dtype t, float *x, const float *d, int64_t n)
{
    for (; n >= LANES; n -= LANES, x += LANES, d += LANES)
        for (int i = 0; i < LANES; i++)
            x[i] = round_to(t, x[i] + round_to(t, d[i]));
    for (int64_t i = 0; i < n; i++)
        x[i] = round_to(t, x[i] + round_to(t, d[i]));
}

static void add_row(enum dtype t, float *x, const float *d, int64_t n)
{
    if (t == DTYPE_BF16)
        add_rounded(DTYPE_BF16, x, d, n);
    else if (t == DTYPE_F16)
        add_rounded(DTYPE_F16, x, d, n);
    else
        add_rounded(DTYPE_F32, x, d, n);
}

/* x = T(f x) with f = m / |x|; a row of zeros stays one, as at run time. */
static void scale_to(enum dtype t, float *x, int64_t n, float m)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    float f = sum > 0 ? m / (float)sqrt(sum) : 1;
    for (int64_t i = 0; i < n; i++)
        x[i] = round_to(t, f * x[i]);
}

/* --- the product ------------------------------------------------------------------------------------------------ */

/* Two rows of delta, a tile of 16 inputs: d += s A, s [rank] of each row. */
static void tile_2(const float *s0, const float *s1, const float *a, int64_t rank, float *d0, float *d1)
{
    v4 *p = (v4 *)d0, *q = (v4 *)d1;
    v4  x0 = p[0], x1 = p[1], x2 = p[2], x3 = p[3], y0 = q[0], y1 = q[1], y2 = q[2], y3 = q[3];
    for (int64_t j = 0; j < rank; j++, a += LANES) {
        const v4 *t = (const v4 *)a;
        x0 += s0[j] * t[0];
        x1 += s0[j] * t[1];
        x2 += s0[j] * t[2];
        x3 += s0[j] * t[3];
        y0 += s1[j] * t[0];
        y1 += s1[j] * t[1];
        y2 += s1[j] * t[2];
        y3 += s1[j] * t[3];
    }
    p[0] = x0, p[1] = x1, p[2] = x2, p[3] = x3;
    q[0] = y0, q[1] = y1, q[2] = y2, q[3] = y3;
}

static void tile_1(const float *s, const float *a, int64_t rank, float *d)
{
    for (int64_t j = 0; j < rank; j++, a += LANES)
        for (int i = 0; i < LANES; i++)
            d[i] += s[j] * a[i];
}

/* delta [n][stride] += s A; s [n][rank], a in tiles. */
static void add_product(const float *s, const float *a, int64_t rank, int64_t n, int64_t stride, float *delta)
{
    for (int64_t c = 0; c < stride; c += LANES, a += rank * LANES) {
        int64_t i = 0;
        for (; i + 2 <= n; i += 2)
            tile_2(s + i * rank, s + (i + 1) * rank, a, rank, delta + i * stride + c, delta + (i + 1) * stride + c);
        if (i < n)
            tile_1(s + i * rank, a, rank, delta + i * stride + c);
    }
}

/* --- rows ------------------------------------------------------------------------------------------------------- */

/* The rows that were asked for, and memory for them. */
struct portion {
    int64_t    first, n, width, stride;
    enum dtype dtype;
    float     *values; /* [n][width] */
    float     *delta;  /* [n][stride] */
    float     *s;      /* [n][greatest rank] */
    bool      *hit;    /* [n]: delta counts */
};

static int portion_init(struct portion *o, const struct fuse *f, struct error *e)
{
    int64_t rank = 0;
    for (size_t i = 0; i < f->n_open; i++)
        rank = has_pair(&f->open[i]) ? MAX(rank, f->open[i].pair->a.n_row) : rank;
    o->stride = padded(o->width);
    size_t size = (size_t)padded(o->n * (o->stride + rank)) * sizeof *o->delta;
    o->delta = aligned_alloc(64, (size + (size_t)o->n + 63) / 64 * 64);
    if (!o->delta)
        return error_nomem(e, "rows of a fused weight");
    o->s = o->delta + o->n * o->stride;
    o->hit = (bool *)o->delta + size;
    return 0;
}

static void clear_delta(struct portion *o)
{
    memset(o->delta, 0, (size_t)(o->n * o->stride) * sizeof *o->delta);
    memset(o->hit, 0, (size_t)o->n);
}

/* The portion's rows [lo, hi) that the term changes. */
static void overlap(const struct portion *o, const struct fuse_term *t, int64_t *lo, int64_t *hi)
{
    *lo = MAX(t->first - o->first, 0);
    *hi = MIN(t->first + t->n - o->first, o->n);
}

static void add_term(struct portion *o, const struct fuse_term *t)
{
    int64_t rank = t->pair->a.n_row, lo, hi;
    overlap(o, t, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        float *s = o->s + (i - lo) * rank;
        adapter_matrix_row(&t->pair->b, o->first + i - t->first, s);
        for (int64_t j = 0; j < rank; j++)
            s[j] *= t->scale;
        o->hit[i] = true;
    }
    if (lo < hi)
        add_product(o->s, t->a, rank, hi - lo, o->stride, o->delta + lo * o->stride);
}

static void apply_delta(struct portion *o)
{
    for (int64_t i = 0; i < o->n; i++)
        if (o->hit[i])
            add_row(o->dtype, o->values + i * o->width, o->delta + i * o->stride, o->width);
}

static void apply_magnitude(struct portion *o, const struct fuse_term *t)
{
    int64_t lo, hi;
    overlap(o, t, &lo, &hi);
    for (int64_t i = lo; i < hi; i++)
        scale_to(o->dtype, o->values + i * o->width, o->width,
                 adapter_matrix_at(&t->pair->magnitude, o->first + i - t->first, 0));
}

static void replace(struct portion *o, const struct fuse_term *t)
{
    const struct adapter_replaced *r = t->replaced;
    int64_t                        begin = o->first * o->width, end = begin + o->n * o->width;
    int64_t                        lo = MAX(t->first, begin), hi = MIN(t->first + t->n, end);
    if (lo >= hi)
        return;
    float *x = o->values + (lo - begin);
    quant_widen(r->dtype, (const char *)r->data + (size_t)(lo - t->first) * dtype_size(r->dtype), hi - lo, x);
    for (int64_t i = 0; i < hi - lo; i++)
        x[i] = round_to(o->dtype, x[i]);
}

/* A bias is one row. */
static void add_extra(struct portion *o, const struct fuse_term *t)
{
    for (int64_t i = 0; i < t->n; i++) {
        float extra = t->scale * adapter_matrix_at(&t->pair->extra, i, 0);
        add_row(o->dtype, &o->values[t->first + i], &extra, 1);
    }
}

static int check_finite(const struct portion *o, const struct param *p, struct error *e)
{
    int64_t i = 0, n = o->n * o->width;
    while (i < n && isfinite(o->values[i]))
        i++;
    if (i == n)
        return 0;
    long long row = o->first + i / o->width, col = i % o->width;
    return error_set(e, ERR_INVALID, p->name, "%s: fused, row %lld, column %lld is %g in %s, beyond its range", p->name,
                     row, col, (double)o->values[i], dtype_name(o->dtype));
}

int fuse_rows(const void *ctx, const struct param *p, int64_t first, int64_t n, enum dtype dtype, float *values,
              struct error *e)
{
    const struct fuse      *f = ctx;
    const struct fuse_term *t = f->open, *end = f->open + f->n_open;
    struct portion          o = {.first = first, .n = n, .dtype = dtype, .values = values};
    o.width = param_is_matrix(p) ? p->shape[p->n_dim - 1] : param_elements(p);
    int err = portion_init(&o, f, e);
    if (err)
        return err;
    for (; t < end && t->kind == FUSE_REPLACE; t++)
        replace(&o, t);
    for (; t < end && t->kind == FUSE_DORA; t++) {
        clear_delta(&o);
        add_term(&o, t);
        apply_delta(&o);
        apply_magnitude(&o, t);
    }
    clear_delta(&o);
    for (; t < end && t->kind == FUSE_PAIR; t++)
        add_term(&o, t);
    apply_delta(&o);
    for (; t < end; t++)
        add_extra(&o, t);
    free(o.delta);
    return check_finite(&o, p, e);
}
