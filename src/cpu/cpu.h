/* The CPU backend's public face. */
#ifndef MLXCEL_CPU_CPU_H
#define MLXCEL_CPU_CPU_H

#include "base/pool.h"
#include "tensor/ops.h"

/* A level is a set of features. Those of an architecture are ordered, and each contains the one before and scalar,
 * which runs everywhere. See level.c. */
enum cpu_level { CPU_SCALAR, CPU_AVX2, CPU_AVX512, CPU_AVX512VNNI, CPU_AVX512BF16, CPU_NEON, CPU_NEONDOT, CPU_LEVELS };

#define CPU_LEVEL_LIST_SIZE 128

enum cpu_level cpu_level_detect(void);                /* the highest that this machine (and its system) runs */
bool           cpu_level_runs(enum cpu_level l);      /* on this machine */
const char    *cpu_level_name(enum cpu_level l);      /* "scalar", "avx2", ... */
int            cpu_level_from_name(const char *name); /* -1 if unknown */
/* Writes the names of all levels, or of those that this machine runs, as "scalar, avx2" into out and returns it. */
const char *cpu_level_list(bool runs, char out[CPU_LEVEL_LIST_SIZE]);

struct cpu_options {
    int            threads; /* 0: pool_default_size() */
    int            level;   /* enum cpu_level, or -1 for the detected one; one that does not run: refused by name */
    enum precision precision;
    int            kv_elem_size; /* of kv.h: 1, 2 or 4; 0: 4 in exact mode, else 2 */
};

int cpu_backend_new(struct backend **out, const struct cpu_options *o, struct error *e);
/* Facts for reports. */
enum cpu_level cpu_backend_level(const struct backend *b);
int            cpu_backend_threads(const struct backend *b);
enum precision cpu_backend_precision(const struct backend *b);
struct pool   *cpu_backend_pool(const struct backend *b);

#endif
