/* The reference form of the row kernels: plain C. */
#define VEC_SCALAR
#include "cpu/ssm_kernels.h"

const struct ssm_fns ssm_scalar = SSM_FNS;
