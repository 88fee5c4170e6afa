/* Matrix product kernels for NEON with dot products: sdot sums the four products of a lane in int32, exactly. */
#define VEC_NEON
#define VEC_DOT
#include "cpu/linear_kernels.h"

const struct linear_fns linear_neondot = LINEAR_FNS(linear_quantize_neon);
