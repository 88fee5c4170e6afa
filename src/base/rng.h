/* Random numbers without state: Philox4x32-10, a counter-based generator.
 *
 * A draw is a pure function of (seed, choice, token index), so that a seed gives the same text alone, in any batch, and
 * after a sequence was preempted and resumed: there is no generator to save or to advance.
 *
 * J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
 * section 4.3. Ten rounds pass BigCrush; the key is the seed, the 128-bit counter holds index and choice.
 */
#ifndef MLXCEL_BASE_RNG_H
#define MLXCEL_BASE_RNG_H

#include <stdint.h>

/* Replaces the counter c by its ten-round image under the key k. */
static inline void rng_philox(uint32_t c[4], const uint32_t k[2])
{
    uint32_t k0 = k[0], k1 = k[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53 * c[0], b = (uint64_t)0xcd9e8d57 * c[2];
        uint32_t c1 = c[1], c3 = c[3];
        c[0] = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c[3] = (uint32_t)a;
        k0 += 0x9e3779b9; /* the golden ratio's fraction */
        k1 += 0xbb67ae85; /* sqrt(3) - 1 */
    }
}

/* A uniform number in [0, 1), a multiple of 2^-53. */
static inline double rng_uniform(uint64_t seed, uint32_t choice, uint64_t index)
{
    uint32_t       c[4] = {(uint32_t)index, (uint32_t)(index >> 32), choice, 0};
    const uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    rng_philox(c, k);
    return (double)(((uint64_t)c[0] << 32 | c[1]) >> 11) * 0x1p-53;
}

#endif
