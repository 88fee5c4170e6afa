/* See hash.h. */
#include "base/hash.h"

#include <sys/random.h>
#include <time.h>

uint64_t hash_seed(void)
{
    uint64_t        seed;
    struct timespec t;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed)
        return seed;
    /* Early after the machine's start: the time and where the stack lies. */
    clock_gettime(CLOCK_MONOTONIC, &t);
    return ((uint64_t)t.tv_sec << 30 ^ (uint64_t)t.tv_nsec) * 0x9e3779b97f4a7c15u ^ (uintptr_t)&t;
}
