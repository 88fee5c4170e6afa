/* Packing one tile: 16 rows of a checkpoint's planes to the layout of linear.h. Loading is this loop, so it works on
 * vectors of 16 bytes, which every machine of ours has, through the compiler's own vector types: no instruction set of
 * its own.
 *
 * A tile of any form is "unit i of all 16 rows, then unit i + 1": a transposition of 16 rows of units of 1, 2 or 4
 * bytes. Zipping row o with row o + 8 rotates the index bits of [row][unit] by one place, so four rounds of it give
 * [unit][row], whatever the unit's size:
 *
 *     o3 o2 o1 o0 k  ->  o2 o1 o0 k o3  ->  o1 o0 k o3 o2  ->  o0 k o3 o2 o1  ->  k o3 o2 o1 o0
 *
 * Codes are brought into the order of their bit planes before, row by row: then a block of a row is `bits` units of 4
 * bytes, for 8 bits the bytes as they are stored. Planes may lie at any address.
 */
#include <string.h>

#include "base/num.h"
#include "cpu/linear.h"

typedef uint8_t  v16 __attribute__((vector_size(16)));
typedef uint16_t v8 __attribute__((vector_size(16)));
typedef uint32_t v4 __attribute__((vector_size(16)));

#define ZIP1_LO(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP1_HI(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define ZIP2_LO(a, b) (v16) __builtin_shufflevector((v8)(a), (v8)(b), 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP2_HI(a, b) (v16) __builtin_shufflevector((v8)(a), (v8)(b), 4, 12, 5, 13, 6, 14, 7, 15)
#define ZIP4_LO(a, b) (v16) __builtin_shufflevector((v4)(a), (v4)(b), 0, 4, 1, 5)
#define ZIP4_HI(a, b) (v16) __builtin_shufflevector((v4)(a), (v4)(b), 2, 6, 3, 7)

/* --- the transposition ---------------------------------------------------------------------------------------------
 */

struct rows { /* of one tile; lanes beyond the last row repeat it: their outputs are never used */
    const unsigned char *p;
    size_t               stride; /* bytes from one to the next */
    int                  n;      /* 1 .. LINEAR_TILE */
};

#define ROUND(zip, to, from)                                                                                           \
    _Pragma("GCC unroll 8") for (int o = 0; o < LINEAR_TILE / 2; o++)                                                  \
    {                                                                                                                  \
        (to)[2 * o] = zip##_LO((from)[o], (from)[o + LINEAR_TILE / 2]);                                                \
        (to)[2 * o + 1] = zip##_HI((from)[o], (from)[o + LINEAR_TILE / 2]);                                            \
    }

#define TRANSPOSE(zip, r, t)                                                                                           \
    do {                                                                                                               \
        ROUND(zip, t, r)                                                                                               \
        ROUND(zip, r, t)                                                                                               \
        ROUND(zip, t, r)                                                                                               \
        ROUND(zip, r, t)                                                                                               \
    } while (0)

/* r: 16 bytes of every row; afterwards 16 / size vectors of 16 units. */
static inline void transpose(int size, v16 r[LINEAR_TILE])
{
    v16 t[LINEAR_TILE];
    if (size == 1)
        TRANSPOSE(ZIP1, r, t);
    else if (size == 2)
        TRANSPOSE(ZIP2, r, t);
    else
        TRANSPOSE(ZIP4, r, t);
}

/* Where the vectors of a tile's part stand: `run` of them side by side, the next such run `stride` bytes further on. */
struct place {
    unsigned char *p;
    int64_t        run;
    size_t         stride;
};

/* Units [0, n) of all rows. */
static inline __attribute__((always_inline)) void interleave(const struct rows *rows, const int size, int64_t n,
                                                             struct place to)
{
    const int            units = 16 / size; /* of a row that are taken together */
    const unsigned char *row[LINEAR_TILE];
    unsigned char       *out = to.p;
    int64_t              in_run = 0;
    for (int o = 0; o < LINEAR_TILE; o++)
        row[o] = rows->p + (size_t)MIN(o, rows->n - 1) * rows->stride;
    for (int64_t i = 0; i < n; i += units) {
        v16 r[LINEAR_TILE];
        int m = (int)MIN(n - i, (int64_t)units);
        for (int o = 0; o < LINEAR_TILE; o++) {
            if (m < units) {
                r[o] = (v16){0};
                memcpy(&r[o], row[o] + i * size, (size_t)(m * size));
            } else {
                memcpy(&r[o], row[o] + i * size, sizeof r[o]);
            }
        }
        transpose(size, r);
        for (int j = 0; j < m; j++) {
            memcpy(out, (const char *)r + j * size * LINEAR_TILE, (size_t)(size * LINEAR_TILE));
            out += size * LINEAR_TILE;
            if (++in_run == to.run) {
                in_run = 0;
                to.p += to.stride;
                out = to.p;
            }
        }
    }
}

