/* The reference form of the attention kernels: plain C. */
#define VEC_SCALAR
#include "cpu/attn_kernels.h"

const struct attn_fns attn_scalar = ATTN_FNS;
