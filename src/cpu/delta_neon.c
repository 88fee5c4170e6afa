/* Delta-rule kernels for NEON. */
#define VEC_NEON
#include "cpu/delta_kernels.h"

const struct delta_fns delta_neon = DELTA_FNS;
