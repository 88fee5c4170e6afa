/* Adapters over the hand-made table: writing their files, loading them. */
#ifndef MLXCEL_TESTS_TABLE_LORA_H
#define MLXCEL_TESTS_TABLE_LORA_H

#include <sys/stat.h>

#include "../support/scratch.h"
#include "../support/table.h"
#include "adapt/adapt.h"
#include "cpu/cpu.h"
#include "model/change.h"
#include "model/planes.h"

enum { R = 3, N_WEIGHT_MAX = 64, N_X = 2 };
#define SCALE 1.5     /* of the adapters' files */
#define SET_SCALE 0.5 /* of their use */
#define L0 "model.layers.0."
#define L1 "model.layers.1."
#define PEFT "base_model.model."

static const char mlx_config[] = "{\"fine_tune_type\": \"lora\", \"lora_parameters\": {\"rank\": 3, \"scale\": 1.5}}";
static const char dora_config[] = "{\"fine_tune_type\": \"dora\", \"lora_parameters\": {\"rank\": 3, \"scale\": 1.5}}";
static const char full_config[] = "{\"fine_tune_type\": \"full\"}";
static const char peft_config[] = "{\"peft_type\": \"LORA\", \"r\": 3, \"lora_alpha\": 4.5, \"target_parameters\": "
                                  "[\"mlp.experts.down_proj\", \"mlp.experts.gate_up_proj\"]}";

static const struct table_form forms[] = {
    {{0}, DTYPE_F32},
    {{0}, DTYPE_BF16},
    {{QUANT_AFFINE, 4, 32, DTYPE_F16}, DTYPE_F16},
    {{QUANT_AFFINE, 3, 32, DTYPE_F32}, DTYPE_F32},
    {{QUANT_AFFINE, 8, 32, DTYPE_BF16}, DTYPE_BF16},
    {{QUANT_MXFP4, 4, 32, DTYPE_U8}, DTYPE_BF16},
    {{QUANT_MXFP8, 8, 32, DTYPE_U8}, DTYPE_BF16},
    {{QUANT_NVFP4, 4, 16, DTYPE_U8}, DTYPE_BF16},
};

/* An adapter that is being written, and what it must change. */
struct job {
    struct table      *t;
    struct table_files f;
    double            *delta[N_WEIGHT_MAX];     /* by weight.index: [n_out][n_in], NULL: unchanged */
    double            *magnitude[N_WEIGHT_MAX]; /* of DoRA: [n_out], 0: a row without; or NULL */
    const float       *own[N_WEIGHT_MAX];       /* [n_out][n_in] instead of the weight, or NULL */
    const float       *bias[N_WEIGHT_MAX];      /* [n_out] instead of its bias, or NULL */
    double            *head;                    /* what only the head's use of the embedding has beside that */
    uint32_t           seed;
};

/* A tensor of random values. */
static inline const float *put(struct job *j, const char *name, int n_dim, int64_t d0, int64_t d1, int64_t d2)
{
    struct tensor_view *v = &j->f.v[j->f.n++];
    int64_t             n = d0 * (n_dim > 1 ? d1 : 1) * (n_dim > 2 ? d2 : 1);
    float              *x = arena_alloc(&j->f.arena, (size_t)n * sizeof *x);
    assert_true(j->f.n <= ARRAY_LEN(j->f.v));
    *v = (struct tensor_view){.name = name, .dtype = DTYPE_F32, .n_dim = n_dim, .shape = {d0, d1, d2}, .data = x};
    v->size = (size_t)n * sizeof *x;
    j->seed++;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(rng_uniform(9, j->seed, (uint64_t)i) - 0.5);
    return x;
}

/* Value (i, k) of a matrix in a tensor: data[at + i * row + k * col]. */
struct half {
    const float *data;
    int64_t      at, row, col;
};

/* A linear's pair: a [n_in, R], b [R, n_out]. */
static inline void mlx_pair(struct job *j, const char *a_name, const char *b_name, int64_t n_in, int64_t n_out,
                            struct half *a, struct half *b)
{
    *a = (struct half){put(j, a_name, 2, n_in, R, 0), 0, 1, R};
    *b = (struct half){put(j, b_name, 2, R, n_out, 0), 0, 1, n_out};
}

/* A stack's pair: a [E, R, n_in], b [E, n_out, R]; the halves are those of matrix 0. */
static inline void mlx_stack(struct job *j, const char *a_name, const char *b_name, int n, int64_t n_in, int64_t n_out,
                             struct half *a, struct half *b)
{
    *a = (struct half){put(j, a_name, 3, n, R, n_in), 0, n_in, 1};
    *b = (struct half){put(j, b_name, 3, n, n_out, R), 0, R, 1};
}

#define PAIR(module) module ".lora_a", module ".lora_b"

/* The table bound to random values and prepared, the weights changed by `change` (NULL: not). */
static inline void prepare_changed(struct table *t, const struct table_form *form, int lo, int hi,
                                   const struct param_change *change)
{
    struct table_files f;
    struct error       e = {0};
    struct cpu_options o = {.threads = 2, .level = -1, .precision = PRECISION_EXACT};
    struct run_limits  lim = {.n_row = T_VOCAB,
                              .n_in = T_EMBD,
                              .n_out = 2 * T_EMBD,
                              .n_head = 1,
                              .n_kv_head = 1,
                              .head_dim = 64,
                              .n_rank = 64};
    table_init(t);
    table_make(&f, t, form);
    table_write(&f, dir);
    if (table_bind(t, dir, false, lo, hi, &e) || cpu_backend_new(&t->m.backend, &o, &e) ||
        t->m.backend->reserve(t->m.backend, &lim, &e) || (change && change->begin(change->ctx, &t->m, &e)) ||
        params_prepare(&t->m.params, t->m.backend, change, &e))
        fail_msg("%s", e.msg);
}

static inline void prepare(struct table *t, const struct table_form *form, int lo, int hi)
{
    prepare_changed(t, form, lo, hi, NULL);
}

static inline void close_table(struct table *t)
{
    struct backend *b = t->m.backend;
    params_drop_all(&t->m.params);
    table_deinit(t);
    b->free(b);
}

/* Writes the job's adapter; its path is good until the next one. */
static inline const char *write_adapter(struct job *j, const char *config, const char *file)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/adapter", dir);
    if (access(path, F_OK) == 0)
        tmp_remove(strdup(path));
    assert_int_equal(mkdir(path, 0700), 0);
    tmp_puts(path, "adapter_config.json", config);
    assert_int_equal(safetensors_write(tmp_path(path, file), j->f.v, j->f.n, NULL, true, NULL), 0);
    return path;
}

static inline int load(struct job *j, const char *config, const char *file, struct adapter **a, struct error *e)
{
    return adapter_load(a, write_adapter(j, config, file), &j->t->m, j->t->m.backend, NULL, e);
}

static inline void job_init(struct job *j, struct table *t)
{
    memset(j, 0, sizeof *j);
    j->t = t;
    arena_init(&j->f.arena, (size_t)16 << 20);
    assert_true(t->m.params.n_weight <= N_WEIGHT_MAX);
}

static inline void job_deinit(struct job *j)
{
    for (int i = 0; i < N_WEIGHT_MAX; i++) {
        free(j->delta[i]);
        free(j->magnitude[i]);
    }
    free(j->head);
    arena_deinit(&j->f.arena);
}

#endif
