/* Writing one parameter: its rows are widened, changed where something is to be added, rounded to the output's type and
 * encoded by all threads, which put what they made at its place. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "convert/rewrite.h"

#define CHUNK_BYTES ((size_t)1 << 20) /* of output that a thread puts at once, at most */

/* --- what the planes are ---------------------------------------------------------------------------------------- */

int rewrite_plane_count(const struct rewrite_param *v)
{
    return v->form.mode == QUANT_NONE ? 1 : v->form.mode == QUANT_AFFINE ? 3 : 2;
}

size_t rewrite_plane_row_bytes(const struct rewrite_param *v, int plane)
{
    const struct quant *q = &v->form;
    if (q->mode == QUANT_NONE)
        return (size_t)v->n_in * dtype_size(v->as_is ? v->p->dtype : v->dtype);
    return plane == REWRITE_WEIGHT ? quant_row_bytes(q, v->n_in) : quant_scale_row_bytes(q, v->n_in);
}

const char *rewrite_plane_name(const struct rewrite_param *v, int plane, char out[512])
{
    static const char *const suffix[REWRITE_PLANES] = {NULL, ".scales", ".biases"};
    snprintf(out, 512, "%s%s", v->p->name, plane == REWRITE_WEIGHT ? v->p->suffix : suffix[plane]);
    return out;
}

/* --- one parameter ---------------------------------------------------------------------------------------------- */

/* What encoding lost of changed values: sums of squares of them, and of what differs. */
struct loss {
    double wanted, off;
};

struct work {
    const struct rewrite_param *v;
    struct weight               source; /* the matrix that is written, or the vector */
    int64_t                     first;  /* its first row among v's */
    const struct param_change  *change; /* NULL: none of this parameter */
    const char                 *file;   /* of the source, for messages */
    const struct rewrite_sink  *sink;
    int                         planes;
    size_t                      row[REWRITE_PLANES]; /* bytes */
    atomic_bool                 failed;
    struct error                error; /* of the first member that failed */
    pthread_mutex_t             lock;  /* of the loss */
    struct loss                 loss;
};

/* What a thread needs: rows of floats and of each plane. */
struct buffers {
    float      *values, *decoded; /* decoded: one row */
    char       *plane[REWRITE_PLANES];
    int64_t     rows;
    struct loss loss;
};

static int buffers_init(struct buffers *b, const struct work *k, struct error *e)
{
    size_t all = 0, size = 0, width = (size_t)k->v->n_in;
    for (int i = 0; i < k->planes; i++)
        all += k->row[i];
    b->rows = (int64_t)MIN(MAX(CHUNK_BYTES / MAX(all, (size_t)1), (size_t)1), (size_t)CHANGE_ROWS);
    b->rows = MIN(b->rows, k->source.n_out);
    b->values = malloc(((size_t)b->rows + 1) * width * sizeof(float) + all * (size_t)b->rows);
    if (!b->values)
        return error_nomem(e, k->v->p->name);
    b->decoded = b->values + (size_t)b->rows * width;
    for (int i = 0; i < k->planes; i++) {
        b->plane[i] = (char *)(b->decoded + width) + size;
        size += k->row[i] * (size_t)b->rows;
    }
    return 0;
}

static int bad_value(const struct work *k, int64_t row, int64_t col, float f, const char *why, struct error *e)
{
    return error_set(e, ERR_FORMAT, k->v->p->name, "%s: %s has %g in row %lld, column %lld, %s", k->file, k->v->p->name,
                     (double)f, (long long)row, (long long)col, why);
}

/* Rounds the row to the output's type, in float32. Only a dense value may be infinite or NaN, and only if it was so. */
static int round_row(const struct work *k, float *x, int64_t row, struct error *e)
{
    const struct rewrite_param *v = k->v;
    for (int64_t i = 0; i < v->n_in; i++) {
        float f = x[i];
        if (v->form.mode != QUANT_NONE && !isfinite(f))
            return bad_value(k, row, i, f, "which cannot be quantized; finite values are needed", e);
        if (v->dtype == DTYPE_F16)
            x[i] = f16_to_f32(f32_to_f16(f));
        if (v->dtype == DTYPE_BF16)
            x[i] = bf16_to_f32(f32_to_bf16(f));
        if (isfinite(f) && !isfinite(x[i]))
            return bad_value(k, row, i, f, "beyond the range of the output's type; choose a wider one with --dtype", e);
    }
    return 0;
}

/* Row `slot` of the planes in b. */
static void plane_rows(const struct work *k, const struct buffers *b, int64_t slot, char *out[REWRITE_PLANES])
{
    for (int i = 0; i < REWRITE_PLANES; i++)
        out[i] = i < k->planes ? b->plane[i] + (size_t)slot * k->row[i] : NULL;
}

static void copy_row(const struct work *k, const struct buffers *b, int64_t row, int64_t slot)
{
    const struct weight *s = &k->source;
    const void          *planes[] = {s->data, s->scales, s->biases};
    char                *out[REWRITE_PLANES];
    plane_rows(k, b, slot, out);
    for (int i = 0; i < REWRITE_PLANES; i++)
        if (out[i])
            memcpy(out[i], (const char *)planes[i] + (size_t)row * k->row[i], k->row[i]);
}

