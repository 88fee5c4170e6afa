/* The reference form of the row kernels: plain C. */
#define VEC_SCALAR
#include "cpu/rows_kernels.h"

const struct row_fns rows_scalar = ROW_FNS;
