/* What each parameter becomes: mlx-lm's rules, its recipes, and the user's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "base/num.h"
#include "convert/rewrite.h"

/* --- recipes ---------------------------------------------------------------------------------------------------- */

static const struct recipe {
    const char *name;
    int         low, high;
} recipes[] = {{"mixed_2_6", 2, 6}, {"mixed_3_4", 3, 4}, {"mixed_3_6", 3, 6}, {"mixed_4_6", 4, 6}};

static const struct recipe *find_recipe(const char *name)
{
    for (size_t i = 0; name && i < ARRAY_LEN(recipes); i++)
        if (!strcmp(recipes[i].name, name))
            return &recipes[i];
    return NULL;
}

/* As mlx-lm: more bits for the head, and for values and down projections in the first and the last eighth of the layers
 * and every third between. */
static int recipe_bits(const struct recipe *r, const struct param *p, const struct model_desc *d)
{
    int  n_part = MAX(d->n_part, 1), n_layer = d->n_layer / n_part, eighth = n_layer / 8; /* as the names count them */
    int  i = p->layer < 0 || p->layer >= d->n_layer ? 0 : p->layer / n_part;
    bool more = i < eighth || i >= 7 * n_layer / 8 || (i - eighth) % 3 == 2;
    bool worth = strstr(p->name, "v_proj") || strstr(p->name, "v_a_proj") || strstr(p->name, "v_b_proj") ||
                 strstr(p->name, "down_proj");
    return (worth && more) || strstr(p->name, "lm_head") ? r->high : r->low;
}

/* --- rules ------------------------------------------------------------------------------------------------------ */

static bool rule_matches(const struct convert_rule *rule, const char *name)
{
    if (glob_match(rule->pattern, name))
        return true;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
        if (glob_match(rule->pattern, dot + 1))
            return true;
    return false;
}

static const struct quantize_rule *own_rule(const struct model_desc *d, const char *name)
{
    const struct quantize_rule *q = d->quantize;
    while (q && q->param && !glob_match(q->param, name))
        q++;
    return q && q->param ? q : NULL;
}

/* Whether MLX has it as a bare array, whatever is asked for. */
static bool is_never_quantized(const struct rewrite *r, const struct param *p)
{
    const struct quantize_rule *own = own_rule(&r->model->desc, p->name);
    return own && !own->bits;
}

static int check_rule(const struct rewrite *r, const struct convert_rule *rule, struct error *e)
{
    const char *bare = NULL, *example = "";
    for (size_t i = 0; i < r->n; i++) {
        const struct param *p = r->v[i].p;
        if (!param_is_matrix(p))
            continue;
        example = p->name;
        if (!rule_matches(rule, p->name))
            continue;
        if (rule->form.mode == QUANT_NONE || !is_never_quantized(r, p))
            return 0;
        bare = bare ? bare : p->name;
    }
    if (bare)
        return error_set(e, ERR_INVALID, bare, "%s is never quantized: MLX keeps it as a bare array", bare);
    return error_set(e, ERR_INVALID, "q",
                     "no matrix of the model is called '%.200s'; names are like %s, '*' stands for any characters",
                     rule->pattern, example);
}

/* A recipe is about down projections before all: without them it says nothing, to mlx-lm neither. */
static int check_recipe(const struct rewrite *r, struct error *e)
{
    for (size_t i = 0; i < r->n; i++)
        if (strstr(r->v[i].p->name, "down_proj"))
            return 0;
    return error_set(e, ERR_INVALID, "recipe",
                     "the recipe %s is for models that have matrices called down_proj; this %s model has none: say "
                     "with --q what is stored how",
                     r->o->recipe, r->model->desc.model_type);
}

static int check_asked(const struct rewrite *r, struct error *e)
{
    int err = r->o->recipe ? check_recipe(r, e) : 0;
    for (size_t i = 0; i < r->o->n_rules && !err; i++)
        err = check_rule(r, &r->o->rules[i], e);
    return err;
}

/* --- the plan --------------------------------------------------------------------------------------------------- */

static void stay(struct rewrite_param *v)
{
    v->form = v->p->role == ROLE_BIAS ? (struct quant){0} : v->p->quant;
    v->as_is = true;
}

