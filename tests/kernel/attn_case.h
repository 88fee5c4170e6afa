/* A random attention problem over a paged cache, and its exact answer. */
#ifndef MLXCEL_TESTS_KERNEL_ATTN_CASE_H
#define MLXCEL_TESTS_KERNEL_ATTN_CASE_H

#include "harness.h"

#define CASE_SEQS 4

/* Sequence s has length[s] keys, of which the last n_new[s] are rows of the step. keys and values hold what the cache
 * stores, as float32: [position][n_kv_head * head_dim or v_dim], by sequence. */
struct attn_case {
    int      n_head, n_kv_head, head_dim, v_dim, window, chunk, n_seq, n_row;
    float    scale, softcap, position_scale;
    int      position_unit;
    float   *sinks;  /* [n_head], or NULL */
    bool     latent; /* values are the first v_dim features of keys */
    int      length[CASE_SEQS], n_new[CASE_SEQS];
    float   *keys[CASE_SEQS], *values[CASE_SEQS];
    float   *q; /* [n_row][n_head * head_dim] */
    int32_t *seq, *position;
    int      elem_size;
};

/* Where a case's cache lies: pages in mixed order, each with a guarded end, NaN where nothing was written. */
struct attn_cache {
    struct kv_layer kv;
    void          **pages[CASE_SEQS];
    int             n_page[CASE_SEQS];
};

/* Sizes are drawn so that about `work` multiply-adds are needed. */
void attn_case_new(struct kc *k, struct attn_case *c, int64_t work);
void attn_case_free(struct kc *k, struct attn_case *c);

/* Its arguments; *sinks is their room. */
struct attn attn_case_attn(const struct attn_case *c, const struct attn_cache *t, struct weight *sinks);

/* Writes positions [0, length) of each sequence through the backend's kv_write, `chunk` rows at a time. */
void attn_cache_new(struct kc *k, struct attn_cache *t, const struct attn_case *c, struct cpu *cpu, int page_tokens,
                    int chunk);
void attn_cache_free(struct kc *k, struct attn_cache *t, const struct attn_case *c);

/* y for rows [lo, hi) of the case as one step. */
void attn_case_run(const struct attn_case *c, const struct attn_cache *t, struct cpu *cpu, int lo, int hi, float *y);

/* Rotates copies of the case's q and of its new keys and writes keys and values to the cache, for rows [lo, hi) as one
 * step; by rope_kv_write, or by the operations that it composes. q and k: all rows of the case. */
void attn_case_rope(const struct attn_case *c, const struct attn_cache *t, struct cpu *cpu, const struct rope *rope,
                    bool fused, int lo, int hi, float *q, float *k);

/* The limits of a backend for the case. */
struct run_limits attn_case_limits(const struct attn_case *c);

/* Row i, query head h, in double: y[v_dim] and an error bound for each element. */
void attn_case_exact(const struct attn_case *c, int i, int h, double *y, double *bound);

#endif
