/* Adapters' kernels for AVX-512. */
#define VEC_AVX512
#include "cpu/lora_kernels.h"

const struct lora_fns lora_avx512 = LORA_FNS;