/* Whether it is quantized in a mode of MLX, in the files if not in use; then it stays so. */
static bool stays_quantized(const struct param *p)
{
    const struct quant *q = &p->source.quant;
    return q->mode != QUANT_NONE && q->mode != QUANT_FP8 &&
           (p->quant.mode != QUANT_NONE || p->weight->n_in % q->group == 0);
}

/* What was decoded to be put into another layout is encoded again, in its own form. */
static void stay_quantized(struct rewrite_param *v)
{
    if (v->p->quant.mode != QUANT_NONE) {
        stay(v);
        return;
    }
    v->form = v->p->source.quant;
    v->dtype = v->form.mode == QUANT_AFFINE ? v->form.scale_dtype : DTYPE_BF16;
}

/* The form that was asked for; v->own: of this matrix. *by_name: by a rule of the user's. */
static struct quant wanted_form(const struct rewrite *r, struct rewrite_param *v, bool *by_name)
{
    const struct recipe        *recipe = find_recipe(r->o->recipe);
    const struct quantize_rule *own = own_rule(&r->model->desc, v->p->name);
    const struct convert_rule  *rule = NULL;
    struct quant                form = r->o->form;
    for (size_t i = 0; i < r->o->n_rules; i++)
        if (rule_matches(&r->o->rules[i], v->p->name))
            rule = &r->o->rules[i];
    *by_name = rule != NULL;
    if (is_never_quantized(r, v->p))
        return (struct quant){0};
    v->own = rule || recipe || own;
    if (rule)
        return rule->form;
    if (recipe)
        form.bits = recipe_bits(recipe, v->p, &r->model->desc);
    else if (own)
        form = (struct quant){QUANT_AFFINE, own->bits, 64, DTYPE_NONE};
    return form;
}

/* The groups that do not divide the inputs, 0 when all do. mlx-lm asks this of the groups of all matrices first. */
static int unfit_group(const struct rewrite *r, const struct quant *form, int64_t n_in, bool by_name)
{
    if (n_in % form->group)
        return form->group;
    return !by_name && n_in % r->o->form.group ? r->o->form.group : 0;
}

/* One matrix while quantizing. */
static void plan_matrix(const struct rewrite *r, struct rewrite_param *v, struct rewrite_counts *n, struct faults *f)
{
    long long n_in = v->p->weight->n_in;
    bool      by_name;
    if (stays_quantized(v->p)) {
        stay_quantized(v);
        v->own = true;
        n->kept++;
        return;
    }
    struct quant form = wanted_form(r, v, &by_name);
    if (form.mode == QUANT_NONE)
        return;
    int group = unfit_group(r, &form, n_in, by_name);
    if (group && by_name) {
        faults_add(f, ERR_INVALID, v->p->name, "%s has %lld inputs, which groups of %d do not divide", v->p->name, n_in,
                   group);
        return;
    }
    if (group) {
        if (!n->indivisible++)
            snprintf(n->first, sizeof n->first, "%s (%lld inputs, groups of %d)", v->p->name, n_in, group);
        v->own = false;
        return;
    }
    v->form = form;
    v->form.scale_dtype = form.mode == QUANT_AFFINE ? v->dtype : DTYPE_U8;
    n->changed++;
}

/* The type of dense values: asked for, else config.json's, else the stored one. */
static enum dtype dense_type(const struct rewrite *r, const struct param *p)
{
    const struct quant *q = &p->source.quant;
    enum dtype          stored = q->mode == QUANT_NONE ? p->source.dtype : q->scale_dtype;
    enum dtype          config = config_dtype(r->model->config);
    bool                keeps = false;
    for (const char *const *k = r->model->desc.keep_dtype; k && *k; k++)
        keeps |= glob_match(*k, p->name);
    if (r->o->dtype != DTYPE_NONE && !keeps)
        return r->o->dtype;
    if (dtype_is_float16_32(config) && !keeps)
        return config;
    return q->mode != QUANT_FP8 && dtype_is_float16_32(stored) ? stored : DTYPE_BF16;
}

