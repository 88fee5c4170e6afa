/* Kernels of convolutions and state space models for NEON. */
#define VEC_NEON
#include "cpu/ssm_kernels.h"

const struct ssm_fns ssm_neon = SSM_FNS;
