/* Matrix product kernels for AVX-512 with VNNI: vpdpbusd sums the four products of a lane in int32, exactly. */
#define VEC_AVX512
#define VEC_DOT
#include "cpu/linear_kernels.h"

const struct linear_fns linear_avx512vnni = LINEAR_FNS(linear_quantize_avx2);