static void encode_row(const struct work *k, struct buffers *b, int64_t slot)
{
    const struct rewrite_param *v = k->v;
    const float                *x = b->values + slot * v->n_in;
    char                       *out[REWRITE_PLANES];
    plane_rows(k, b, slot, out);
    if (v->form.mode == QUANT_NONE) {
        quant_narrow(v->dtype, x, v->n_in, out[0]);
        return;
    }
    quant_encode_row(&v->form, x, v->n_in, out[0], out[1], out[2]);
    if (!k->change)
        return;
    quant_decode_row(&v->form, out[0], out[1], out[2], v->n_in, b->decoded);
    for (int64_t i = 0; i < v->n_in; i++) {
        double off = (double)x[i] - (double)b->decoded[i];
        b->loss.wanted += (double)x[i] * (double)x[i];
        b->loss.off += off * off;
    }
}

/* Rows [row, row + n) into the first n of the planes in b. */
static int make_portion(const struct work *k, struct buffers *b, int64_t row, int64_t n, struct error *e)
{
    const struct weight *s = &k->source;
    int                  err = 0;
    for (int64_t i = 0; i < n && k->v->as_is; i++)
        copy_row(k, b, row + i, i);
    if (k->v->as_is)
        return 0;
    for (int64_t i = 0; i < n && !err; i++) {
        weight_row(s, row + i, b->values + i * s->n_in);
        err = round_row(k, b->values + i * s->n_in, k->first + row + i, e);
    }
    if (!err && k->change)
        err = k->change->rows(k->change->ctx, k->v->p, k->first + row, n, k->v->dtype, b->values, e);
    for (int64_t i = 0; i < n && !err; i++)
        encode_row(k, b, i);
    return err;
}

static int make_rows(struct work *k, struct buffers *b, int64_t lo, int64_t hi, struct error *e)
{
    int err = 0;
    while (lo < hi && !err && !k->failed) {
        int64_t n = MIN(hi - lo, b->rows);
        err = make_portion(k, b, lo, n, e);
        for (int i = 0; i < k->planes && !err; i++)
            if (k->v->at[i] != REWRITE_ELSEWHERE)
                err = k->sink->put(k->sink->ctx, k->v->at[i] + (size_t)(k->first + lo) * k->row[i], b->plane[i],
                                   (size_t)n * k->row[i], e);
        lo += n;
    }
    return err;
}

static void member(void *arg, int i, int n)
{
    struct work   *k = arg;
    struct buffers b = {0};
    struct error   e = {0};
    long           lo, hi;
    pool_share((long)k->source.n_out, 1, i, n, &lo, &hi);
    if (lo == hi)
        return;
    if (!buffers_init(&b, k, &e))
        make_rows(k, &b, lo, hi, &e);
    free(b.values);
    pthread_mutex_lock(&k->lock);
    k->loss.wanted += b.loss.wanted;
    k->loss.off += b.loss.off;
    pthread_mutex_unlock(&k->lock);
    if (e.code && !atomic_exchange(&k->failed, true))
        k->error = e;
}

static void tell_loss(const struct rewrite *r, const struct work *k)
{
    if (r->o->loss && k->change && k->v->form.mode != QUANT_NONE)
        r->o->loss(r->o->ctx, k->v->p->name, k->loss.wanted > 0 ? sqrt(k->loss.off / k->loss.wanted) : 0);
}

/* The matrices one by one: what is to be made of the source's planes takes memory for one. */
static int write_matrices(struct work *k, struct pool *pool, struct error *e)
{
    int err = 0;
    for (int i = 0; i < param_stack(k->v->p) && !err; i++) {
        void *memory;
        err = planes_open(k->v->p, i, &k->source, &memory, e);
        k->first = i * k->source.n_out;
        if (!err && k->source.n_out > 0 && k->source.n_in > 0)
            pool_run(pool, member, k);
        free(memory);
        planes_of_matrix(k->v->p, i, checkpoint_release);
        if (k->failed && e)
            *e = k->error;
        err = err ? err : k->failed ? k->error.code : 0;
    }
    return err;
}

int rewrite_write_param(const struct rewrite *r, const struct rewrite_param *v, const struct rewrite_sink *sink,
                        struct pool *pool, struct error *e)
{
    struct work k = {.v = v,
                     .change = v->changed ? r->change : NULL,
                     .file = v->p->source.plane[PLANE_WEIGHT][0]->file,
                     .sink = sink,
                     .planes = rewrite_plane_count(v),
                     .lock = PTHREAD_MUTEX_INITIALIZER};
    int         err = k.change ? k.change->open(k.change->ctx, v->p, e) : 0;
    for (int i = 0; i < k.planes; i++)
        k.row[i] = rewrite_plane_row_bytes(v, i);
    if (!err)
        err = write_matrices(&k, pool, e);
    if (k.change)
        k.change->close(k.change->ctx);
    if (!err)
        tell_loss(r, &k);
    return err;
}
