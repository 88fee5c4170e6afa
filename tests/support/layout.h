/* Small tables of parameters and files that hold them in the original layouts: what the tests of layouts share. What is
 * looked for is a place: where an element of a tensor has to come from, its values being those of table_value. */
#ifndef MLXCEL_TESTS_LAYOUT_H
#define MLXCEL_TESTS_LAYOUT_H

#include "model/planes.h"
#include "scratch.h"
#include "table.h"

enum { E = 3, O = 32, K = 96, LAYERS = 2 };

static const struct table_form dense[] = {{{0}, DTYPE_F32}, {{0}, DTYPE_BF16}, {{0}, DTYPE_F16}};
static const struct table_form coded[] = {{{QUANT_AFFINE, 4, 32, DTYPE_BF16}, DTYPE_BF16},
                                          {{QUANT_AFFINE, 6, 32, DTYPE_F32}, DTYPE_BF16},
                                          {{QUANT_MXFP4, 4, 32, DTYPE_U8}, DTYPE_BF16},
                                          {{QUANT_NVFP4, 4, 16, DTYPE_U8}, DTYPE_BF16}};

/* A table of a few rows and what the files hold. */
struct fixture {
    struct model       m;
    struct table_files f;
    struct weight      w[4][E];
};

static inline void begin(struct fixture *x)
{
    memset(x, 0, sizeof *x);
    arena_init(&x->m.arena, (size_t)16 << 20);
    arena_init(&x->f.arena, (size_t)16 << 20);
    x->m.params.arena = &x->m.arena;
    x->m.desc = (struct model_desc){.model_type = "table", .n_layer = LAYERS, .prefix = ""};
    desc_names(x->m.desc.name);
}

static inline void end(struct fixture *x)
{
    struct table    t = {.m = x->m};
    struct backend *b = x->m.backend;
    params_drop_all(&t.m.params);
    table_deinit(&t);
    if (b)
        b->free(b);
}

/* An element of a tensor: what it holds is table_value(of, at). */
struct cell {
    size_t  of;
    int64_t at;
};
typedef struct cell where(const int64_t *i);

/* Adds a tensor, or the planes of a quantized one, whose element at i is where(i)'s. */
static inline void put(struct fixture *x, const char *name, const char *suffix, const struct table_form *form,
                       int n_dim, const int64_t *shape, where *at)
{
    struct param        p = {.name = name, .n_dim = n_dim};
    const struct quant *q = &form->quant;
    int64_t             cols = shape[n_dim - 1], rows = 1, i[4] = {0};
    float               v[4 * K];
    char               *out[3] = {NULL, NULL, NULL};
    memcpy(p.shape, shape, (size_t)n_dim * sizeof *shape);
    for (int d = 0; d < n_dim - 1; d++)
        rows *= shape[d];
    if (q->mode == QUANT_NONE) {
        table_put(&x->f, &p, suffix, form->dtype, cols, (size_t)cols * dtype_size(form->dtype), &out[0]);
    } else {
        size_t scales = quant_scale_row_bytes(q, cols);
        table_put(&x->f, &p, ".weight", DTYPE_U32, cols * q->bits / 32, quant_row_bytes(q, cols), &out[0]);
        table_put(&x->f, &p, ".scales", q->scale_dtype, cols / q->group, scales, &out[1]);
        if (q->mode == QUANT_AFFINE)
            table_put(&x->f, &p, ".biases", q->scale_dtype, cols / q->group, scales, &out[2]);
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t d = n_dim - 2, rest = r; d >= 0; rest /= shape[d--])
            i[d] = rest % shape[d];
        for (i[n_dim - 1] = 0; i[n_dim - 1] < cols; i[n_dim - 1]++) {
            struct cell c = at(i);
            v[i[n_dim - 1]] = table_value(c.of, c.at);
        }
        if (q->mode == QUANT_NONE)
            quant_narrow(form->dtype, v, cols, out[0] + (size_t)(r * cols) * dtype_size(form->dtype));
        else
            quant_encode_row(q, v, cols, out[0] + (size_t)r * quant_row_bytes(q, cols),
                             out[1] + (size_t)r * quant_scale_row_bytes(q, cols),
                             out[2] ? out[2] + (size_t)r * quant_scale_row_bytes(q, cols) : NULL);
    }
}

