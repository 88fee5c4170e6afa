/* Packing: from a checkpoint's planes to the tiles of linear.h, once at load, rows of tiles in parallel.
 *
 * The form of a parameter is fixed here, by its planes, the precision and the level:
 *
 *   exact precision, quantized   dense float32, dequantized
 *   affine                       affine, in bit planes
 *   mxfp4, nvfp4                 e2m1
 *   mxfp8                        dense, E4M3 with a scale for each block
 *   bfloat16, fp8                bf16 where the level multiplies such and the precision is the default one
 *   dense                        dense in its stored type (fp8: bfloat16)
 *   vector (norms)               float32
 *
 * A packed form never points into the planes, so that the loader may let them go. Embedding lookups read the planes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cpu/linear.h"

/* Integer codes. */
static void plan_codes(struct packed *p, const struct quant *q)
{
    bool affine = q->mode == QUANT_AFFINE;
    p->form = affine ? LINEAR_AFFINE : LINEAR_E2M1;
    p->dtype = q->scale_dtype;
    p->bits = q->bits;
    p->group_blocks = MAX(q->group / LINEAR_BLOCK, 1);
    p->parts = q->group < LINEAR_BLOCK ? LINEAR_BLOCK / q->group : 1;
    p->block_size = (size_t)p->bits * LINEAR_QUAD_BYTES;
    p->group_size =
        (size_t)p->group_blocks * p->block_size + (size_t)(affine ? 2 : p->parts) * LINEAR_TILE * dtype_size(p->dtype);
}

/* Fills in everything but the data. False when the size overflows. */
static bool plan(struct packed *p, const struct weight *w, const struct cpu *c, size_t *size)
{
    bool quantized = w->quant.mode != QUANT_NONE && w->quant.mode != QUANT_FP8;
    *p = (struct packed){
        .n_out = w->n_out, .n_in = w->n_in, .n_tile = w->n_out / LINEAR_TILE + (w->n_out % LINEAR_TILE != 0)};
    if (!quantized || c->precision == PRECISION_EXACT) {
        p->form = LINEAR_DENSE;
        p->dtype = quantized ? DTYPE_F32 : w->quant.mode == QUANT_FP8 ? DTYPE_BF16 : w->dtype;
        if (p->dtype == DTYPE_BF16 && c->bf16)
            p->form = LINEAR_BF16;
        if (!num_mul((size_t)(p->form == LINEAR_BF16 ? 2 * linear_pairs(w->n_in) : w->n_in),
                     LINEAR_TILE * dtype_size(p->dtype), &p->tile_size))
            return false;
    } else if (w->quant.mode == QUANT_MXFP8) {
        p->form = LINEAR_DENSE;
        p->dtype = DTYPE_F8_E4M3;
        if (!num_mul((size_t)(w->n_in / LINEAR_BLOCK), (size_t)LINEAR_FP8_BLOCK, &p->tile_size))
            return false;
    } else {
        plan_codes(p, &w->quant);
        if (!num_mul((size_t)(linear_blocks(w->n_in) / p->group_blocks), p->group_size, &p->tile_size))
            return false;
    }
    return num_mul(p->tile_size, (size_t)p->n_tile, size) && num_add(*size, sizeof *p, size) &&
           num_align(*size, 64, size);
}

struct pack {
    const struct weight *w;
    struct packed       *p;
    unsigned char       *scratch; /* tile_scratch bytes for each member */
    size_t               tile_scratch;
};

static void pack_tiles(void *arg, int i, int n)
{
    const struct pack *k = arg;
    struct packed     *p = k->p;
    long               lo, hi;
    pool_share((long)p->n_tile, 1, i, n, &lo, &hi);
    for (long t = lo; t < hi; t++)
        linear_tile_pack(p, k->w, t, k->scratch + (size_t)i * k->tile_scratch, p->data + (size_t)t * p->tile_size);
}

/* --- the backend's functions ----------------------------------------------------------------------------------------
 */

static int too_large(const struct weight *w, struct error *e)
{
    return error_set(e, ERR_LIMIT, w->name, "'%s' [%" PRId64 ", %" PRId64 "] is too large for this machine", w->name,
                     w->n_out, w->n_in);
}

static bool vector_size(const struct weight *w, size_t *size)
{
    return num_mul((size_t)w->n_out, (size_t)w->n_in, size) && num_mul(*size, sizeof(float), size);
}

static void *weights_alloc(struct cpu *c, size_t size)
{
    pthread_mutex_lock(&c->weights_lock);
    void *p = huge_alloc(&c->weights, size);
    pthread_mutex_unlock(&c->weights_lock);
    return p;
}

static void weights_free(struct cpu *c, void *p)
{
    pthread_mutex_lock(&c->weights_lock);
    huge_free(&c->weights, p);
    pthread_mutex_unlock(&c->weights_lock);
}

static int prepare_vector(struct cpu *c, struct weight *w, struct error *e)
{
    size_t size;
    if (w->quant.mode != QUANT_NONE)
        return error_set(e, ERR_UNSUPPORTED, w->name, "'%s' is quantized, needed a float vector", w->name);
    if (!vector_size(w, &size))
        return too_large(w, e);
    float *v = weights_alloc(c, size);
    if (!v)
        return error_nomem(e, w->name);
    quant_widen(w->dtype, w->data, w->n_out * w->n_in, v);
    for (int64_t i = 0; w->plus != 0 && i < w->n_out * w->n_in; i++)
        v[i] += w->plus;
    w->packed = v;
    return 0;
}

static int prepare_matrix(struct cpu *c, struct weight *w, struct error *e)
{
    struct packed head;
    size_t        size, scratch;
    struct pack   k = {.w = w};
    if (!plan(&head, w, c, &size) || !linear_tile_scratch(w->n_in, &k.tile_scratch) ||
        !num_mul(k.tile_scratch, (size_t)pool_size(c->pool), &scratch))
        return too_large(w, e);
    k.p = weights_alloc(c, size);
    k.scratch = malloc(MAX(scratch, (size_t)1));
    if (!k.p || !k.scratch) {
        weights_free(c, k.p);
        free(k.scratch);
        return error_nomem(e, w->name);
    }
    memcpy(k.p, &head, sizeof head);
    pool_run(c->pool, pack_tiles, &k);
    free(k.scratch);
    w->packed = k.p;
    return 0;
}

int linear_prepare(struct backend *b, struct weight *w, unsigned uses, struct error *e)
{
    if (uses & WEIGHT_VECTOR)
        return prepare_vector((struct cpu *)b, w, e);
    return uses & WEIGHT_LINEAR ? prepare_matrix((struct cpu *)b, w, e) : 0;
}

void linear_release(struct backend *b, struct weight *w)
{
    weights_free((struct cpu *)b, w->packed);
    w->packed = NULL;
}

size_t linear_packed_size(const struct backend *b, const struct weight *w, unsigned uses)
{
    struct packed p;
    size_t        size = 0;
    bool          ok = true;
    if (uses & WEIGHT_VECTOR)
        ok = vector_size(w, &size);
    else if (uses & WEIGHT_LINEAR)
        ok = plan(&p, w, (const struct cpu *)b, &size);
    return ok ? size : SIZE_MAX;
}
