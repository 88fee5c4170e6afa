/* The table of blocks, and what they take from the model and its activations; contracts in block.h. */
#include <string.h>

#include "base/num.h"
#include "model/block.h"

const struct block *block_of_mix(enum mix_kind kind)
{
    static const struct block *const blocks[MIX_KINDS] = {
        [MIX_ATTN] = &mix_attn,           [MIX_MLA] = &mix_mla,
        [MIX_DELTA] = &mix_delta,         [MIX_KDA] = &mix_kda,
        [MIX_SHORTCONV] = &mix_shortconv, [MIX_MAMBA1] = &mix_mamba1,
        [MIX_MAMBA2] = &mix_mamba2,       [MIX_ATTN_MAMBA2] = &mix_attn_mamba2,
    };
    return blocks[kind];
}

const struct block *block_of_ff(enum ff_kind kind)
{
    static const struct block *const blocks[FF_KINDS] = {
        [FF_GATED] = &ff_gated,
        [FF_PLAIN] = &ff_plain,
        [FF_MOE] = &ff_moe,
    };
    return blocks[kind];
}

/* Adds the block's name to a list unless it is there. */
static const char *with_name(const char *list, const struct block *b, struct arena *a)
{
    if (!list || !b || !b->name || strstr(list, b->name))
        return list;
    return *list ? arena_printf(a, "%s, %s", list, b->name) : b->name;
}

const char *model_blocks(const struct model_desc *d, struct arena *a)
{
    const char *list = "";
    for (int kind = 0; kind < MIX_KINDS; kind++)
        for (int i = 0; i < d->n_layer; i++)
            if ((int)d->layer[i].mix == kind)
                list = with_name(list, block_of_mix(d->layer[i].mix), a);
    for (int i = 0; i < d->n_layer; i++) {
        list = with_name(list, block_of_ff(d->layer[i].ff), a);
        list = with_name(list, block_of_ff(d->layer[i].shortcut), a);
    }
    return list;
}

struct tensor act_take(struct activations *a, int64_t n_row, int64_t n)
{
    struct tensor t = {(float *)a->scratch.data + a->scratch_used, n_row, n, act_cols(n)};
    a->scratch_used += a->n_row * act_cols(n);
    return t;
}

size_t model_add_state(struct model *m, size_t n, int layer)
{
    size_t at = m->limits.n_state;
    if (layer >= m->lo && layer < m->hi)
        m->limits.n_state += (n + 63) / 64 * 64;
    return at;
}

void model_add_kv(struct model *m, struct attn *op, int layer)
{
    if (layer < m->lo || layer >= m->hi)
        return;
    op->kv = (struct kv_layer){.n_kv_head = op->n_kv_head,
                               .head_dim = op->head_dim,
                               .v_dim = op->v_dim,
                               .latent = op->latent,
                               .elem_size = m->kv_elem_size,
                               .page_tokens = m->page_tokens,
                               .offset = m->page_bytes};
    m->page_bytes += (kv_layer_bytes(&op->kv) + 63) / 64 * 64;
    int64_t v_dim = op->latent ? 0 : op->v_dim;
    m->kv_values += op->n_kv_head * (op->head_dim + v_dim);
    m->kv_keys += op->n_kv_head * (v_dim ? 2 : 1);
    m->limits.n_head = MAX(m->limits.n_head, op->n_head);
    m->limits.n_kv_head = MAX(m->limits.n_kv_head, op->n_kv_head);
    m->limits.head_dim = MAX(m->limits.head_dim, MAX(op->head_dim, op->v_dim));
}