static void plan_param(const struct rewrite *r, struct rewrite_param *v, struct rewrite_counts *n, struct faults *f)
{
    bool bias = v->p->role == ROLE_BIAS;
    v->dtype = dense_type(r, v->p);
    if (r->o->quantize && param_is_matrix(v->p))
        plan_matrix(r, v, n, f);
    else if (!r->o->quantize && !r->o->dequantize && !bias && stays_quantized(v->p))
        stay_quantized(v);
    if (v->form.mode == QUANT_NONE && (bias || v->p->quant.mode == QUANT_NONE) && v->dtype == v->p->dtype)
        stay(v);
    if (r->o->dequantize && !bias && v->p->source.quant.mode != QUANT_NONE)
        n->changed++;
}

/* One parameter while adapters are fused: dense values keep their type, decoded ones have their scales' (as mlx). */
static void plan_change(const struct rewrite *r, struct rewrite_param *v, struct rewrite_counts *n, struct faults *f)
{
    const struct param *p = v->p;
    const struct quant *q = &p->source.quant;
    bool                quantized = param_is_matrix(p) && q->mode != QUANT_NONE;
    bool                decode = quantized && (r->o->dequantize || (q->mode == QUANT_FP8 && r->other_layout));
    enum dtype          scales = q->mode == QUANT_AFFINE ? q->scale_dtype : DTYPE_BF16;
    v->changed = r->change->touches(r->change->ctx, p);
    v->dtype = quantized ? scales : p->source.dtype;
    v->form = quantized && !decode && (p->quant.mode || stays_quantized(p)) ? *q : (struct quant){0};
    v->as_is =
        !v->changed && !decode && p->quant.mode == v->form.mode && (v->form.mode != QUANT_NONE || p->dtype == v->dtype);
    n->changed += v->changed || !v->as_is;
    n->decoded += quantized && r->o->dequantize;
    if (v->changed && v->form.mode == QUANT_FP8)
        faults_add(f, ERR_UNSUPPORTED, p->name,
                   "%s is stored as fp8, which is not a mode of MLX: fuse with --dequantize", p->name);
}

static int check_counts(const struct rewrite *r, struct error *e)
{
    const struct rewrite_counts *n = &r->counts;
    if (r->change || !(r->o->quantize || r->o->dequantize) || n->changed)
        return 0;
    if (r->o->dequantize)
        return error_set(e, ERR_INVALID, NULL, "there is nothing to dequantize, the model's matrices are dense");
    if (n->indivisible)
        return error_set(e, ERR_INVALID, NULL, "there is nothing to quantize, groups do not divide %s%s", n->first,
                         n->indivisible > 1 ? " and others" : "");
    return error_set(e, ERR_INVALID, NULL, "there is nothing to quantize, the model's matrices are %s",
                     n->kept ? "quantized already (dequantize it first)" : "all to stay dense");
}

/* Whether some of the parameters have to be written in another layout than the files'. */
static bool has_other_layout(const struct params *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (!layout_is_mlx(&p->v[i]))
            return true;
    return false;
}

int rewrite_plan(struct rewrite *r, struct error *e)
{
    const struct params *p = &r->model->params;
    struct faults        f = {0};
    int                  err;
    r->v = arena_calloc(&r->arena, p->n, sizeof *r->v);
    if (!r->v)
        return error_nomem(e, "the list of parameters");
    for (size_t i = 0; i < p->n; i++) {
        const struct param *row = &p->v[i];
        bool                matrix = param_is_matrix(row);
        if (row->bytes) /* not one that files may be without */
            r->v[r->n++] = (struct rewrite_param){.p = row,
                                                  .n_out = matrix ? param_stack(row) * row->weight->n_out : 1,
                                                  .n_in = matrix ? row->weight->n_in : param_elements(row)};
    }
    if ((err = check_asked(r, e)) != 0)
        return err;
    r->other_layout = has_other_layout(p);
    for (size_t i = 0; i < r->n; i++)
        (r->change ? plan_change : plan_param)(r, &r->v[i], &r->counts, &f);
    r->in_place = r->change && !r->counts.decoded && !r->other_layout;
    err = faults_report(&f, e);
    faults_deinit(&f);
    return err ? err : check_counts(r, e);
}
