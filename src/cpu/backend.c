/* The CPU backend: one record of the level's kernels, a pool of threads and the scratch of the operations. */
#include <stdlib.h>

#include "cpu/kernels.h"

static int cpu_reserve(struct backend *b, const struct run_limits *lim, struct error *e)
{
    struct cpu       *c = (struct cpu *)b;
    struct run_limits former = c->lim;
    c->lim = *lim;
    int rc = linear_reserve(c, e);
    if (!rc)
        rc = lora_reserve(c, e);
    if (!rc)
        rc = attn_reserve(c, e);
    if (!rc)
        rc = moe_reserve(c, e);
    if (!rc)
        rc = index_reserve(c, e);
    if (rc)
        c->lim = former; /* its scratch is still there, or a larger one */
    return rc;
}

static void cpu_free(struct backend *b)
{
    struct cpu *c = (struct cpu *)b;
    if (!c)
        return;
    pool_free(c->pool);
    huge_deinit(&c->weights);
    pthread_mutex_destroy(&c->weights_lock);
    free(c->linear_scratch);
    free(c->lora_scratch);
    free(c->attn_scratch);
    free(c->moe_scratch);
    free(c->index_scratch);
    free(c);
}

int cpu_backend_new(struct backend **out, const struct cpu_options *o, struct error *e)
{
    char runs[CPU_LEVEL_LIST_SIZE];
    if (o->level >= CPU_LEVELS)
        return error_set(e, ERR_INVALID, "cpu-level", "CPU level %d does not exist", o->level);
    if (o->level >= 0 && !cpu_level_runs((enum cpu_level)o->level))
        return error_set(e, ERR_INVALID, "cpu-level", "CPU level '%s' does not run on this machine; these do: %s",
                         cpu_level_name((enum cpu_level)o->level), cpu_level_list(true, runs));
    struct cpu *c = calloc(1, sizeof *c);
    if (!c)
        return error_nomem(e, "the CPU backend");
    c->base.name = "cpu";
    c->base.reserve = cpu_reserve;
    c->base.free = cpu_free;
    c->base.kv_elem_size = o->kv_elem_size ? o->kv_elem_size : o->precision == PRECISION_EXACT ? 4 : 2;
    c->precision = o->precision;
    pthread_mutex_init(&c->weights_lock, NULL);
    c->level = o->level < 0 ? cpu_level_detect() : (enum cpu_level)o->level;
    int rc = pool_new(&c->pool, o->threads ? o->threads : pool_default_size(), e);
    if (rc) {
        cpu_free(&c->base);
        return rc;
    }
    c->linear = linear_fns_for(c->level);
    c->bf16 = bf16_fns_for(c->level, c->precision);
    c->attn = attn_fns_for(c->level);
    c->rows = row_fns_for(c->level);
    c->lora = lora_fns_for(c->level);
    c->delta = delta_fns_for(c->level);
    c->ssm = ssm_fns_for(c->level);
    linear_install(c);
    attn_install(c);
    rows_install(c);
    ngram_install(c);
    delta_install(c);
    ssm_install(c);
    route_install(c);
    moe_install(c);
    ops_set_defaults(&c->base.ops);
    *out = &c->base;
    return 0;
}

enum cpu_level cpu_backend_level(const struct backend *b)
{
    return ((const struct cpu *)b)->level;
}

enum precision cpu_backend_precision(const struct backend *b)
{
    return ((const struct cpu *)b)->precision;
}

int cpu_backend_threads(const struct backend *b)
{
    return pool_size(((const struct cpu *)b)->pool);
}

struct pool *cpu_backend_pool(const struct backend *b)
{
    return ((const struct cpu *)b)->pool;
}
