/* State space models without attention: Mamba, Falcon Mamba, Mamba 2; and what they share with their hybrids. */
#include <math.h>
#include <string.h>

#include "arch/family.h"

#define WIDTH_MAX (1 << 20)
#define CONTEXT (1 << 20) /* there is no longest sequence */

/* The names of a mixer that is called something else than "mamba". */
static void mixer_names(struct model_desc *m)
{
    m->name[NAME_SSM_IN] = "mixer.in_proj";
    m->name[NAME_SSM_CONV] = "mixer.conv1d";
    m->name[NAME_SSM_X] = "mixer.x_proj";
    m->name[NAME_SSM_DT] = "mixer.dt_proj";
    m->name[NAME_SSM_A_LOG] = "mixer.A_log";
    m->name[NAME_SSM_D] = "mixer.D";
    m->name[NAME_SSM_DT_BIAS] = "mixer.dt_bias";
    m->name[NAME_SSM_NORM] = "mixer.norm";
    m->name[NAME_SSM_OUT] = "mixer.out_proj";
}

void arch_backbone(struct model_desc *m, struct config *c, struct arena *a, int n_layer)
{
    arch_frame(m, c, &(struct dense_rule){.n_context = CONTEXT, .eps_key = "layer_norm_epsilon", .eps = 1e-5});
    m->n_layer = n_layer;
    m->name[NAME_LAYER] = "backbone.layers.%d.";
    m->name[NAME_EMBED] = "backbone.embeddings";
    m->name[NAME_NORM] = "backbone.norm_f";
    m->name[NAME_MIX_NORM] = m->name[NAME_FF_NORM] = "norm";
    mixer_names(m);
    arch_room_for_layers(m, c, a, "num_hidden_layers");
}

void arch_need_silu(struct config *c, const char *key)
{
    if (arch_act(c, key, "silu") != ACT_SILU)
        config_fault(c, ERR_UNSUPPORTED, key, "is \"%s\"; supported: silu", config_str(c, key));
}

static int kernel(struct config *c, const char *key)
{
    return (int)config_int_or(c, key, 2, CONV_WIDTH_MAX, 4);
}

/* expand * hidden_size. */
static int64_t expanded(const struct model_desc *m, struct config *c, const char *key)
{
    int64_t n = config_int_or(c, key, 1, 64, 2) * m->n_embd;
    return n <= WIDTH_MAX ? n : WIDTH_MAX;
}

/* A number, or "auto": the sixteenth of hidden_size, rounded up. */
static int time_rank(const struct model_desc *m, struct config *c, const char *key)
{
    int automatic = (m->n_embd + 15) / 16;
    if (config_kind(c, key) != CONFIG_STR)
        return (int)config_int_or(c, key, 1, WIDTH_MAX, automatic);
    if (strcmp(config_str(c, key), "auto"))
        config_fault(c, ERR_FORMAT, key, "is \"%s\", a number or \"auto\" is needed", config_str(c, key));
    return automatic;
}

struct mamba1_desc *arch_mamba1(const struct model_desc *m, struct config *c, struct arena *a,
                                const struct mamba1_keys *k)
{
    struct mamba1_desc *d = arena_calloc(a, 1, sizeof *d);
    if (!d) {
        config_fault(c, ERR_NOMEM, k->state, "out of memory");
        return NULL;
    }
    arch_need_silu(c, "hidden_act");
    d->n =
        (int)(k->inner && config_has(c, k->inner) ? config_int(c, k->inner, 1, WIDTH_MAX) : expanded(m, c, k->expand));
    d->n_state = (int)config_int_or(c, k->state, 1, MAMBA1_STATE_MAX, 16);
    d->dt_rank = time_rank(m, c, k->rank);
    d->width = kernel(c, k->width);
    d->conv_bias = config_bool_or(c, k->conv_bias, true);
    d->bias = config_bool_or(c, k->bias, false);
    return d;
}

void arch_use_mamba1(struct layer_desc *l, const struct mamba1_desc *d)
{
    if (!d)
        return;
    l->mix = MIX_MAMBA1;
    l->mamba1 = d;
}

/* The least and the greatest time step. */
static void time_limit(struct config *c, const char *key, struct mamba2_desc *d)
{
    int n = config_array_len(c, key);
    d->dt_min = 0;
    d->dt_max = INFINITY;
    if (n < 0)
        return;
    if (n != 2) {
        config_fault(c, ERR_FORMAT, key, "has %d entries, the least and the greatest time step are needed", n);
        return;
    }
    d->dt_min = (float)config_array_num(c, key, 0, 0, 1e30);
    d->dt_max = (float)config_array_num(c, key, 1, 0, INFINITY);
    if (d->dt_max < d->dt_min)
        config_fault(c, ERR_MISFIT, key, "is %g to %g: the second must not be less than the first", (double)d->dt_min,
                     (double)d->dt_max);
}

