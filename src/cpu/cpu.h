/* The CPU backend's public face. */
#ifndef MLXCEL_CPU_CPU_H
#define MLXCEL_CPU_CPU_H

#include "base/pool.h"
#include "tensor/ops.h"

/* A level is a set of features; levels are ordered and each contains the one before. See level.c. */
enum cpu_level { CPU_SCALAR, CPU_AVX2, CPU_AVX512, CPU_AVX512VNNI, CPU_LEVELS };

enum cpu_level cpu_level_detect(void);           /* the highest that this machine (and its system) runs */
const char    *cpu_level_name(enum cpu_level l); /* "scalar", "avx2", "avx512", "avx512vnni" */
int            cpu_level_from_name(const char *name); /* -1 if unknown */

struct cpu_options {
    int            threads; /* 0: pool_default_size() */
    int            level;   /* enum cpu_level, or -1 for the detected one; above the detected: refused by name */
    enum precision precision;
};

int cpu_backend_new(struct backend **out, const struct cpu_options *o, struct error *e);
/* Facts for reports. */
enum cpu_level cpu_backend_level(const struct backend *b);
int            cpu_backend_threads(const struct backend *b);
enum precision cpu_backend_precision(const struct backend *b);
struct pool   *cpu_backend_pool(const struct backend *b);

#endif
