/* Declaring parameters; contracts in params.h. The binder is bind.c. */
#include "model/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS_MAX (1u << 22)

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

struct param *params_add(struct params *p, enum param_role role, enum param_shard shard, int layer, const char *name,
                         int64_t out, int64_t in, const char *why, struct weight *weight)
{
    const char *mark = strstr(name, "%d");
    char       *full = mark ? arena_printf(p->arena, "%.*s%d%s", (int)(mark - name), name, layer, mark + 2)
                            : arena_strdup(p->arena, name, strlen(name));
    if (!full || (p->n == p->cap && !grow(p))) {
        p->failed = true;
        return NULL;
    }
    struct param *row = &p->v[p->n++];
    *row = (struct param){.name = full,
                          .layer = layer,
                          .role = role,
                          .shard = shard,
                          .n_dim = in ? 2 : 1,
                          .shape = {out, in},
                          .why = why,
                          .weight = weight};
    if (weight && role != ROLE_BIAS) {
        weight->name = full;
        weight->index = p->n_weight++;
        weight->n_out = in ? out : 1;
        weight->n_in = in ? in : out;
    }
    return row;
}

const struct param *params_find(const struct params *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (!strcmp(p->v[i].name, name))
            return &p->v[i];
    return NULL;
}
