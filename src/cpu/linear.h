/* Internal: packed weights, quantized activations and the kernels of matrix products. docs/order-law.md has the
 * arithmetic.
 *
 * Packed weights. Outputs are taken in tiles of 16 (one lane each), so a product needs no sums across lanes and any
 * number of rows and threads computes an output in the same order. The last tile repeats the last row.
 *
 *   dense      tile: [n_in][16] elements in their stored type (F32 when dequantized for exact mode)
 *
 *   bf16       tile: [pairs of inputs][16][2] bfloat16, an odd last input paired with zero: 64 bytes hold a pair of each
 *              output, as an instruction that adds two products takes them
 *
 *   mxfp8      dense too, the elements E4M3 bytes: tile: blocks of scales [16] (E8M0) | codes [32][16]
 *
 *   affine     tile: groups, one after the other; a group of g inputs is
 *
 *                block 0 | block 1 | ... | scales [16] | biases [16]        (g/32 blocks; scales in their stored type)
 *
 *              a block of 32 inputs is 8 quads; quad j is inputs 4j .. 4j+3 of the 16 outputs, a vector of 64 bytes
 *              [16 outputs][4], so that one 32-bit lane of a dot-product instruction belongs to one output. Its codes
 * are cut into planes: 8 bits; 6 = 4 + 2; 5 = 4 + 1; 4; 3 = 2 + 1; 2; the low plane first. A plane of b bits is b
 * vectors: quad j stands in vector j % b, from bit b (j / b) of each byte. So a block takes bits * 64 bytes, and a quad
 * is at most two loads, shifts and masks.
 *
 *   e2m1       mxfp4 and nvfp4: tile: groups of one block of 4-bit codes as above | scales [16] (mxfp4: E8M0), or two
 *              times [16] (nvfp4: E4M3, for the inputs 0 .. 15 and 16 .. 31 of the block). Twice a code's value is an
 *              integer; unpacked it stands as that + 12, 0 .. 24, for instructions that multiply unsigned bytes.
 *
 * Quantized activations. Each block of 32 inputs of a row becomes int8 q with x ~ sx * q; in high precision a second
 * block follows that quantizes what the first left (terms = 2). Per block also d = sx * (float)sum(q), for the affine
 * bias, and the sums of both halves of q. For bf16 products a row is rounded to bfloat16, padded to pairs.
 */
#ifndef MLXCEL_CPU_LINEAR_H
#define MLXCEL_CPU_LINEAR_H

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "cpu/kernels.h"

#define LINEAR_TILE 16         /* outputs */
#define LINEAR_BLOCK 32        /* inputs that share one activation scale */
#define LINEAR_AHEAD 2048      /* bytes by which decoding asks for weights in advance: 1.3 times faster with 4 bits */
#define LINEAR_GROUP 8         /* quantized rows side by side */
#define LINEAR_QUADS 8         /* of 4 inputs in a block */
#define LINEAR_QUAD_BYTES 64   /* one byte for each code of 16 outputs */
#define LINEAR_BLOCK_BYTES 512 /* codes of a block as bytes */
#define LINEAR_E2M1_ZERO 12    /* an E2M1 code of value 0, unpacked */
#define LINEAR_FP8_BLOCK 528   /* bytes of a block of mxfp8: 16 scales, 512 codes */
#define LINEAR_PAIR_BYTES 64   /* a pair of bfloat16 for each of 16 outputs */
#define LINEAR_PANEL 32        /* blocks unpacked together, a multiple of the blocks in a group */
#define LINEAR_PANEL_K 256     /* inputs of a dense tile that are used for all rows together: 16 KB as float32 */
#define LINEAR_PANEL_PAIRS 128 /* pairs of inputs of bf16 tiles that are used for all rows together: 32 KB of 4 tiles */
#define LINEAR_ROWS 128        /* most rows that share an unpacked tile */
#define LINEAR_STREAM 16       /* most rows without a panel: it pays from 8 to 20 on, but memory waits meanwhile */
#define LINEAR_GEMV_TILES 4    /* most tiles that are computed side by side: dense for one row, bf16 always */

enum linear_form { LINEAR_DENSE, LINEAR_AFFINE, LINEAR_E2M1, LINEAR_BF16 };

