/* Which instruction sets this machine runs.
 *
 * A level is a set of features, each containing the one before. On x86-64:
 *
 *   avx2        AVX2, FMA, F16C, BMI2 (Haswell, Zen and later)
 *   avx512      and AVX-512 F, BW, DQ, VL, CD (Skylake-X, Zen 4 and later)
 *   avx512vnni  and VNNI (Cascade Lake, Zen 4 and later)
 *   avx512bf16  and BF16 (Cooper Lake, Sapphire Rapids, Zen 4 and later)
 *
 * AVX512-FP16 makes no level: it sums in float16, which is too inexact (docs/decisions/0008-bf16-products.md).
 *
 * On aarch64:
 *
 *   neon        Advanced SIMD, which every 64-bit Arm that runs Linux has
 *   neondot     and its dot products (Cortex-A75, Neoverse N1 and later)
 *
 * There is no level of matrix products of bytes (I8MM): smmla takes two outputs by eight inputs to a register, where all
 * our tiles have four by four.
 *
 * __builtin_cpu_supports also asks whether the system saves the registers (XGETBV). F16C and BMI2 come with every AVX2
 * machine, but a hypervisor may hide them, so they are asked for too.
 */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cpu/cpu.h"

static const char *const names[CPU_LEVELS] = {"scalar",     "avx2", "avx512", "avx512vnni",
                                              "avx512bf16", "neon", "neondot"};

#if defined(__x86_64__)
#include <cpuid.h>

static int has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

enum cpu_level cpu_level_detect(void)
{
#ifdef MLXCEL_SIMDE
    return CPU_AVX512BF16; /* 512-bit operations are emulated (x86.h) */
#endif
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2") ||
        !has_f16c())
        return CPU_SCALAR;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512cd"))
        return CPU_AVX2;
    if (!__builtin_cpu_supports("avx512vnni"))
        return CPU_AVX512;
    return __builtin_cpu_supports("avx512bf16") ? CPU_AVX512BF16 : CPU_AVX512VNNI;
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

enum cpu_level cpu_level_detect(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? CPU_NEONDOT : CPU_NEON;
}
#else
enum cpu_level cpu_level_detect(void)
{
    return CPU_SCALAR;
}
#endif

bool cpu_level_runs(enum cpu_level l)
{
#if defined(__aarch64__)
    const enum cpu_level first = CPU_NEON;
#else
    const enum cpu_level first = CPU_AVX2;
#endif
    return l == CPU_SCALAR || (l >= first && l <= cpu_level_detect());
}

const char *cpu_level_name(enum cpu_level l)
{
    return (unsigned)l < CPU_LEVELS ? names[l] : "unknown";
}

int cpu_level_from_name(const char *name)
{
    for (int i = 0; i < (int)ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

const char *cpu_level_list(bool runs, char out[CPU_LEVEL_LIST_SIZE])
{
    int n = 0;
    for (int l = 0; l < CPU_LEVELS; l++)
        if (!runs || cpu_level_runs((enum cpu_level)l))
            n += snprintf(out + n, CPU_LEVEL_LIST_SIZE - (size_t)n, "%s%s", n ? ", " : "", names[l]);
    return out;
}
