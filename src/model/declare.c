/* Declaring the parameters of blocks; contracts in declare.h. */
#include "model/declare.h"

#include <string.h>

/* The first '@' and the layer's number in a name, where the files count several layers as one. */
static const char *part_name(const struct declare *k, const char *name)
{
    const char *number = strstr(name, "%d"), *mark = strchr(name, '@');
    int         n = k->d->n_part;
    if (!number || !mark)
        return number ? arena_printf(k->p->arena, "%.*s%d%s", (int)(number - name), name, k->layer / n, number + 2)
                      : name;
    return arena_printf(k->p->arena, "%.*s%d%.*s%d%s", (int)(number - name), name, k->layer / n,
                        (int)(mark - number - 2), number + 2, k->layer % n, mark + 1);
}

const char *declare_name(const struct declare *k, enum name name, const char *suffix)
{
    const struct model_desc *d = k->d;
    bool                     in_layer = k->layer >= 0 && k->layer < d->n_layer;
    const char              *s =
        arena_printf(k->p->arena, "%s%s%s%s", d->prefix, in_layer ? d->name[NAME_LAYER] : "", d->name[name], suffix);
    if (s && in_layer && d->n_part > 1)
        s = part_name(k, s);
    if (!s)
        k->p->failed = true;
    return s ? s : "";
}

static void add_bias(const struct declare *k, enum name name, enum param_shard shard, int64_t n, int64_t n_in,
                     const char *why, struct weight *w)
{
    if (why)
        params_add(k->p, ROLE_BIAS, shard == SHARD_COLS ? SHARD_NONE : shard, k->layer, declare_name(k, name, ".bias"),
                   n, n_in, why, w);
}

void declare_linear(const struct declare *k, enum name name, enum param_shard shard, int64_t n_out, int64_t n_in,
                    const char *why, const char *bias_why, struct weight *w)
{
    params_add(k->p, ROLE_LINEAR, shard, k->layer, declare_name(k, name, ""), n_out, n_in, why, w);
    add_bias(k, name, shard, n_out, 0, bias_why, w);
}

void declare_stack(const struct declare *k, enum name name, enum param_shard shard, int n, int64_t n_out, int64_t n_in,
                   const char *why, const char *bias_why, struct weight *w)
{
    params_add_stack(k->p, shard, k->layer, declare_name(k, name, ""), n, n_out, n_in, why, w);
    add_bias(k, name, shard, n, n_out, bias_why, w);
}

void declare_array(const struct declare *k, enum name name, const char *suffix, int n_dim, const int64_t *shape,
                   const char *why, struct weight *w)
{
    params_add_vector(k->p, k->layer, declare_name(k, name, ""), suffix, n_dim, shape, why, w);
}

void declare_vector(const struct declare *k, enum name name, int64_t n, const char *why, struct weight *w)
{
    declare_array(k, name, "", 1, &n, why, w);
}

void declare_conv(const struct declare *k, enum name name, int64_t n, int64_t width, const char *why,
                  const char *bias_why, struct weight *w)
{
    declare_array(k, name, ".weight", 3, (const int64_t[]){n, width, 1}, why, w);
    add_bias(k, name, SHARD_NONE, n, 0, bias_why, w);
}

void declare_norm(const struct declare *k, enum name name, const struct norm_desc *d, int64_t n, const char *why,
                  struct norm *out)
{
    *out = (struct norm){.kind = d->kind, .n = (int)n, .eps = d->eps, .w = {.index = -1, .plus = d->plus}};
    if (d->kind == NORM_NONE || d->no_weight)
        return;
    params_add(k->p, ROLE_NORM, SHARD_NONE, k->layer, declare_name(k, name, ""), n, 0, why, &out->w);
    add_bias(k, name, SHARD_NONE, n, 0, d->bias ? why : NULL, &out->w);
}
