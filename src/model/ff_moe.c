/* A mixture of experts (Shazeer et al. 2017; shared experts: Dai et al. 2024):
 *
 *     id, w = route(x Wr^T (+ br))                              the row's top_k experts and their weights
 *     y = sum over the experts, by id, of w_e expert_e(x)       expert(x) = (act(x Wg^T) * (x Wu^T)) Wd^T
 *     y = y + (sigmoid(x ws^T)) shared(x)                       where there is a shared block, last
 *
 * Where experts have a width of their own they work on x W1^T, and their sum goes back through W2.
 */
#include "base/num.h"
#include "model/block.h"
#include "model/target.h"

struct moe_block {
    struct weight router, shared_gate, shared_up, shared_down, shared_weight, latent_in, latent_out;
    struct route  route;
    struct moe    moe;
    struct act    act;
    int           n_shared_ff, n_latent;
    bool          plain, gated_shared, shared_fused;
};

static void declare_router(const struct declare *k, const struct moe_desc *d, struct moe_block *b)
{
    int         n = d->n_expert + d->n_zero;
    const char *why = d->n_zero ? "number of experts and of zero experts" : "number of experts";
    declare_linear(k, NAME_ROUTER, SHARD_NONE, n, k->d->n_embd, "number of experts, hidden_size",
                   d->router_bias ? why : NULL, &b->router);
    b->route = (struct route){.n_expert = n,
                              .top_k = d->top_k,
                              .score = d->score,
                              .n_group = d->n_group,
                              .topk_group = d->topk_group,
                              .group = d->group,
                              .correction = {.index = -1},
                              .normalize = d->normalize,
                              .sum_add = d->sum_add,
                              .sum_min = d->sum_min,
                              .jitter = d->jitter,
                              .scale = d->scale};
    if (d->correction)
        declare_vector(k, NAME_ROUTER_CORRECTION, n, why, &b->route.correction);
    if (d->may_lack_correction)
        params_optional(k->p, &b->route.correction);
}

static bool declare_experts(struct model *m, const struct declare *k, const struct moe_desc *d, struct moe_block *b)
{
    int            n = d->n_expert, n_in = d->n_latent ? d->n_latent : k->d->n_embd;
    const char    *why = "number of experts, their intermediate size, hidden_size", *bias = d->bias ? why : NULL;
    struct weight *w = arena_calloc(&m->arena, 3 * (size_t)n, sizeof *w);
    if (!w)
        return false;
    b->moe = (struct moe){.n_expert = n, .top_k = d->top_k, .up = w, .down = w + n, .act = b->act};
    if (!d->plain) {
        b->moe.gate = w + 2 * n;
        declare_stack(k, NAME_EXPERT_GATE, SHARD_ROWS, n, d->n_ff, n_in, why, bias, b->moe.gate);
        params_active(k->p, b->moe.gate, d->top_k);
    }
    declare_stack(k, NAME_EXPERT_UP, SHARD_ROWS, n, d->n_ff, n_in, why, bias, b->moe.up);
    declare_stack(k, NAME_EXPERT_DOWN, SHARD_COLS, n, n_in, d->n_ff, why, bias, b->moe.down);
    params_active(k->p, b->moe.up, d->top_k);
    params_active(k->p, b->moe.down, d->top_k);
    if (d->n_latent) {
        const char *latent = "latent size of the experts, hidden_size", *biased = d->shared_bias ? latent : NULL;
        declare_linear(k, NAME_LATENT_IN, SHARD_NONE, n_in, k->d->n_embd, latent, biased, &b->latent_in);
        declare_linear(k, NAME_LATENT_OUT, SHARD_NONE, k->d->n_embd, n_in, latent, biased, &b->latent_out);
    }
    return true;
}

static void declare_shared(const struct declare *k, const struct moe_desc *d, struct moe_block *b)
{
    const char *why = "intermediate size of the shared experts, hidden_size", *bias = d->shared_bias ? why : NULL;
    int         n_embd = k->d->n_embd;
    if (!d->n_shared_ff)
        return;
    if (d->shared_fused)
        declare_linear(k, NAME_SHARED_GATE, SHARD_NONE, 2 * (int64_t)d->n_shared_ff, n_embd, why, bias,
                       &b->shared_gate);
    else if (!d->plain)
        declare_linear(k, NAME_SHARED_GATE, SHARD_ROWS, d->n_shared_ff, n_embd, why, bias, &b->shared_gate);
    if (!d->shared_fused)
        declare_linear(k, NAME_SHARED_UP, SHARD_ROWS, d->n_shared_ff, n_embd, why, bias, &b->shared_up);
    declare_linear(k, NAME_SHARED_DOWN, SHARD_COLS, n_embd, d->n_shared_ff, why, bias, &b->shared_down);
    if (d->shared_gate)
        declare_linear(k, NAME_SHARED_WEIGHT, SHARD_NONE, 1, n_embd, "hidden_size", NULL, &b->shared_weight);
}

