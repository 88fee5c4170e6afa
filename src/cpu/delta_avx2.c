/* Delta-rule kernels for AVX2 and FMA. */
#define VEC_AVX2
#include "cpu/delta_kernels.h"

const struct delta_fns delta_avx2 = DELTA_FNS;
