/* Attention kernels for NEON. */
#define VEC_NEON
#include "cpu/attn_kernels.h"

const struct attn_fns attn_neon = ATTN_FNS;