struct packed { /* weight.packed of a matrix; that of a vector (norm) is its float32 elements */
    enum linear_form form;
    enum dtype       dtype; /* of dense elements (F8_E4M3: mxfp8), or of scales and biases */
    int              bits;  /* of codes */
    int              group_blocks;
    int              parts; /* scales of a block: 2 where a group is half a block */
    int64_t          n_out, n_in, n_tile;
    size_t           block_size, group_size, tile_size; /* bytes */
    _Alignas(64) unsigned char data[];
};

static inline const unsigned char *packed_tile(const struct packed *p, int64_t tile)
{
    return p->data + (size_t)tile * p->tile_size;
}

/* Whether products are made of integer codes and quantized rows. */
static inline bool packed_is_integer(const struct packed *p)
{
    return p->form == LINEAR_AFFINE || p->form == LINEAR_E2M1;
}

/* Blocks of a row. The last may be half a block where nvfp4 has groups of 16; what is missing counts as zeros. */
static inline int64_t linear_blocks(int64_t n_in)
{
    return n_in / LINEAR_BLOCK + (n_in % LINEAR_BLOCK != 0);
}

static inline int64_t linear_pairs(int64_t n_in)
{
    return n_in / 2 + n_in % 2;
}

/* Bits of the low plane; the other plane has the rest, perhaps none. */
static inline int linear_low_bits(int bits)
{
    return bits == 8 ? 8 : bits >= 4 ? 4 : 2;
}

/* Quantizing a block: 127 / amax beyond INV_MAX counts as zero; the second term's scale is the first's / 254. */
#define LINEAR_INV_MAX 0x1p119f
#define LINEAR_TERM2 (1.0f / 254.0f)
#define LINEAR_TERM2_INV 254.0f

/* A block of a quantized row. */
struct qblock {
    int8_t  q[LINEAR_BLOCK];
    float   sx, d;
    int32_t sum[2];
};

/* The scale of a block whose largest magnitude has the bits `top`, and what its inputs are multiplied by: 0 where nothing
 * can be quantized, since a value is infinite or NaN (the scale is NaN then) or all are too small to divide by. */
static inline float qblock_scale(uint32_t top, float *inv)
{
    float amax = f32_from_bits(top), r = 127.0f / amax;
    bool  finite = top < 0x7f800000, fits = finite && r <= LINEAR_INV_MAX;
    *inv = fits ? r : 0;
    return fits ? amax / 127.0f : finite ? 0 : NAN;
}

/* What follows from the scale and the sums of q. */
static inline void qblock_finish(struct qblock *b, float sx)
{
    b->sx = sx;
    b->d = sx * (float)(b->sum[0] + b->sum[1]);
}

/* Quantized rows, in groups of LINEAR_GROUP (of 1 in steps of one row): blocks ascending, of each block the group's rows
 * side by side, so that a kernel of several rows walks through one stream at constant distances. Beside them the rows as
 * bfloat16 where the level multiplies such. */
struct acts {
    struct qblock *base;
    int            group;
    int64_t        group_stride; /* qblocks from a group to the next */
    int64_t        n_in;
    int64_t        blocks; /* of a row: terms * linear_blocks(n_in) */
    int            terms;  /* 1, or 2: block b of the weight meets blocks 2b and 2b + 1 */
    uint16_t      *bf16;
    int64_t        bf16_stride; /* elements of a row */
};

/* Block b of a row. The row's next block follows at + a->group, the same block of the group's next row at + 1. */
static inline struct qblock *acts_at(const struct acts *a, int64_t row, int64_t b)
{
    return a->base + row / a->group * a->group_stride + b * a->group + row % a->group;
}

static inline uint16_t *acts_bf16(const struct acts *a, int64_t row) /* [n_in], and a zero when that is odd */
{
    return a->bf16 + row * a->bf16_stride;
}

/* Inputs of block b of a row of x as 32 values: where the row ends in half a block, by a copy in `part`. */
static inline const float *acts_inputs(const struct acts *a, const float *x, int64_t b, float part[LINEAR_BLOCK])
{
    int64_t at = b / a->terms * LINEAR_BLOCK, n = a->n_in - at;
    if (n >= LINEAR_BLOCK)
        return x + at;
    memset(part, 0, LINEAR_BLOCK * sizeof *part);
    memcpy(part, x + at, (size_t)n * sizeof *part);
    return part;
}

