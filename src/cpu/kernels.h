/* Internal to src/cpu: the tables of kernels, one for each family and level, and the backend that holds those of its level.
 *
 * A family's file set: <family>_scalar.c (the reference form), <family>_avx2.c, <family>_avx512.c, <family>_neon.c, ...;
 * each is compiled for its instruction set and defines one whole table. All levels compute the same sequence of float
 * operations per element unless the table says otherwise, so kernelcheck compares them bit for bit.
 */
#ifndef MLXCEL_CPU_KERNELS_H
#define MLXCEL_CPU_KERNELS_H

#include <pthread.h>

#include "base/huge.h"
#include "base/num.h"
#include "cpu/cpu.h"

struct linear_fns; /* linear.h */
struct bf16_fns;   /* linear.h: products of bfloat16 pairs */
struct attn_fns;   /* attn.h */
struct row_fns;    /* rows.h: norms, activations, add, rope, conversions */
struct delta_fns;  /* delta.h: gated delta rule */
struct ssm_fns;    /* ssm.h: short convolutions, state space models */
struct lora_fns;   /* lora.h: products with adapters */

struct cpu {
    struct backend           base;
    struct pool             *pool;
    enum cpu_level           level;
    enum precision           precision;
    const struct linear_fns *linear;
    const struct bf16_fns   *bf16; /* NULL where the level has none or the precision wants float32 */
    const struct attn_fns   *attn;
    const struct row_fns    *rows;
    const struct lora_fns   *lora;
    const struct delta_fns  *delta;
    const struct ssm_fns    *ssm;
    struct run_limits        lim;
    struct huge              weights;      /* packed */
    pthread_mutex_t          weights_lock; /* what one thread prepares, another may release */
    /* made by reserve, freed with the backend */
    void *linear_scratch, *lora_scratch, *attn_scratch, *index_scratch, *moe_scratch;
};

/* Gives the next n elements of a block of memory that is being laid out; with p NULL only counts. */
static inline void *memory_take(char *p, size_t *at, size_t n, size_t size, bool *ok)
{
    size_t bytes, start = *at;
    if (!num_mul(n, size, &bytes) || !num_align(bytes, 64, &bytes) || !num_add(start, bytes, at))
        *ok = false;
    return p && *ok ? p + start : NULL;
}

/* The table of a family that is written once on vec.h's lanes, for a level: <name>_scalar, <name>_avx2, ... */
#if defined(__x86_64__)
#define KERNELS_FOR(name, level)                                                                                       \
    ((level) >= CPU_AVX512 ? &name##_avx512 : (level) >= CPU_AVX2 ? &name##_avx2 : &name##_scalar)
#elif defined(__aarch64__)
#define KERNELS_FOR(name, level) ((level) >= CPU_NEON ? &name##_neon : &name##_scalar)
#else
#define KERNELS_FOR(name, level) ((void)(level), &name##_scalar)
#endif

/* Each family: its table for a level, and its operations and scratch. */
const struct linear_fns *linear_fns_for(enum cpu_level level);
const struct bf16_fns   *bf16_fns_for(enum cpu_level level, enum precision p);
const struct attn_fns   *attn_fns_for(enum cpu_level level);
const struct row_fns    *row_fns_for(enum cpu_level level);
const struct lora_fns   *lora_fns_for(enum cpu_level level);
const struct delta_fns  *delta_fns_for(enum cpu_level level);
const struct ssm_fns    *ssm_fns_for(enum cpu_level level);

void linear_install(struct cpu *c); /* ops embed, linear, linear_many, linear_act_mul; prepare, release, packed_size */
int  linear_reserve(struct cpu *c, struct error *e);
int  lora_reserve(struct cpu *c, struct error *e); /* keeps what it had when it fails */
void attn_install(struct cpu *c);                  /* op attention */
int  attn_reserve(struct cpu *c, struct error *e);
void delta_install(struct cpu *c); /* ops delta_gates, delta */
void ssm_install(struct cpu *c);   /* ops conv, mamba1, mamba2 */
void route_install(struct cpu *c); /* op route */
void moe_install(struct cpu *c);   /* op moe */
int  moe_reserve(struct cpu *c, struct error *e);
int  index_reserve(struct cpu *c, struct error *e); /* of op index_keys; nothing where no indexer is */
void ngram_install(struct cpu *c);                  /* op ngram_ids */
void rows_install(struct cpu *c);                   /* the other operations: a row of them is the work of one thread */

#endif
