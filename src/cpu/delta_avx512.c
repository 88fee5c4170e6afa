/* Delta-rule kernels for AVX-512. */
#define VEC_AVX512
#include "cpu/delta_kernels.h"

const struct delta_fns delta_avx512 = DELTA_FNS;
