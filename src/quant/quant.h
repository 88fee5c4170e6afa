/* Quantized planes of MLX checkpoints: which modes exist, which mode two planes are, decoding and encoding.
 *
 * A matrix W[n_out, K] is stored as `weight` U32 [n_out, K * bits / 32] (little-endian bit stream per row, element i in
 * bits [i*bits, (i+1)*bits)), `scales` [n_out, K / group] and, for affine, `biases` of the same shape; w = scale * code
 * + bias. The decoders here are the scalar reference that every kernel is compared with. Source of the rules:
 * ml-explore/mlx, described in docs/quantization.md.
 */
#ifndef MLXCEL_QUANT_QUANT_H
#define MLXCEL_QUANT_QUANT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "formats/dtype.h"

enum quant_mode {
    QUANT_NONE,
    QUANT_AFFINE,
    QUANT_MXFP4,
    QUANT_MXFP8,
    QUANT_NVFP4,
    QUANT_FP8, /* no mode of MLX: Hugging Face's E4M3 weights [n_out, K] with `weight_scale_inv`, float scales of tiles
                  of 128 x 128, [ceil(n_out / 128), ceil(K / 128)]; mlx-lm makes bfloat16 of them, and so do we */
    QUANT_MODES
};

#define QUANT_FP8_TILE 128

struct quant {
    enum quant_mode mode;
    int             bits, group;
    enum dtype      scale_dtype; /* of scales and biases */
};

/* "affine", ...; quant_mode_from_name knows MLX's modes and gives QUANT_NONE for other names. */
const char     *quant_mode_name(enum quant_mode mode);
enum quant_mode quant_mode_from_name(const char *name);

/* The bits and group that MLX takes for a mode when none are given; scale_dtype is U8 or, where it is one of several,
 * DTYPE_NONE. QUANT_NONE gives zeros. */
struct quant quant_default(enum quant_mode mode);

#define QUANT_TEXT 64
/* "affine 4 bits group 32", "fp8 tiles of 128 x 128"; writes to out and returns it. */
const char *quant_text(const struct quant *q, char out[QUANT_TEXT]);

/* Whether MLX has this mode with these bits and this group; ERR_INVALID says what the mode has. */
int quant_check(const struct quant *q, struct error *e);

struct tensor_view;
/* Decides the mode of the planes of one parameter whose logical input width is K, from the planes alone
 * (bits = 32 * cols / K, group = K / groups), and checks every shape: leading dimensions equal, packed width exact,
 * dtypes a pair that MLX can hold. w and scales are not NULL, biases may be. On a misfit adds one fault naming plane,
 * file, both shapes and what is needed, and returns its code. */
int quant_from_planes(struct quant *out, const struct tensor_view *w, const struct tensor_view *scales,
                      const struct tensor_view *biases, int64_t K, struct faults *f);

/* Bytes of one row of codes / of one row of scales; how many rows of codes share a row of scales (1, QUANT_FP8: 128). */
size_t quant_row_bytes(const struct quant *q, int64_t K);
size_t quant_scale_row_bytes(const struct quant *q, int64_t K);
int    quant_scale_rows(const struct quant *q);

/* Widens n elements of F16, BF16 or F32 (p need not be aligned) to float32. */
void quant_widen(enum dtype d, const void *p, int64_t n, float *out);
/* The reverse, rounded to nearest even; out need not be aligned and may be the address of p. */
void quant_narrow(enum dtype d, const float *p, int64_t n, void *out);

/* Decodes the first K elements of a row to float32: fl(fl(scale * code) + bias) with scale and bias widened to float32,
 * or fl(scale * code) in the modes without biases (biases is not read then); QUANT_FP8 rounds that to bfloat16. */
void quant_decode_row(const struct quant *q, const void *codes, const void *scales, const void *biases, int64_t K,
                      float *out);
/* The codes of a row as stored, one byte each. */
void quant_codes_row(const struct quant *q, const void *codes, int64_t K, uint8_t *out);
/* Writes K codes (each < 2^bits) as a packed row; the reverse of quant_codes_row. */
void quant_pack_row(const struct quant *q, const uint8_t *codes, int64_t K, void *out);

/* Encodes one row of K float32 values (whole groups, finite), bit-equal to mx.quantize on mlx's CPU backend
 * (docs/quantization.md): writes codes, scales and, for affine, biases (scale_dtype). */
void quant_encode_row(const struct quant *q, const float *w, int64_t K, void *codes, void *scales, void *biases);

/* The values of an E2M1 code, doubled so that they are integers, and of E4M3 and E8M0 codes (floats.c). */
extern const int8_t quant_e2m1_twice[16];
float               quant_e4m3_value(uint8_t code);
float               quant_e8m0_value(uint8_t code);

#endif
