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

/* --- one tile -------------------------------------------------------------------------------------------------------
 */

static const void *row_of(const void *plane, size_t row_bytes, int64_t row)
{
    return (const char *)plane + (size_t)row * row_bytes;
}

#define BYTES4 0x01010101u

/* Adds the four values of quad j, each below 2^b in its byte, to a plane of zeros; `lane` is the output's place in it.
 */
static void put_quad(unsigned char *lane, int b, int j, uint32_t values)
{
    uint32_t v;
    lane += j % b * LINEAR_QUAD_BYTES;
    memcpy(&v, lane, sizeof v);
    v |= values << (b * (j / b));
    memcpy(lane, &v, sizeof v);
}

/* codes: the row's codes, whole blocks; o: the output's lane. Loading spends its time here, so four codes go at once. */
static void place_codes(const struct packed *p, unsigned char *tile, int o, const uint8_t *codes)
{
    int      low = linear_low_bits(p->bits), rest = p->bits - low;
    uint32_t low_mask = ((1u << low) - 1) * BYTES4, rest_mask = ((1u << rest) - 1) * BYTES4, c;
    for (int64_t b = 0; b < linear_blocks(p->n_in); b++) {
        int64_t        g = b / p->group_blocks;
        unsigned char *block = tile + (size_t)g * p->group_size + (size_t)(b % p->group_blocks) * p->block_size;
        for (int j = 0; j < LINEAR_QUADS; j++, codes += sizeof c) {
            memcpy(&c, codes, sizeof c);
            put_quad(block + 4 * o, low, j, c & low_mask);
            if (rest)
                put_quad(block + low * LINEAR_QUAD_BYTES + 4 * o, rest, j, c >> low & rest_mask);
        }
    }
}

static void place_scales(const struct packed *p, unsigned char *tile, int o, const void *scales, const void *biases)
{
    size_t  size = dtype_size(p->dtype), at = (size_t)p->group_blocks * p->block_size + (size_t)o * size;
    int64_t groups = p->n_in * p->parts / (p->group_blocks * LINEAR_BLOCK);
    for (int64_t g = 0; g < groups; g++) {
        unsigned char *s = tile + (size_t)(g / p->parts) * p->group_size + at;
        memcpy(s + (size_t)(g % p->parts) * LINEAR_TILE * size, (const char *)scales + (size_t)g * size, size);
        if (p->form == LINEAR_AFFINE && biases)
            memcpy(s + LINEAR_TILE * size, (const char *)biases + (size_t)g * size, size);
    }
}

/* mxfp8: blocks of scales and codes. */
static void place_fp8(const struct packed *p, unsigned char *tile, int o, const uint8_t *codes, const uint8_t *scales)
{
    for (int64_t b = 0; b < p->n_in / LINEAR_BLOCK; b++, tile += LINEAR_FP8_BLOCK) {
        tile[o] = scales[b];
        for (int i = 0; i < LINEAR_BLOCK; i++)
            tile[(i + 1) * LINEAR_TILE + o] = *codes++;
    }
}

struct pack {
    const struct weight *w;
    struct packed       *p;
    unsigned char       *scratch; /* row_scratch bytes for each member */
    size_t               row_scratch;
};

static void place_dense(const struct packed *p, unsigned char *tile, int o, const void *row)
{
    size_t size = dtype_size(p->dtype), pair = p->form == LINEAR_BF16 ? 2 : 1; /* inputs that stand together */
    for (size_t i = 0; i < (size_t)p->n_in; i++)
        memcpy(tile + ((i / pair * LINEAR_TILE + (size_t)o) * pair + i % pair) * size, (const char *)row + i * size,
               size);
}

/* Output row `row` into lane o of its tile. buf holds one row of codes or of float32. */
static void pack_row(const struct pack *k, unsigned char *tile, int o, int64_t row, void *buf)
{
    const struct weight *w = k->w;
    const struct quant  *q = &w->quant;
    if (q->mode == QUANT_NONE) {
        place_dense(k->p, tile, o, row_of(w->data, (size_t)w->n_in * dtype_size(w->dtype), row));
        return;
    }
    if (k->p->form == LINEAR_BF16 || (k->p->form == LINEAR_DENSE && k->p->dtype != DTYPE_F8_E4M3)) {
        weight_row(w, row, buf);
        if (k->p->dtype == DTYPE_BF16)
            quant_narrow(DTYPE_BF16, buf, w->n_in, buf);
        place_dense(k->p, tile, o, buf);
        return;
    }
    const void *codes = row_of(w->data, quant_row_bytes(q, w->n_in), row);
    const void *scales = row_of(w->scales, quant_scale_row_bytes(q, w->n_in), row);
    const void *biases = w->biases ? row_of(w->biases, quant_scale_row_bytes(q, w->n_in), row) : NULL;
    if (k->p->dtype == DTYPE_F8_E4M3) {
        place_fp8(k->p, tile, o, codes, scales);
        return;
    }
    memset((char *)buf + w->n_in / LINEAR_BLOCK * LINEAR_BLOCK, 0, LINEAR_BLOCK); /* the last block may be a half */
    quant_codes_row(q, codes, w->n_in, buf);
    place_codes(k->p, tile, o, buf);
    place_scales(k->p, tile, o, scales, biases);
}

static void pack_tiles(void *arg, int i, int n)
{
    const struct pack *k = arg;
    struct packed     *p = k->p;
    long               lo, hi;
    pool_share((long)p->n_tile, 1, i, n, &lo, &hi);
    for (long t = lo; t < hi; t++) {
        unsigned char *tile = p->data + (size_t)t * p->tile_size;
        int            rows = (int)MIN(p->n_out - t * LINEAR_TILE, LINEAR_TILE);
        memset(tile, 0, p->tile_size);
        for (int o = 0; o < rows; o++)
            pack_row(k, tile, o, t * LINEAR_TILE + o, k->scratch + (size_t)i * k->row_scratch);
    }
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

static int prepare_vector(struct cpu *c, struct weight *w, struct error *e)
{
    size_t size;
    if (w->quant.mode != QUANT_NONE)
        return error_set(e, ERR_UNSUPPORTED, w->name, "'%s' is quantized, needed a float vector", w->name);
    if (!vector_size(w, &size))
        return too_large(w, e);
    float *v = huge_alloc(&c->weights, size);
    if (!v)
        return error_nomem(e, w->name);
    quant_widen(w->dtype, w->data, w->n_out * w->n_in, v);
    w->packed = v;
    return 0;
}

static int prepare_matrix(struct cpu *c, struct weight *w, struct error *e)
{
    struct packed head;
    size_t        size, scratch;
    struct pack   k = {.w = w};
    if (!plan(&head, w, c, &size) || !num_mul((size_t)w->n_in, sizeof(float), &k.row_scratch) ||
        !num_align(k.row_scratch, 64, &k.row_scratch) || !num_mul(k.row_scratch, (size_t)pool_size(c->pool), &scratch))
        return too_large(w, e);
    k.p = huge_alloc(&c->weights, size);
    k.scratch = malloc(MAX(scratch, (size_t)1));
    if (!k.p || !k.scratch) {
        huge_free(&c->weights, k.p);
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
    huge_free(&((struct cpu *)b)->weights, w->packed);
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
