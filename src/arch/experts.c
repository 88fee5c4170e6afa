/* What families with mixtures of experts share; contracts in family.h. */
#include <string.h>

#include "arch/family.h"

const struct layout_rule arch_experts_layout[] = {EXPERTS_LAYOUT, {0}};

const struct layout_rule arch_unnamed_experts_layout[] = {
    {.param = "*.experts.gate_proj", .from = "*.experts.#.gate_proj"},
    {.param = "*.experts.up_proj", .from = "*.experts.#.up_proj"},
    {.param = "*.experts.down_proj", .from = "*.experts.#.down_proj"},
    {.param = "*.experts.gate_proj", .from = "*.experts.gate_up_proj", .part = 0, .parts = 2},
    {.param = "*.experts.up_proj", .from = "*.experts.gate_up_proj", .part = 1, .parts = 2},
    {0},
};

enum route_score arch_scores(struct config *c, const char *key, const char *fallback)
{
    const char *s = config_str_or(c, key, fallback);
    if (strcmp(s, "softmax") && strcmp(s, "sigmoid"))
        config_fault(c, ERR_UNSUPPORTED, key, "is \"%s\"; supported: sigmoid, softmax", s);
    return strcmp(s, "softmax") ? ROUTE_SIGMOID : ROUTE_SOFTMAX;
}

struct moe_desc *arch_experts(struct config *c, struct arena *a, const struct expert_fields *f)
{
    struct moe_desc *e = arena_calloc(a, 1, sizeof *e);
    if (!e) {
        config_fault(c, ERR_NOMEM, f->n, "out of memory");
        return NULL;
    }
    e->n_expert = arch_number(c, f->n, ROUTE_EXPERTS_MAX, f->n_default);
    e->top_k = arch_number(c, f->k, ROUTE_EXPERTS_MAX, f->k_default);
    e->n_ff = arch_number(c, f->ff, 1 << 24, f->ff_default);
    e->act = arch_act(c, "hidden_act", "silu");
    e->scale = 1;
    if (e->top_k > e->n_expert)
        config_fault(c, ERR_MISFIT, f->k, "is %d, at most %s (%d) is needed", e->top_k, f->n, e->n_expert);
    return e;
}

void arch_expert_groups(struct moe_desc *e, struct config *c, const char *key, int n_group, int topk_group)
{
    e->n_group = (int)config_int_or(c, key, 1, ROUTE_GROUPS_MAX, n_group);
    e->topk_group = (int)config_int_or(c, "topk_group", 1, ROUTE_GROUPS_MAX, topk_group);
    if (e->n_group > 1 && e->n_expert % e->n_group)
        config_fault(c, ERR_MISFIT, key, "is %d, a divisor of the number of experts (%d) is needed", e->n_group,
                     e->n_expert);
    else if (e->topk_group > e->n_group && e->n_group > 1)
        config_fault(c, ERR_MISFIT, "topk_group", "is %d, at most %s (%d) is needed", e->topk_group, key, e->n_group);
    else if (e->n_group > 1 && e->n_expert / e->n_group * e->topk_group < e->top_k)
        config_fault(c, ERR_MISFIT, "topk_group", "is %d: groups of %d experts hold fewer than the %d of a token",
                     e->topk_group, e->n_expert / e->n_group, e->top_k);
}

void arch_shared_experts(struct moe_desc *e, struct config *c, const char *key, int fallback, int width)
{
    int64_t n = width * config_int_or(c, key, 0, 1 << 20, fallback);
    if (n > 1 << 24)
        config_fault(c, ERR_MISFIT, key, "times a width of %d is %lld, at most %d is supported", width, (long long)n,
                     1 << 24);
    else
        e->n_shared_ff = (int)n;
}

void arch_gated_shared_expert(struct model_desc *m, struct moe_desc *e, struct config *c, int fallback)
{
    e->n_shared_ff = (int)config_int_or(c, "shared_expert_intermediate_size", 1, 1 << 24, fallback);
    e->shared_gate = true;
    m->name[NAME_SHARED_GATE] = "mlp.shared_expert.gate_proj";
    m->name[NAME_SHARED_UP] = "mlp.shared_expert.up_proj";
    m->name[NAME_SHARED_DOWN] = "mlp.shared_expert.down_proj";
}

void arch_use_experts(struct model_desc *m, int i, const struct moe_desc *e)
{
    if (!e)
        return;
    m->layer[i].ff = FF_MOE;
    m->layer[i].moe = e;
}

void arch_all_experts(struct model_desc *m, const struct moe_desc *e)
{
    for (int i = 0; i < m->n_layer; i++)
        arch_use_experts(m, i, e);
}

void arch_experts_by_kind(struct model_desc *m, struct config *c, const struct moe_desc *e, int first_default)
{
    bool listed = arch_has_layer_list(m, c, "mlp_layer_types");
    if (!listed)
        arch_experts_from(m, c, e, first_default);
    for (int i = 0; i < m->n_layer && listed; i++) {
        const char *kind = config_array_str(c, "mlp_layer_types", i);
        if (!strcmp(kind, "sparse"))
            arch_use_experts(m, i, e);
        else if (strcmp(kind, "dense"))
            config_fault(c, ERR_UNSUPPORTED, "mlp_layer_types", "has \"%s\" at %d; supported: dense, sparse", kind, i);
    }
}

void arch_experts_by_step(struct model_desc *m, struct config *c, const struct moe_desc *e)
{
    int64_t step = config_int_or(c, "decoder_sparse_step", 1, 1 << 20, 1);
    for (int i = 0; i < m->n_layer; i++)
        if ((i + 1) % step == 0 && !arch_lists_layer(m, c, "mlp_only_layers", i, 0))
            arch_use_experts(m, i, e);
}

void arch_experts_from(struct model_desc *m, struct config *c, const struct moe_desc *e, int first_default)
{
    int64_t first = config_int_or(c, "first_k_dense_replace", 0, 1 << 20, first_default);
    int64_t freq = config_int_or(c, "moe_layer_freq", 1, 1 << 20, 1);
    for (int64_t i = first; i < m->n_layer; i++)
        if (i % freq == 0)
            arch_use_experts(m, (int)i, e);
}
