/* The rotary fields of config.json as a rope of the description; contracts in family.h.
 *
 * Which numbers a kind of scaling reads, and what absent ones mean, is that of transformers' modeling_rope_utils. Where a
 * number is needed and absent, that is a fault; so is what would make frequencies that are no numbers. */
#include <math.h>
#include <string.h>

#include "arch/family.h"
#include "base/num.h"

#define POSITIONS_MAX ((int64_t)1 << 31)

/* What the readers of the kinds share. */
struct rope_reader {
    struct rope_desc  *r;
    struct model_desc *m;
    struct config     *c, *s; /* config.json, and the object that has the scaling's fields */
    struct arena      *a;
    int                head_dim;
    double             partial;
    int64_t            beside; /* rope_rule.original_context */
};

/* The length that the model was trained with before the scaling: beside the object, in it, or the whole context. */
static int64_t original_context(const struct rope_reader *q)
{
    const char *key = "original_max_position_embeddings";
    int64_t     inside = q->beside ? q->beside : config_int_or(q->s, key, 2, POSITIONS_MAX, MAX(2, q->m->n_context));
    return config_int_or(q->c, key, 2, POSITIONS_MAX, inside);
}

static double needed_factor(const struct rope_reader *q)
{
    return config_num(q->s, "factor", 1e-3, 1e6);
}

static void read_default(const struct rope_reader *q)
{
    (void)q;
}

static void read_linear(const struct rope_reader *q)
{
    q->r->scaling = ROPE_LINEAR;
    q->r->factor = needed_factor(q);
}

static void read_llama3(const struct rope_reader *q)
{
    struct rope_desc *r = q->r;
    r->scaling = ROPE_LLAMA3;
    r->factor = needed_factor(q);
    r->low_freq_factor = config_num(q->s, "low_freq_factor", 1e-3, 1e6);
    r->high_freq_factor = config_num(q->s, "high_freq_factor", 1e-3, 1e6);
    r->original_context = original_context(q);
    if (r->high_freq_factor <= r->low_freq_factor)
        config_fault(q->s, ERR_MISFIT, "high_freq_factor", "is %g, more than low_freq_factor (%g) is needed",
                     r->high_freq_factor, r->low_freq_factor);
}

/* What yarn multiplies queries and keys with, for a context that is `factor` times as long. */
static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static void read_yarn(const struct rope_reader *q)
{
    struct rope_desc *r = q->r;
    double            mscale = config_num_or(q->s, "mscale", 0, 1e3, 0);
    double            all_dim = config_num_or(q->s, "mscale_all_dim", 0, 1e3, 0);
    r->scaling = ROPE_YARN;
    r->original_context = original_context(q);
    r->factor = config_num_or(q->s, "factor", 1e-3, 1e6, (double)q->m->n_context / (double)r->original_context);
    r->beta_fast = config_num_or(q->s, "beta_fast", 1e-3, 1e6, 32);
    r->beta_slow = config_num_or(q->s, "beta_slow", 1e-3, 1e6, 1);
    r->fractional = !config_bool_or(q->s, "truncate", true);
    r->mscale = mscale > 0 && all_dim > 0 ? yarn_mscale(r->factor, mscale) / yarn_mscale(r->factor, all_dim)
                                          : yarn_mscale(r->factor, 1);
    r->mscale = config_num_or(q->s, "attention_factor", 1e-3, 1e3, r->mscale);
    if (r->beta_fast < r->beta_slow) /* equal ones (Kimi K2): the ramp is a step at most */
        config_fault(q->s, ERR_MISFIT, "beta_fast", "is %g, beta_slow (%g) or more is needed", r->beta_fast,
                     r->beta_slow);
    if (r->theta <= 1)
        config_fault(q->c, ERR_MISFIT, "rope_theta", "is %g, more than 1 is needed for yarn", r->theta);
}

/* The factors of the pairs. */
static const float *pair_factors(const struct rope_reader *q, const char *key)
{
    int    n = config_array_len(q->s, key), half = q->r->dims / 2;
    float *out = arena_calloc(q->a, (size_t)half + 1, sizeof *out);
    if (!out)
        config_fault(q->s, ERR_NOMEM, key, "has %d numbers: out of memory", half);
    else if (n != half)
        config_fault(q->s, n < 0 ? ERR_FORMAT : ERR_MISFIT, key,
                     "has %d numbers, half of the %d rotated features of a head (%d) are needed", MAX(n, 0), q->r->dims,
                     half);
    else
        for (int i = 0; i < n; i++)
            out[i] = (float)config_array_num(q->s, key, i, 1e-6, 1e9);
    return out;
}

static void read_longrope(const struct rope_reader *q)
{
    struct rope_desc *r = q->r;
    r->scaling = ROPE_LONGROPE;
    r->original_context = original_context(q);
    double factor = config_num_or(q->s, "factor", 1e-3, 1e6, (double)q->m->n_context / (double)r->original_context);
    double scale = factor <= 1 ? 1 : sqrt(1 + log(factor) / log((double)r->original_context));
    scale = config_num_or(q->s, "attention_factor", 1e-3, 1e3, scale);
    r->mscale = config_num_or(q->s, "short_mscale", 1e-3, 1e3, scale);
    r->mscale_long = config_num_or(q->s, "long_mscale", 1e-3, 1e3, scale);
    r->short_factor = pair_factors(q, "short_factor");
    r->long_factor = pair_factors(q, "long_factor");
}

