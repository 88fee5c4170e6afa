/* Adapters' kernels for AVX2 and FMA. */
#define VEC_AVX2
#include "cpu/lora_kernels.h"

const struct lora_fns lora_avx2 = LORA_FNS;
