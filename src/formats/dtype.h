/* The element types of stored tensors, one table (dtypes.def) with the names that safetensors uses.
 *
 * F4 and F6_* are stored as packed bits: a tensor of them must fill whole bytes.
 */
#ifndef MLXCEL_FORMATS_DTYPE_H
#define MLXCEL_FORMATS_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum dtype {
    DTYPE_NONE,
#define DTYPE(name, bits) DTYPE_##name,
#include "formats/dtypes.def"
#undef DTYPE
    DTYPE_COUNT
};

const char *dtype_name(enum dtype d);          /* "BF16"; "none" for DTYPE_NONE and numbers outside the table */
enum dtype  dtype_from_name(struct str s);     /* exact, case matters; DTYPE_NONE when unknown */
int         dtype_bits(enum dtype d);          /* bits per element; 0 for DTYPE_NONE */
size_t      dtype_size(enum dtype d);          /* bytes per element; 0 for DTYPE_NONE and the packed types */
bool        dtype_is_float16_32(enum dtype d); /* F16, BF16 or F32: what dense weights and scales are stored in */

/* Element i of an array of F32, F16 or BF16 (which need not be aligned), as float32. */
float dtype_load(enum dtype d, const void *p, int64_t i);

/* Bytes of a tensor. False when a dimension is negative, the product overflows (in the order of the dimensions, as the
 * reference multiplies), or the elements do not fill whole bytes. */
bool dtype_bytes(enum dtype d, const int64_t *shape, int n_dim, size_t *bytes);

#endif
