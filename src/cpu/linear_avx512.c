/* Matrix product kernels for AVX-512 without dot-product instructions. */
#define VEC_AVX512
#include "cpu/linear_kernels.h"

const struct linear_fns linear_avx512 = LINEAR_FNS(linear_quantize_avx2);