/* With an alpha (Hunyuan) the base is another once for all; else it grows with the prompt. */
static void read_dynamic(const struct rope_reader *q)
{
    struct rope_desc *r = q->r;
    double            alpha = config_num_or(q->s, "alpha", 1e-3, 1e9, 0);
    if (r->dims <= 2)
        config_fault(q->s, ERR_MISFIT, "rope_type", "is \"dynamic\", for which %d rotated features are too few",
                     r->dims);
    else if (alpha > 0)
        r->theta *= pow(alpha, r->dims / (r->dims - 2.0));
    else {
        r->scaling = ROPE_DYNAMIC;
        r->original_context = q->m->n_context;
        r->factor = config_num(q->s, "factor", 1, 1e6);
    }
}

/* All pairs of a head, of which only the first rotate. */
static void read_proportional(const struct rope_reader *q)
{
    q->r->scaling = ROPE_PROPORTIONAL;
    q->r->factor = config_num_or(q->s, "factor", 1e-3, 1e6, 1);
    q->r->dims = q->head_dim;
    q->r->n_pair = (int)(q->partial * q->head_dim / 2);
}

/* Sections of positions of images and text ("mrope") are all one for text. */
static const struct kind {
    const char *name;
    void (*read)(const struct rope_reader *q);
} kinds[] = {
    {"default", read_default}, {"mrope", read_default},
    {"linear", read_linear},   {"llama3", read_llama3},
    {"yarn", read_yarn},       {"deepseek_yarn", read_yarn},
    {"dynamic", read_dynamic}, {"longrope", read_longrope},
    {"su", read_longrope},     {"proportional", read_proportional},
};

static void read_scaling(const struct rope_reader *q, const char *type)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (!strcmp(type, kinds[i].name)) {
            kinds[i].read(q);
            return;
        }
    config_fault(q->s, ERR_UNSUPPORTED, "rope_type",
                 "is \"%s\"; supported: default, linear, dynamic, llama3, yarn, longrope, proportional, mrope", type);
}

/* theta and partial of the family's own fields, which the usual ones may overrule. */
static struct config_rope read_fields(struct config *c, const struct rope_rule *rule)
{
    double theta = rule->theta > 0 ? rule->theta : 10000, partial = rule->partial > 0 ? rule->partial : 1;
    if (rule->theta_key)
        theta = config_num_or(c, rule->theta_key, CONFIG_THETA_MIN, CONFIG_THETA_MAX, theta);
    if (rule->partial_key)
        partial = config_num_or(c, rule->partial_key, 0, 1, partial);
    struct config_rope f = config_rope(c, rule->layer_type, theta, partial);
    if (rule->local && !f.per_layer_type) {
        f.theta = rule->theta_key ? theta : f.theta;
        f.fields = NULL;
    }
    return f;
}

void arch_rope_of(struct rope_desc *r, struct model_desc *m, struct config *c, struct arena *a, int head_dim,
                  const struct rope_rule *rule)
{
    struct config_rope f = read_fields(c, rule);
    struct rope_reader q = {r, m, c, f.fields, a, head_dim, f.partial, rule->original_context};
    *r = (struct rope_desc){.dims = (int)(head_dim * f.partial),
                            .theta = f.theta,
                            .factor = 1,
                            .mscale = 1,
                            .interleaved = config_bool_or(c, "rope_traditional", rule->interleaved)};
    if (f.fields)
        read_scaling(&q, !strcmp(f.type, "yarn") && config_has(f.fields, "long_factor") ? "longrope" : f.type);
    if (f.partial < 1 && rule->partial <= 0 && r->scaling != ROPE_PROPORTIONAL)
        config_fault(c, ERR_UNSUPPORTED, "partial_rotary_factor", "is %g; this family rotates the whole head",
                     f.partial);
    if (r->dims % 2)
        config_fault(c, ERR_MISFIT, rule->dim_key ? rule->dim_key : "head_dim",
                     "is %d, of which %d features would rotate; an even number is needed (rotary pairs)", head_dim,
                     r->dims);
}

bool arch_lacks_rope(struct config *c)
{
    return !config_has(c, "rope_parameters") && !config_has(c, "rope_scaling");
}

void arch_default_yarn(struct rope_desc *r, double factor, int64_t original, bool scaled)
{
    r->scaling = ROPE_YARN;
    r->factor = factor;
    r->original_context = original;
    r->beta_fast = 32;
    r->beta_slow = 1;
    r->mscale = scaled ? yarn_mscale(factor, 1) : 1;
}

int arch_add_rope(struct model_desc *m, struct config *c, struct arena *a, int head_dim, const struct rope_rule *rule)
{
    if (m->n_rope == DESC_ROPES_MAX)
        config_fault(c, ERR_UNSUPPORTED, "rope_parameters", "has more than %d kinds of rope", DESC_ROPES_MAX);
    else
        arch_rope_of(&m->rope[m->n_rope++], m, c, a, head_dim, rule);
    return m->n_rope - 1;
}
