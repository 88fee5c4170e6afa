/* Checks and derived numbers of a description; contracts in desc.h. */
#include "model/desc.h"

#include <string.h>

static int bad(struct error *e, const struct model_desc *m, int layer, const char *what)
{
    return error_set(e, ERR_MISFIT, "config.json", "config.json: layer %d of %s: %s", layer, m->model_type, what);
}

void desc_names(const char *name[NAMES])
{
    static const char *const usual[NAMES] = {
#define NAME(id, text) [NAME_##id] = (text),
#include "model/names.def"
#undef NAME
    };
    memcpy(name, usual, sizeof usual);
}

static int validate_attn(const struct model_desc *m, int i, struct error *e)
{
    const struct attn_desc *a = &m->layer[i].attn;
    const struct rope_desc *r = &m->rope[a->rope < 0 ? 0 : a->rope];
    if (a->n_head % a->n_kv_head)
        return error_set(e, ERR_MISFIT, "num_key_value_heads",
                         "config.json: num_attention_heads is %d, needed a multiple of num_key_value_heads (%d)",
                         a->n_head, a->n_kv_head);
    if (a->rope >= 0 && (r->dims > a->head_dim || r->dims % 2))
        return error_set(
            e, ERR_MISFIT, "rotary_dim",
            "config.json: rotary_dim (or partial_rotary_factor) makes %d features of a head rotate, needed an "
            "even number of at most head_dim (%d)",
            r->dims, a->head_dim);
    return 0;
}

static int validate_ff(const struct model_desc *m, int i, struct error *e)
{
    const struct layer_desc *l = &m->layer[i];
    if (l->ff == FF_GATED && l->ffn.act == ACT_XIELU)
        return bad(e, m, i, "hidden_act is xielu, which has no gate");
    return 0;
}

static int validate_moe(const struct model_desc *m, int i, struct error *e)
{
    const struct moe_desc *d = m->layer[i].moe;
    int                    n = d->n_expert + d->n_zero;
    if (d->n_expert < 1 || d->n_zero < 0 || n > ROUTE_EXPERTS_MAX)
        return bad(e, m, i, "there must be 1 to 4096 experts");
    if (d->top_k < 1 || d->top_k > n)
        return bad(e, m, i, "a token must have at least one expert, and no more than there are");
    if (d->act == ACT_XIELU)
        return bad(e, m, i, "hidden_act is xielu, which experts do not have");
    if (d->n_group > 1 && (d->n_group > ROUTE_GROUPS_MAX || n % d->n_group || d->topk_group < 1 ||
                           d->topk_group > d->n_group || (int64_t)n / d->n_group * d->topk_group < d->top_k))
        return bad(e, m, i, "the groups of experts must be equal, and those chosen must hold a token's experts");
    return 0;
}

int desc_validate(const struct model_desc *m, struct error *e)
{
    for (int i = 0; i < m->n_layer; i++) {
        bool attends = m->layer[i].mix == MIX_ATTN || m->layer[i].mix == MIX_ATTN_MAMBA2;
        int  err = attends ? validate_attn(m, i, e) : 0;
        if (!err)
            err = validate_ff(m, i, e);
        if (!err && (m->layer[i].ff == FF_MOE || m->layer[i].shortcut == FF_MOE))
            err = validate_moe(m, i, e);
        if (err)
            return err;
    }
    return 0;
}