static inline int bind(struct fixture *x, struct error *e)
{
    struct faults f = {0};
    layout_targets(&x->m.params, &x->m.desc);
    if (params_finish(&x->m.params, e))
        fail_msg("%s", e->msg);
    table_write(&x->f, dir);
    if (checkpoint_open(&x->m.checkpoint, dir, false, NULL, NULL, e))
        fail_msg("%s", e->msg);
    params_bind(&x->m.params, &x->m.desc, x->m.checkpoint, 0, LAYERS, &f);
    int err = faults_report(&f, e);
    faults_deinit(&f);
    return err;
}

static inline void bind_well(struct fixture *x)
{
    struct error e = {0};
    if (bind(x, &e))
        fail_msg("%s", e.msg);
}

static inline void add_stacks(struct fixture *x)
{
    params_add_stack(&x->m.params, SHARD_ROWS, 0, "model.layers.%d.mlp.gate", E, O, K, "experts", x->w[0]);
    params_add_stack(&x->m.params, SHARD_ROWS, 0, "model.layers.%d.mlp.up", E, O, K, "experts", x->w[1]);
}

static int64_t expert; /* whose tensor is made */
static size_t  kind;   /* of which row */

static inline struct cell of_expert(const int64_t *i)
{
    return (struct cell){kind, (expert * O + i[0]) * K + i[1]};
}

static inline void put_experts(struct fixture *x, const struct table_form *form)
{
    static const char *const name[] = {"gate", "up"};
    for (kind = 0; kind < 2; kind++)
        for (expert = 0; expert < E; expert++) {
            char *full = arena_printf(&x->f.arena, "original.layers.0.experts.%lld.%s", (long long)expert, name[kind]);
            put(x, full, ".weight", form, 2, (int64_t[]){O, K}, of_expert);
        }
}

static const struct layout_rule experts_apart[] = {
    {.param = "*.mlp.gate", .from = "*.experts.#.gate"}, {.param = "*.mlp.up", .from = "*.experts.#.up"}, {0}};
static const struct layout_prefix renamed[] = {{"nothing.", "like.it."}, {"model.", "original."}, {0}};

static inline struct cell of_halves(const int64_t *i)
{
    return (struct cell){(size_t)(i[1] / O), (i[0] * O + i[1] % O) * K + i[2]};
}

static inline struct cell of_turns(const int64_t *i)
{
    return (struct cell){(size_t)(i[1] % 2), (i[0] * O + i[1] / 2) * K + i[2]};
}

static inline struct cell of_columns(const int64_t *i)
{
    return (struct cell){(size_t)(i[2] % 2), (i[0] * O + i[2] / 2) * K + i[1]};
}

static const struct layout_rule column_turns[] = {
    {.param = "*.gate", .from = "*.gate_up", .transposed = true, .part = 0, .parts = 2, .interleaved = true},
    {.param = "*.up", .from = "*.gate_up", .transposed = true, .part = 1, .parts = 2, .interleaved = true},
    {0}};

enum { NOPE = 32, DV = 20, R = 64 };

static inline struct cell of_heads(const int64_t *i)
{
    int64_t h = i[0] / (NOPE + DV), r = i[0] % (NOPE + DV);
    return r < NOPE ? (struct cell){0, (h * NOPE + r) * R + i[1]} : (struct cell){1, (h * DV + r - NOPE) * R + i[1]};
}

static const struct layout_rule heads[] = {
    {.param = "*.embed_q", .from = "*.kv_b", .below = "*.unembed_out", .transposed = true, .leftover = true},
    {.param = "*.unembed_out", .from = "*.kv_b", .above = "*.embed_q", .leftover = true},
    {0}};

static inline void add_heads(struct fixture *x)
{
    params_add_stack(&x->m.params, SHARD_ROWS, 0, "model.layers.%d.embed_q", E, R, NOPE, "heads", x->w[0]);
    params_add_stack(&x->m.params, SHARD_ROWS, 0, "model.layers.%d.unembed_out", E, DV, R, "heads", x->w[1]);
    x->m.desc.layout = heads;
}

static inline struct cell of_vector(const int64_t *i)
{
    return (struct cell){2, i[0]};
}

#endif
