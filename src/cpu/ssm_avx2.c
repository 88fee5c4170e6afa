/* Kernels of convolutions and state space models for AVX2 and FMA. */
#define VEC_AVX2
#include "cpu/ssm_kernels.h"

const struct ssm_fns ssm_avx2 = SSM_FNS;
