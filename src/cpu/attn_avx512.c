/* Attention kernels for AVX-512. */
#define VEC_AVX512
#include "cpu/attn_kernels.h"

const struct attn_fns attn_avx512 = ATTN_FNS;
