/* Kernels of convolutions and state space models for AVX-512. */
#define VEC_AVX512
#include "cpu/ssm_kernels.h"

const struct ssm_fns ssm_avx512 = SSM_FNS;
