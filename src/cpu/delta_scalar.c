/* The reference form of the delta-rule kernels: plain C. */
#define VEC_SCALAR
#include "cpu/delta_kernels.h"

const struct delta_fns delta_scalar = DELTA_FNS;