/* Some blocks of a tile, unpacked once for many rows. */
struct panel {
    _Alignas(64) uint8_t codes[LINEAR_PANEL][LINEAR_BLOCK_BYTES];
    _Alignas(64) float scale[2 * LINEAR_PANEL][LINEAR_TILE]; /* per group */
    _Alignas(64) float bias[LINEAR_PANEL][LINEAR_TILE];
};

/* Where the results of a tile go: n <= 16 outputs of row r to y + r * stride, the bias added. */
struct tile_out {
    float       *y;
    int64_t      stride;
    const float *bias; /* of the tile's outputs, or NULL */
    int          n;
};

/* The two chains of one output tile and row. A dense product uses only the first. */
struct chains {
    _Alignas(64) float a[LINEAR_TILE];
    float b[LINEAR_TILE];
};

/* The kernels. Rows of `c` are the accumulators of rows row .. row + n_row - 1. */
struct linear_fns {
    /* Quantizes x[n_in] as row `row` of a. */
    void (*quantize)(const struct acts *a, int64_t row, const float *x);
    int gemm_rows; /* rows that gemm takes together, a divisor of LINEAR_GROUP */
    /* Blocks [b0, b0 + n) of a tile of integer codes (whole groups). */
    void (*unpack)(const struct packed *p, const unsigned char *tile, int64_t b0, int64_t n, struct panel *out);
    /* Adds blocks [b0, b0 + n): the first start from zero, the last finish the rows in `out`; between them the sums are
     * in c, whose contents do not count before the first and after the last. `row` begins a group; n_row is a multiple of
     * gemm_rows. */
    void (*gemm)(const struct packed *p, const struct panel *panel, int64_t b0, int64_t n, const struct acts *a,
                 int64_t row, int64_t n_row, struct chains *c, const struct tile_out *out);
    /* All inputs of a tile of integer codes for n_row <= LINEAR_STREAM rows, gemm_rows of them at a time; `row` begins as
     * many of a group. */
    void (*stream)(const struct packed *p, const unsigned char *tile, const struct acts *a, int64_t row, int64_t n_row,
                   const struct tile_out *out);
    /* Inputs [k0, k0 + n) of a dense tile; x is row 0 of n_row. */
    void (*dense)(const struct packed *p, const unsigned char *tile, int64_t k0, int64_t n, const float *x,
                  int64_t x_stride, int64_t n_row, struct chains *c);
    /* All inputs of n_tile <= LINEAR_GEMV_TILES neighbouring dense tiles for one row, from zero. */
    void (*dense_gemv)(const struct packed *p, const unsigned char *tile, int n_tile, const float *x, struct chains *c);
};

/* The kernels of bf16 tiles. */
struct bf16_fns {
    /* Rounds x[n_in] to nearest, ties to even, as row `row` of a; NaN stays NaN. */
    void (*round)(const struct acts *a, int64_t row, const float *x);
    /* Pairs [k0, k0 + n) of n_tile neighbouring tiles, 1 or LINEAR_GEMV_TILES; c[n_row][n_tile]. */
    void (*product)(const struct packed *p, const unsigned char *tile, int n_tile, int64_t k0, int64_t n,
                    const struct acts *a, int64_t row, int64_t n_row, struct chains *c);
};

/* linear_tile.c: makes tile t of p from the planes of w. `scratch` is for one call at a time; its size is false when it
 * overflows. */
void linear_tile_pack(const struct packed *p, const struct weight *w, int64_t t, void *scratch, unsigned char *tile);
bool linear_tile_scratch(int64_t n_in, size_t *size);

/* linear_pack.c */
int    linear_prepare(struct backend *b, struct weight *w, unsigned uses, struct error *e);
void   linear_release(struct backend *b, struct weight *w);
size_t linear_packed_size(const struct backend *b, const struct weight *w, unsigned uses);

/* Also of the levels above. */
void linear_quantize_avx2(const struct acts *a, int64_t row, const float *x);
void linear_quantize_neon(const struct acts *a, int64_t row, const float *x);

extern const struct linear_fns linear_scalar, linear_avx2, linear_avx512, linear_avx512vnni, linear_neon,
    linear_neondot;
extern const struct bf16_fns linear_bf16; /* AVX-512 BF16 */

#endif
