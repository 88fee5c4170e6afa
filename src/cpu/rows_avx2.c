/* Row kernels for AVX2 and FMA. */
#define VEC_AVX2
#include "cpu/rows_kernels.h"

const struct row_fns rows_avx2 = ROW_FNS;
