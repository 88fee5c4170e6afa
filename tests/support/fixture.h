/* Opens a fixture of tests/data/arch with the modules below the engine, for tests that compose steps themselves. */
#ifndef MLXCEL_TESTS_FIXTURE_H
#define MLXCEL_TESTS_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "cpu/cpu.h"
#include "model/model.h"

struct fixture {
    struct backend *backend;
    struct model   *model;
};

static inline int fixture_load_on(struct fixture *f, const char *dir, const struct cpu_options *cpu, int page_tokens,
                                  struct error *e)
{
    struct model_options o = {.page_tokens = page_tokens};
    *f = (struct fixture){0};
    int err = cpu_backend_new(&f->backend, cpu, e);
    return err ? err : model_load(&f->model, dir, arch_describe, f->backend, &o, e);
}

static inline int fixture_load(struct fixture *f, const char *dir, int threads, int level, enum precision precision,
                               int page_tokens, struct error *e)
{
    struct cpu_options c = {.threads = threads, .level = level, .precision = precision};
    return fixture_load_on(f, dir, &c, page_tokens, e);
}

static inline void fixture_open(struct fixture *f, const char *dir, int threads, int level, enum precision precision,
                                int page_tokens)
{
    struct error e = {0};
    if (fixture_load(f, dir, threads, level, precision, page_tokens, &e)) {
        fprintf(stderr, "%s: %s\n", dir, e.msg);
        exit(1);
    }
}

static inline void fixture_close(struct fixture *f)
{
    model_free(f->model);
    if (f->backend)
        f->backend->free(f->backend);
}

/* A sequence's recurrent state before position 0, to be freed; NULL where the model has none. */
static inline void *state_new(const struct model *m)
{
    size_t n = (m->limits.n_state + 63) / 64 * 64;
    void  *state = n ? aligned_alloc(64, n) : NULL;
    return state ? memset(state, 0, n) : NULL;
}

#endif