static void limit(struct model *m, int layer, const struct moe_block *b)
{
    struct run_limits *l = &m->limits;
    if (layer < m->lo || layer >= m->hi)
        return;
    l->n_expert = MAX(l->n_expert, b->moe.n_expert);
    l->top_k = MAX(l->top_k, b->moe.top_k);
    l->n_expert_in = MAX(l->n_expert_in, b->moe.up->n_in);
    l->n_expert_ff = MAX(l->n_expert_ff, b->moe.up->n_out);
}

static bool declare(struct model *m, const struct declare *k, void **state)
{
    const struct moe_desc *d = k->d->layer[k->layer].moe;
    struct moe_block      *b = arena_calloc(&m->arena, 1, sizeof *b);
    if (!b)
        return false;
    b->act = (struct act){.kind = d->act, .limit = d->act_limit, .alpha = d->act_alpha};
    b->plain = d->plain;
    b->n_shared_ff = d->n_shared_ff;
    b->gated_shared = d->shared_gate;
    b->shared_fused = d->shared_fused;
    b->n_latent = d->n_latent;
    declare_router(k, d, b);
    if (!declare_experts(m, k, d, b))
        return false;
    declare_shared(k, d, b);
    limit(m, k->layer, b);
    *state = b;
    return true;
}

static int64_t scratch(const struct model_desc *d, int layer)
{
    const struct moe_desc *e = d->layer[layer].moe;
    int64_t                experts = act_cols(e->n_expert + e->n_zero) + 2 * act_cols(e->top_k);
    return experts + 2 * act_cols(e->n_latent) + 2 * act_cols(e->n_shared_ff) + act_cols(d->n_embd) + act_cols(1);
}

/* y += the shared block's output. */
static void add_shared(const struct moe_block *b, struct run *r, struct activations *a, struct tensor x,
                       struct tensor y)
{
    struct tensor both = act_take(a, x.n_row, 2 * (int64_t)b->n_shared_ff), out = act_take(a, x.n_row, y.n_col);
    struct tensor h = tensor_cols(both, 0, b->n_shared_ff), up = tensor_cols(both, b->n_shared_ff, b->n_shared_ff);
    if (b->plain) {
        op_linear(r, &b->shared_up, x, h);
        op_act(r, b->act, h, h);
    } else if (b->shared_fused) {
        op_linear(r, &b->shared_gate, x, both);
        op_act_mul(r, b->act, h, up, h);
    } else {
        op_linear_act_mul(r, b->act, &b->shared_gate, &b->shared_up, x, up, h);
    }
    op_linear(r, &b->shared_down, h, out);
    if (b->gated_shared) {
        struct tensor gate = act_take(a, x.n_row, 1);
        op_linear(r, &b->shared_weight, x, gate);
        op_act_mul(r, (struct act){.kind = ACT_SIGMOID}, gate, out, out);
    }
    op_add(r, 1, out, y);
}

static void forward(const struct model *m, struct run *r, const void *state, struct activations *a, struct tensor x,
                    struct tensor y)
{
    const struct moe_block *b = state;
    struct tensor           logits = act_take(a, x.n_row, b->route.n_expert), in = x, out = y;
    struct tensor           id = act_take(a, x.n_row, b->route.top_k), weight = act_take(a, x.n_row, b->route.top_k);
    (void)m;
    op_linear(r, &b->router, x, logits);
    op_route(r, &b->route, logits, id, weight);
    if (b->n_latent) {
        in = act_take(a, x.n_row, b->n_latent);
        out = act_take(a, x.n_row, b->n_latent);
        op_linear(r, &b->latent_in, x, in);
    }
    op_moe(r, &b->moe, in, id, weight, out);
    if (b->n_latent)
        op_linear(r, &b->latent_out, out, y);
    if (b->n_shared_ff)
        add_shared(b, r, a, x, y);
}

const struct block ff_moe = {"experts", declare, scratch, forward};