/* The heads' sizes; n: their sum where the configuration says it, else 0. */
static void heads(struct config *c, const struct mamba2_keys *k, int64_t n, struct mamba2_desc *d)
{
    bool automatic = config_kind(c, k->head_dim) == CONFIG_STR && !strcmp(config_str(c, k->head_dim), "auto");
    d->n_head = (int)config_int_or(c, k->heads, 1, 1 << 16, 128);
    d->n_group = (int)config_int_or(c, k->groups, 1, 1 << 16, k->n_group);
    if (automatic || !config_has(c, k->head_dim))
        d->head_dim = n >= d->n_head ? (int)(n / d->n_head) : k->head_dim_default;
    else
        d->head_dim = (int)config_int(c, k->head_dim, 1, 4096);
    if (n && (int64_t)d->n_head * d->head_dim != n)
        config_fault(c, ERR_MISFIT, k->heads, "is %d of %d values each, a mixer of width %lld is needed", d->n_head,
                     d->head_dim, (long long)n);
    if (d->n_head % d->n_group)
        config_fault(c, ERR_MISFIT, k->groups, "is %d, a divisor of %s (%d) is needed", d->n_group, k->heads,
                     d->n_head);
}

struct mamba2_desc *arch_mamba2_of(const struct model_desc *m, struct config *c, struct arena *a,
                                   const struct mamba2_keys *k)
{
    struct mamba2_desc *d = arena_calloc(a, 1, sizeof *d);
    int64_t             n = k->inner && config_has(c, k->inner) ? config_int(c, k->inner, 1, WIDTH_MAX)
                            : k->expand                         ? expanded(m, c, k->expand)
                                                                : 0;
    if (!d) {
        config_fault(c, ERR_NOMEM, k->heads, "out of memory");
        return NULL;
    }
    arch_need_silu(c, k->act);
    heads(c, k, n, d);
    d->n_state = (int)config_int_or(c, k->state, 1, 1 << 12, k->n_state);
    d->width = kernel(c, k->width);
    d->conv_bias = config_bool_or(c, k->conv_bias, true);
    d->bias = config_bool_or(c, k->bias, false);
    d->norm = m->norm;
    time_limit(c, k->limit, d);
    return d;
}

void arch_use_mamba2(struct layer_desc *l, const struct mamba2_desc *d)
{
    if (!d)
        return;
    l->mix = MIX_MAMBA2;
    l->mamba2 = d;
}

static int layers(struct config *c)
{
    return (int)config_int(c, "num_hidden_layers", 1, DESC_LAYERS_MAX);
}

static const struct mamba1_keys mamba1_keys = {"intermediate_size", "expand",        "state_size", "time_step_rank",
                                               "conv_kernel",       "use_conv_bias", "use_bias"};

static void mamba(struct model_desc *m, struct config *c, struct arena *a, const struct norm_desc *norm)
{
    arch_backbone(m, c, a, layers(c));
    struct mamba1_desc *d = arch_mamba1(m, c, a, &mamba1_keys);
    if (d && norm)
        d->norm = *norm;
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].mix_norm = m->norm;
        arch_use_mamba1(&m->layer[i], d);
    }
}

/* Mamba (Gu and Dao 2023): layers of nothing but the mixer; use_bcdt_rms makes it a Falcon Mamba. */
void arch_mamba(struct model_desc *m, struct config *c, struct arena *a)
{
    if (config_bool_or(c, "use_bcdt_rms", false))
        arch_falcon_mamba(m, c, a);
    else
        mamba(m, c, a, NULL);
}

/* Falcon Mamba (Zuo et al. 2024): Mamba whose time step, B and C are normalised. */
void arch_falcon_mamba(struct model_desc *m, struct config *c, struct arena *a)
{
    float eps = (float)config_num_or(c, "mixer_rms_eps", 0, 1, 1e-6);
    mamba(m, c, a, &(struct norm_desc){.kind = NORM_RMS, .no_weight = true, .eps = eps});
}

/* Mamba 2 (Dao and Gu 2024). */
void arch_mamba2(struct model_desc *m, struct config *c, struct arena *a)
{
    static const struct mamba2_keys keys = {.expand = "expand",
                                            .heads = "num_heads",
                                            .head_dim = "head_dim",
                                            .head_dim_default = 64,
                                            .groups = "n_groups",
                                            .n_group = 8,
                                            .state = "state_size",
                                            .n_state = 128,
                                            .width = "conv_kernel",
                                            .conv_bias = "use_conv_bias",
                                            .bias = "use_bias",
                                            .limit = "time_step_limit",
                                            .act = "hidden_act"};
    arch_backbone(m, c, a, layers(c));
    const struct mamba2_desc *d = arch_mamba2_of(m, c, a, &keys);
    for (int i = 0; i < m->n_layer; i++) {
        m->layer[i].mix_norm = m->norm;
        arch_use_mamba2(&m->layer[i], d);
    }
}
