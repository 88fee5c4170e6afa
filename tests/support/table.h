/* A small parameter table declared by hand, with every kind of row and of name that no family here has yet: stacks of
 * experts, a stack's bias, parameters stored as one with named parts, fused names over several, planes of heads, a tied head.
 * Its checkpoint is of random values, dense or in any quantized mode. */
#ifndef MLXCEL_TESTS_TABLE_H
#define MLXCEL_TESTS_TABLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../support/tmp.h"
#include "base/num.h"
#include "base/rng.h"
#include "formats/safetensors.h"
#include "model/model.h"
#include "model/target.h"

/* Widths are multiples of 32, which every mode has groups of; Q and KV rows are no multiples of a tile. */
enum { T_LAYERS = 2, T_VOCAB = 72, T_EMBD = 64, T_Q = 40, T_KV = 24, T_FF = 32, T_EXPERTS = 3 };
enum { T_HEADS = 2, T_NOPE = 32, T_V = 20, T_RANK = 64, T_ROWS_MAX = 64 };

struct table_layer {
    struct weight norm, qkv; /* stored as one */
    struct weight q, k, v;   /* stored apart */
    struct weight gate[T_EXPERTS], up[T_EXPERTS], down[T_EXPERTS];
    struct weight gate_up[T_EXPERTS];                     /* one stack, gates before ups */
    struct weight embed_q[T_HEADS], unembed_out[T_HEADS]; /* kv_b_proj, head by head */
};

struct table {
    struct model       m; /* as far as passes over the table and adapters look at it */
    struct weight      embed;
    struct table_layer layer[T_LAYERS];
};

#define T_LAYER "model.layers.%d."

static inline void table_declare_attention(struct params *p, int i, struct table_layer *l)
{
    struct param_segment s[2 * T_HEADS];
    params_add(p, ROLE_LINEAR, SHARD_ROWS, i, T_LAYER "self_attn.qkv_proj", T_Q + 2 * T_KV, T_EMBD, "rows", &l->qkv);
    params_part(p, i, T_LAYER "self_attn.q_proj", &l->qkv, 0, T_Q);
    params_part(p, i, T_LAYER "self_attn.k_proj", &l->qkv, T_Q, T_KV);
    params_part(p, i, T_LAYER "self_attn.v_proj", &l->qkv, T_Q + T_KV, T_KV);
    params_add(p, ROLE_LINEAR, SHARD_ROWS, i, T_LAYER "cross.q_proj", T_Q, T_EMBD, "rows", &l->q);
    params_add(p, ROLE_LINEAR, SHARD_ROWS, i, T_LAYER "cross.k_proj", T_KV, T_EMBD, "rows", &l->k);
    params_add(p, ROLE_LINEAR, SHARD_ROWS, i, T_LAYER "cross.v_proj", T_KV, T_EMBD, "rows", &l->v);
    params_fused(p, i, T_LAYER "cross.qkv_proj", 3, (const struct weight *const[]){&l->q, &l->k, &l->v});
    params_add_stack(p, SHARD_ROWS, i, T_LAYER "mla.embed_q", T_HEADS, T_RANK, T_NOPE, "heads", l->embed_q);
    params_add_stack(p, SHARD_ROWS, i, T_LAYER "mla.unembed_out", T_HEADS, T_V, T_RANK, "heads", l->unembed_out);
    for (int h = 0; h < T_HEADS; h++) {
        int64_t from = h * (T_NOPE + T_V);
        s[2 * h] = (struct param_segment){l->embed_q, NULL, h, true, from, 1, 0, T_NOPE};
        s[2 * h + 1] = (struct param_segment){l->unembed_out, NULL, h, false, from + T_NOPE, 1, 0, T_V};
    }
    params_segments(p, i, T_LAYER "mla.kv_b_proj", T_RANK, T_HEADS * (T_NOPE + T_V), 2 * T_HEADS, s);
}

