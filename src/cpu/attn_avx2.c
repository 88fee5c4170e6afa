/* Attention kernels for AVX2, FMA and F16C. */
#define VEC_AVX2
#include "cpu/attn_kernels.h"

const struct attn_fns attn_avx2 = ATTN_FNS;
