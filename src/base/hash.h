/* Seeds of hash tables whose keys come from strangers. */
#ifndef MLXCEL_BASE_HASH_H
#define MLXCEL_BASE_HASH_H

#include <stdint.h>

/* A number that nobody outside the process can know. */
uint64_t hash_seed(void);

#endif
