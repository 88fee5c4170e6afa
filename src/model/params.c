/* Declaring parameters and finding them by name; contracts in params.h. The binder is bind.c. */
#include "model/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/target.h"

#define PARAMS_MAX (1u << 22)

char *params_layer_name(struct params *p, const char *name, int layer)
{
    const char *mark = strstr(name, "%d");
    return mark ? arena_printf(p->arena, "%.*s%d%s", (int)(mark - name), name, layer, mark + 2)
                : arena_strdup(p->arena, name, strlen(name));
}

static bool grow(struct params *p)
{
    size_t        cap = p->cap ? p->cap * 2 : 64;
    struct param *v = p->n >= PARAMS_MAX ? NULL : arena_calloc(p->arena, cap, sizeof *v);
    if (!v)
        return false;
    if (p->n)
        memcpy(v, p->v, p->n * sizeof *v);
    p->v = v;
    p->cap = cap;
    return true;
}

/* A row without its shape; NULL when out of memory. */
static struct param *add(struct params *p, enum param_role role, enum param_shard shard, int layer, const char *name,
                         const char *why, struct weight *weight)
{
    static const unsigned uses[] = {
        [ROLE_EMBED] = WEIGHT_EMBED, [ROLE_HEAD] = WEIGHT_LINEAR,   [ROLE_LINEAR] = WEIGHT_LINEAR,
        [ROLE_NORM] = WEIGHT_VECTOR, [ROLE_VECTOR] = WEIGHT_VECTOR, [ROLE_BIAS] = 0};
    char *full = params_layer_name(p, name, layer);
    if (!full || (p->n == p->cap && !grow(p))) {
        p->failed = true;
        return NULL;
    }
    struct param *row = &p->v[p->n++];
    *row = (struct param){.name = full,
                          .suffix = role == ROLE_BIAS ? "" : ".weight",
                          .layer = layer,
                          .role = role,
                          .shard = shard,
                          .uses = uses[role],
                          .why = why,
                          .weight = weight};
    return row;
}

static void name_weight(struct params *p, struct weight *w, const char *name, int64_t n_out, int64_t n_in)
{
    w->name = name;
    w->index = p->n_weight++;
    w->n_out = n_out;
    w->n_in = n_in;
}

void params_add(struct params *p, enum param_role role, enum param_shard shard, int layer, const char *name,
                int64_t out, int64_t in, const char *why, struct weight *weight)
{
    struct param *row = add(p, role, shard, layer, name, why, weight);
    if (!row)
        return;
    row->n_dim = in ? 2 : 1;
    row->shape[0] = out;
    row->shape[1] = in;
    if (role != ROLE_BIAS)
        name_weight(p, weight, row->name, in ? out : 1, in ? in : out);
}

void params_add_vector(struct params *p, int layer, const char *name, const char *suffix, int n_dim,
                       const int64_t *shape, const char *why, struct weight *weight)
{
    struct param *row = add(p, ROLE_VECTOR, SHARD_NONE, layer, name, why, weight);
    if (!row)
        return;
    row->suffix = suffix;
    row->n_dim = n_dim;
    for (int i = 0; i < n_dim; i++) /* a single number has no shape: NULL */
        row->shape[i] = shape[i];
    name_weight(p, weight, row->name, 1, param_elements(row));
}

bool param_vector_fits(const struct param *p, const struct tensor_view *t)
{
    int i = 0, k = 0;
    for (;; i++, k++) {
        while (i < p->n_dim && p->shape[i] == 1)
            i++;
        while (k < t->n_dim && t->shape[k] == 1)
            k++;
        if (i == p->n_dim || k == t->n_dim)
            return i == p->n_dim && k == t->n_dim;
        if (p->shape[i] != t->shape[k])
            return false;
    }
}

void params_add_stack(struct params *p, enum param_shard shard, int layer, const char *name, int n, int64_t out,
                      int64_t in, const char *why, struct weight *weights)
{
    struct param *row = add(p, ROLE_LINEAR, shard, layer, name, why, weights);
    if (!row)
        return;
    row->n_dim = 3;
    row->shape[0] = n;
    row->shape[1] = out;
    row->shape[2] = in;
    for (int i = 0; i < n; i++)
        name_weight(p, &weights[i], row->name, out, in);
}

/* The last row of a weight; NULL when out of memory. */
static struct param *last_row(struct params *p, const struct weight *weight)
{
    for (size_t i = p->n; i-- > 0 && !p->failed;)
        if (p->v[i].weight == weight && p->v[i].role != ROLE_BIAS)
            return &p->v[i];
    return NULL;
}

void params_active(struct params *p, const struct weight *weights, int n)
{
    struct param *row = last_row(p, weights);
    if (row)
        row->active = n;
}

void params_optional(struct params *p, const struct weight *weight)
{
    struct param *row = last_row(p, weight);
    if (row)
        row->optional = true;
}

/* --- the index --------------------------------------------------------------------------------------------------- */

static int compare_rows(const void *a, const void *b)
{
    return strcmp((*(const struct param *const *)a)->name, (*(const struct param *const *)b)->name);
}

int params_finish(struct params *p, struct error *e)
{
    if (!p->failed)
        p->by_name = arena_calloc(p->arena, p->n + 1, sizeof *p->by_name);
    if (p->failed || !p->by_name)
        return error_nomem(e, "the parameter table");
    for (size_t i = 0; i < p->n; i++)
        p->by_name[i] = &p->v[i];
    qsort(p->by_name, p->n, sizeof *p->by_name, compare_rows);
    return params_finish_targets(p, e);
}

const struct param *params_find(const struct params *p, const char *name)
{
    struct param         key = {.name = name};
    const struct param  *k = &key;
    const struct param **hit = p->n ? bsearch(&k, p->by_name, p->n, sizeof *p->by_name, compare_rows) : NULL;
    return hit ? *hit : NULL;
}