static inline void table_declare_experts(struct params *p, int i, struct table_layer *l)
{
    const struct param_segment odd_even[2] = {{l->gate, NULL, SEGMENT_ALL, false, 0, 2, 0, T_FF},
                                              {l->up, NULL, SEGMENT_ALL, false, 1, 2, 0, T_FF}};
    params_add_stack(p, SHARD_ROWS, i, T_LAYER "mlp.switch_mlp.gate_proj", T_EXPERTS, T_FF, T_EMBD, "experts", l->gate);
    params_add_stack(p, SHARD_ROWS, i, T_LAYER "mlp.switch_mlp.up_proj", T_EXPERTS, T_FF, T_EMBD, "experts", l->up);
    params_add_stack(p, SHARD_COLS, i, T_LAYER "mlp.switch_mlp.down_proj", T_EXPERTS, T_EMBD, T_FF, "experts", l->down);
    params_add(p, ROLE_BIAS, SHARD_NONE, i, T_LAYER "mlp.switch_mlp.down_proj.bias", T_EXPERTS, T_EMBD, "bias",
               l->down);
    params_part(p, i, T_LAYER "mlp.experts.#.gate_proj", l->gate, 0, T_FF);
    params_part(p, i, T_LAYER "mlp.experts.#.up_proj", l->up, 0, T_FF);
    params_part(p, i, T_LAYER "mlp.experts.#.down_proj", l->down, 0, T_EMBD);
    params_part(p, i, T_LAYER "mlp.experts.down_proj", l->down, 0, T_EMBD);
    params_fused(p, i, T_LAYER "mlp.experts.gate_up_proj", 2, (const struct weight *const[]){l->gate, l->up});
    params_segments(p, i, T_LAYER "mlp.experts.gate_up_pairs", T_EMBD, 2 * T_FF, 2, odd_even);
    params_add_stack(p, SHARD_ROWS, i, T_LAYER "moe.gate_up_proj", T_EXPERTS, 2 * T_FF, T_EMBD, "experts", l->gate_up);
    params_part(p, i, T_LAYER "moe.up_proj", l->gate_up, T_FF, T_FF);
    params_part(p, i, T_LAYER "moe.#.up_proj", l->gate_up, T_FF, T_FF);
}

static inline void table_init(struct table *t)
{
    struct params *p = &t->m.params;
    struct error   e = {0};
    memset(t, 0, sizeof *t);
    arena_init(&t->m.arena, (size_t)16 << 20);
    p->arena = &t->m.arena;
    t->m.desc.n_layer = t->m.hi = T_LAYERS;
    t->m.desc.n_vocab = T_VOCAB;
    t->m.desc.n_embd = T_EMBD;
    t->m.desc.prefix = "";
    t->m.tied = true;
    snprintf(t->m.desc.model_type, sizeof t->m.desc.model_type, "table");
    params_add(p, ROLE_EMBED, SHARD_ROWS, -1, "model.embed_tokens", T_VOCAB, T_EMBD, "vocab_size", &t->embed);
    for (int i = 0; i < T_LAYERS; i++) {
        params_add(p, ROLE_NORM, SHARD_NONE, i, T_LAYER "norm", T_EMBD, 0, "hidden_size", &t->layer[i].norm);
        table_declare_attention(p, i, &t->layer[i]);
        table_declare_experts(p, i, &t->layer[i]);
    }
    params_tied_head(p, "lm_head", &t->embed);
    if (params_finish(p, &e))
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < p->n; i++)
        t->m.n_parameter += param_elements(&p->v[i]);
}

static inline void table_deinit(struct table *t)
{
    if (t->m.backend)
        params_release(&t->m.params, t->m.backend);
    checkpoint_close(t->m.checkpoint);
    arena_deinit(&t->m.arena);
}

/* Value j of row i of the table: about [-1, 1]. */
static inline float table_value(size_t i, int64_t j)
{
    return (float)(2 * rng_uniform(5, (uint32_t)i, (uint64_t)j) - 1);
}

/* What is written: dense of a type, or quantized. */
struct table_form {
    struct quant quant;
    enum dtype   dtype; /* of what is dense */
};

struct table_files {
    struct tensor_view v[128];
    size_t             n;
    struct arena       arena;
};

