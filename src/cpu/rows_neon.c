/* Row kernels for NEON. */
#define VEC_NEON
#include "cpu/rows_kernels.h"

const struct row_fns rows_neon = ROW_FNS;