static void interleave_any(const struct rows *rows, size_t size, int64_t n, struct place to)
{
    if (size == 1)
        interleave(rows, 1, n, to);
    else if (size == 2)
        interleave(rows, 2, n, to);
    else
        interleave(rows, 4, n, to);
}

/* --- codes of a row -------------------------------------------------------------------------------------------------
 */

#define BYTES8 0x0101010101010101u

/* The plane of b bits of 32 codes, from bit `low` of each: 4 b bytes. */
static unsigned char *put_plane(const uint64_t c[4], int low, int b, unsigned char *out)
{
    uint64_t mask = ((1u << b) - 1) * BYTES8, v[4];
    for (int k = 0; k < 4; k++)
        v[k] = c[k] >> low & mask;
    if (b == 4) {
        v[0] |= v[2] << 4;
        v[1] |= v[3] << 4;
    } else if (b < 4) {
        v[0] |= v[1] << 2 | v[2] << 4 | v[3] << 6;
        if (b == 1)
            v[0] |= v[0] >> 32 << 1;
    }
    memcpy(out, v, (size_t)b * 4);
    return out + b * 4;
}

/* Codes as bytes, whole blocks, to bit planes, block by block. */
static void cut_planes(const uint8_t *codes, int64_t n_block, int bits, unsigned char *out)
{
    int      low = linear_low_bits(bits);
    uint64_t c[4];
    for (int64_t b = 0; b < n_block; b++, codes += LINEAR_BLOCK) {
        memcpy(c, codes, sizeof c);
        out = put_plane(c, 0, low, out);
        if (bits > low)
            out = put_plane(c, low, bits - low, out);
    }
}

/* The same from 4-bit codes as they are stored, two a byte: element 2i in the low half of byte i. */
static void cut_nibbles(const unsigned char *codes, int64_t n_in, unsigned char *out)
{
    for (; n_in > 0; n_in -= LINEAR_BLOCK, codes += sizeof(v16), out += sizeof(v16)) {
        v16 v = {0};
        if (n_in < LINEAR_BLOCK)
            memcpy(&v, codes, sizeof v / 2);
        else
            memcpy(&v, codes, sizeof v);
        v16 even = v & 15, odd = v >> 4;
        v = ZIP1_LO(even, odd) | ZIP1_HI(even, odd) << 4;
        memcpy(out, &v, sizeof v);
    }
}

/* --- a tile ---------------------------------------------------------------------------------------------------------
 */

static struct rows rows_of(const void *plane, size_t row_bytes, int64_t tile, int64_t n_out)
{
    int64_t first = tile * LINEAR_TILE;
    return (struct rows){(const unsigned char *)plane + (size_t)first * row_bytes, row_bytes,
                         (int)MIN(n_out - first, LINEAR_TILE)};
}

/* A row of scratch: never a multiple of 4 kB, so that the rows of a tile do not meet in one set of the cache. */
static bool scratch_row(int64_t n_in, size_t *size)
{
    return num_mul((size_t)n_in, sizeof(float), size) && num_add(*size, 2 * LINEAR_BLOCK, size) &&
           num_align(*size, 4096, size) && num_add(*size, 64, size);
}

bool linear_tile_scratch(int64_t n_in, size_t *size)
{
    return scratch_row(n_in, size) && num_mul(*size, LINEAR_TILE + 1, size);
}

/* Row `row` as elements of p->dtype; room for one more, a zero, with which a row of pairs may end. */
static void make_row(const struct packed *p, const struct weight *w, int64_t row, unsigned char *out)
{
    size_t size = dtype_size(p->dtype), bytes = (size_t)p->n_in * size;
    if (w->quant.mode == QUANT_NONE) {
        memcpy(out, (const char *)w->data + (size_t)row * bytes, bytes);
    } else {
        weight_row(w, row, (float *)(void *)out);
        if (p->dtype == DTYPE_BF16)
            quant_narrow(DTYPE_BF16, (float *)(void *)out, p->n_in, out);
    }
    memset(out + bytes, 0, size);
}

