/* Which instruction sets this machine runs.
 *
 * A level is a set of features, each containing the one before:
 *
 *   avx2        AVX2, FMA, F16C, BMI2 (Haswell, Zen and later)
 *   avx512      and AVX-512 F, BW, DQ, VL, CD (Skylake-X, Zen 4 and later)
 *   avx512vnni  and VNNI (Cascade Lake, Zen 4 and later)
 *
 * __builtin_cpu_supports also asks whether the system saves the registers (XGETBV). F16C and BMI2 come with every AVX2
 * machine, but a hypervisor may hide them, so they are asked for too.
 */
#include <string.h>

#include "base/num.h"
#include "cpu/cpu.h"

static const char *const names[CPU_LEVELS] = {"scalar", "avx2", "avx512", "avx512vnni"};

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
    return CPU_AVX512VNNI; /* 512-bit operations are emulated (x86.h) */
#endif
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2") ||
        !has_f16c())
        return CPU_SCALAR;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512cd"))
        return CPU_AVX2;
    return __builtin_cpu_supports("avx512vnni") ? CPU_AVX512VNNI : CPU_AVX512;
}
#else
enum cpu_level cpu_level_detect(void)
{
    return CPU_SCALAR;
}
#endif

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
