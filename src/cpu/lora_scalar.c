/* The reference form of the adapters' kernels: plain C. */
#define VEC_SCALAR
#include "cpu/lora_kernels.h"

const struct lora_fns lora_scalar = LORA_FNS;