/* Dense elements, or pairs of them: as they are stored, or made. */
static void pack_dense(const struct packed *p, const struct weight *w, int64_t t, unsigned char *scratch, size_t row,
                       unsigned char *tile)
{
    int         pair = p->form == LINEAR_BF16 ? 2 : 1; /* inputs that stand together */
    size_t      size = dtype_size(p->dtype);
    int64_t     n = p->n_in / pair + p->n_in % pair;
    struct rows rows = rows_of(w->data, (size_t)p->n_in * size, t, p->n_out);
    if (w->quant.mode != QUANT_NONE || p->n_in % pair) {
        rows.p = scratch;
        rows.stride = row;
        for (int o = 0; o < rows.n; o++)
            make_row(p, w, t * LINEAR_TILE + o, scratch + (size_t)o * row);
    }
    interleave_any(&rows, size * (size_t)pair, n, (struct place){tile, n, 0});
}

/* mxfp8: blocks of scales and codes, both as they are stored. */
static void pack_fp8(const struct packed *p, const struct weight *w, int64_t t, unsigned char *tile)
{
    struct rows codes = rows_of(w->data, quant_row_bytes(&w->quant, p->n_in), t, p->n_out);
    struct rows scales = rows_of(w->scales, quant_scale_row_bytes(&w->quant, p->n_in), t, p->n_out);
    interleave(&scales, 1, p->n_in / LINEAR_BLOCK, (struct place){tile, 1, LINEAR_FP8_BLOCK});
    interleave(&codes, 1, p->n_in, (struct place){tile + LINEAR_TILE, LINEAR_BLOCK, LINEAR_FP8_BLOCK});
}

static void pack_codes(const struct packed *p, const struct weight *w, int64_t t, unsigned char *scratch, size_t row,
                       unsigned char *tile)
{
    int64_t        n_block = linear_blocks(p->n_in);
    size_t         row_bytes = quant_row_bytes(&w->quant, p->n_in);
    struct rows    rows = rows_of(w->data, row_bytes, t, p->n_out);
    unsigned char *bytes = scratch + LINEAR_TILE * row; /* of one row's codes */
    if (p->bits != 8) {
        for (int o = 0; o < rows.n; o++) {
            if (p->bits == 4) {
                cut_nibbles(rows.p + (size_t)o * row_bytes, p->n_in, scratch + (size_t)o * row);
            } else {
                quant_codes_row(&w->quant, rows.p + (size_t)o * row_bytes, p->n_in, bytes);
                cut_planes(bytes, n_block, p->bits, scratch + (size_t)o * row);
            }
        }
        rows.p = scratch;
        rows.stride = row;
    }
    interleave(&rows, 4, n_block * p->bits, (struct place){tile, (int64_t)p->group_blocks * p->bits, p->group_size});
}

static void pack_scales(const struct packed *p, const struct weight *w, int64_t t, unsigned char *tile)
{
    size_t       size = dtype_size(p->dtype), row_bytes = quant_scale_row_bytes(&w->quant, p->n_in);
    int64_t      n = p->n_in / w->quant.group;
    struct rows  scales = rows_of(w->scales, row_bytes, t, p->n_out);
    struct place to = {tile + (size_t)p->group_blocks * p->block_size, p->parts, p->group_size};
    if (n % p->parts) /* a row that ends in half a block */
        memset(tile + p->tile_size - LINEAR_TILE * size, 0, LINEAR_TILE * size);
    interleave_any(&scales, size, n, to);
    if (p->form != LINEAR_AFFINE || !w->biases)
        return;
    struct rows biases = rows_of(w->biases, row_bytes, t, p->n_out);
    to.p += LINEAR_TILE * size;
    interleave_any(&biases, size, n, to);
}

void linear_tile_pack(const struct packed *p, const struct weight *w, int64_t t, void *scratch, unsigned char *tile)
{
    size_t row = 0;
    scratch_row(p->n_in, &row);
    if (packed_is_integer(p)) {
        pack_codes(p, w, t, scratch, row, tile);
        pack_scales(p, w, t, tile);
    } else if (p->dtype == DTYPE_F8_E4M3) {
        pack_fp8(p, w, t, tile);
    } else {
        pack_dense(p, w, t, scratch, row, tile);
    }
}
