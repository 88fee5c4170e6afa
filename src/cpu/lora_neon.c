/* Adapters' kernels for NEON. */
#define VEC_NEON
#include "cpu/lora_kernels.h"

const struct lora_fns lora_neon = LORA_FNS;
