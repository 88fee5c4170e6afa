/* A block: one kind of token mixer or feed-forward, a file mix_*.c or ff_*.c. Its state of a layer is its own struct, made
 * by declare in the model's arena; nobody else looks into it. */
#ifndef MLXCEL_MODEL_BLOCK_H
#define MLXCEL_MODEL_BLOCK_H

#include "model/declare.h"
#include "model/model.h"

struct block {
    const char *name; /* for people; NULL: goes without saying */
    /* Declares the parameters of layer k->layer and what of the cache it needs (model_add_kv), and makes its state:
     * *state. False when out of memory. */
    bool (*declare)(struct model *m, const struct declare *k, void **state);
    /* Columns of float32 that forward takes (act_take), each rounded up by act_cols. */
    int64_t (*scratch)(const struct model_desc *d, int layer);
    /* y = block(x), both [n_row, n_embd] of the step. y is not x. */
    void (*forward)(const struct model *m, struct run *r, const void *state, struct activations *a, struct tensor x,
                    struct tensor y);
};

extern const struct block mix_attn, mix_mla, mix_delta, mix_kda, mix_shortconv, ff_gated, ff_plain, ff_moe;
extern const struct block mix_mamba1, mix_mamba2, mix_attn_mamba2;

/* Of a kind; NULL for NONE. */
const struct block *block_of_mix(enum mix_kind kind);
const struct block *block_of_ff(enum ff_kind kind);

/* The names of the model's blocks, "attention, experts", as the registry of families has them; in the arena, NULL when out of
 * memory. */
const char *model_blocks(const struct model_desc *d, struct arena *a);

/* A matrix [n_row of the step, n] of a block's scratch, until forward returns; its columns count as act_cols(n). */
struct tensor         act_take(struct activations *a, int64_t n_row, int64_t n);
static inline int64_t act_cols(int64_t n)
{
    return (n + 15) / 16 * 16;
}

/* Gives a loaded layer n bytes of a sequence's recurrent state (step.h), aligned to 64; returns where in it they begin. */
size_t model_add_state(struct model *m, size_t n, int layer);

/* Gives the attention of a loaded layer its part of a cache page, and tells the backend how much scratch it needs. The
 * shapes of op are set; op->kv is filled. */
void model_add_kv(struct model *m, struct attn *op, int layer);

#endif
