/* Row kernels for AVX-512. */
#define VEC_AVX512
#include "cpu/rows_kernels.h"

const struct row_fns rows_avx512 = ROW_FNS;