static inline void table_put(struct table_files *f, const struct param *p, const char *suffix, enum dtype dtype,
                             int64_t cols, size_t row_bytes, char **data)
{
    struct tensor_view *t = &f->v[f->n++];
    int64_t             rows = 1;
    assert_true(f->n <= ARRAY_LEN(f->v));
    *t = (struct tensor_view){
        .name = arena_printf(&f->arena, "%s%s", p->name, suffix), .dtype = dtype, .n_dim = p->n_dim};
    for (int i = 0; i < p->n_dim; i++)
        t->shape[i] = p->shape[i];
    t->shape[p->n_dim - 1] = cols;
    for (int i = 0; i < p->n_dim - 1; i++)
        rows *= p->shape[i];
    t->size = row_bytes * (size_t)rows;
    t->data = *data = arena_alloc(&f->arena, t->size);
}

/* The tensors of row i of the table. */
static inline void table_put_row(struct table_files *f, const struct table *t, size_t i, const struct table_form *form)
{
    const struct param *p = &t->m.params.v[i];
    const struct quant *q = &form->quant;
    int64_t             cols = p->shape[p->n_dim - 1], rows = param_elements(p) / cols;
    bool                quantized = param_is_matrix(p) && q->mode != QUANT_NONE;
    float               x[2 * T_EMBD];
    char               *out[3] = {NULL, NULL, NULL};
    if (quantized) {
        table_put(f, p, ".weight", DTYPE_U32, cols * q->bits / 32, quant_row_bytes(q, cols), &out[0]);
        table_put(f, p, ".scales", q->scale_dtype, cols / q->group, quant_scale_row_bytes(q, cols), &out[1]);
        if (q->mode == QUANT_AFFINE)
            table_put(f, p, ".biases", q->scale_dtype, cols / q->group, quant_scale_row_bytes(q, cols), &out[2]);
    } else
        table_put(f, p, p->role == ROLE_BIAS ? "" : ".weight", form->dtype, cols,
                  (size_t)cols * dtype_size(form->dtype), &out[0]);
    for (int64_t r = 0; r < rows; r++) {
        size_t row = (size_t)r;
        for (int64_t j = 0; j < cols; j++)
            x[j] = table_value(i, r * cols + j);
        if (quantized)
            quant_encode_row(q, x, cols, out[0] + row * quant_row_bytes(q, cols),
                             out[1] + row * quant_scale_row_bytes(q, cols),
                             out[2] ? out[2] + row * quant_scale_row_bytes(q, cols) : NULL);
        else
            quant_narrow(form->dtype, x, cols, out[0] + row * (size_t)cols * dtype_size(form->dtype));
    }
}

/* The checkpoint's tensors, to be spoilt and then written. */
static inline void table_make(struct table_files *f, const struct table *t, const struct table_form *form)
{
    f->n = 0;
    arena_init(&f->arena, (size_t)16 << 20);
    for (size_t i = 0; i < t->m.params.n; i++)
        table_put_row(f, t, i, form);
}

static inline struct tensor_view *table_tensor(struct table_files *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (!strcmp(f->v[i].name, name))
            return &f->v[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static inline void table_write(struct table_files *f, const char *folder)
{
    struct error e = {0};
    if (safetensors_write(tmp_path(folder, "model.safetensors"), f->v, f->n, NULL, true, &e))
        fail_msg("%s", e.msg);
    arena_deinit(&f->arena);
}

/* Opens folder and binds layers [lo, hi); returns the report's code. */
static inline int table_bind(struct table *t, const char *folder, bool headers, int lo, int hi, struct error *e)
{
    struct faults f = {0};
    t->m.lo = lo;
    t->m.hi = hi;
    if (checkpoint_open(&t->m.checkpoint, folder, headers, NULL, NULL, e))
        return e->code;
    params_bind(&t->m.params, &t->m.desc, t->m.checkpoint, lo, hi, &f);
    int err = faults_report(&f, e);
    faults_deinit(&f);
    return err;
}

#endif
