/* What the original layouts' names and values mean to people and to adapters; contracts in layout.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "model/layout_int.h"
#include "model/target.h"

/* A vector may be stored with other dimensions of 1. */
static bool has_mlx_shape(const struct param *p, const struct tensor_view *t)
{
    return p->role != ROLE_VECTOR ||
           (t->n_dim == p->n_dim && memcmp(t->shape, p->shape, (size_t)p->n_dim * sizeof *p->shape) == 0);
}

bool layout_text(const struct param *p, char out[LAYOUT_TEXT])
{
    static const struct layout_rule as_is = {0};
    const struct param_source      *s = &p->source;
    const struct layout_rule       *r = s->rule ? s->rule : &as_is;
    char                            part[48] = "", shape[TENSOR_SHAPE_TEXT + 4] = "", text[TENSOR_SHAPE_TEXT];
    if (!s->name || layout_is_mlx(p))
        return false;
    const struct tensor_view *t = s->plane[PLANE_WEIGHT] ? s->plane[PLANE_WEIGHT][0] : NULL;
    const char               *name = s->apart || !t ? s->name : t->name;
    if (r->parts)
        snprintf(part, sizeof part, ", part %d of %d%s", r->part + 1, r->parts, r->interleaved ? " in turns" : "");
    if (t && !has_mlx_shape(p, t))
        snprintf(shape, sizeof shape, ", as %s", tensor_view_shape_text(t, text));
    snprintf(out, LAYOUT_TEXT, "%s%s%s%s%s%s%s", name, shape, r->below || r->above ? ", head by head" : "",
             s->transposed ? ", transposed" : "", part, r->scale ? ", before scaling" : "",
             r->plus != 0 ? ", less what is added" : "");
    return true;
}

bool layout_is_mlx(const struct param *p)
{
    const struct tensor_view **v = p->source.plane[PLANE_WEIGHT], *t = v ? v[0] : NULL;
    return !p->source.rule && !p->source.packed &&
           (!t || (strncmp(t->name, p->name, strlen(p->name)) == 0 && has_mlx_shape(p, t)));
}

/* --- values ------------------------------------------------------------------------------------------------------- */

const struct layout_rule *layout_arithmetic(const struct model_desc *m, const struct param *p)
{
    char        module[LAYOUT_NAME];
    struct star star;
    for (const struct layout_rule *rule = m->layout; rule && rule->param; rule++)
        if (layout_has_arithmetic(rule) && layout_match(rule->param, layout_module(p, module), &star))
            return rule;
    return NULL;
}

bool layout_is_transposed(const struct model_desc *m, const struct param *p)
{
    struct star star;
    for (const struct layout_rule *rule = m->layout; rule && rule->param; rule++)
        if (rule->from && rule->transposed && layout_match(rule->param, p->name, &star))
            return true;
    return false;
}

float layout_factor(const struct layout_rule *rule, int64_t o, int64_t *end)
{
    const struct layout_scale *s = rule->scale;
    int64_t                    at = 0;
    for (; s && s->n && s->n <= o - at; s++)
        at += s->n;
    *end = s && s->n && s->n < INT64_MAX - at ? at + s->n : INT64_MAX;
    return s && s->n ? s->scale : 1;
}

void layout_values(const struct layout_rule *rule, int64_t o, float *x, int64_t n)
{
    int64_t end;
    float   factor = layout_factor(rule, o, &end);
    for (int64_t i = 0; rule->scale && i < n; i++)
        x[i] *= factor;
    for (int64_t i = 0; rule->plus != 0 && i < n; i++)
        x[i] += rule->plus;
}

/* --- targets ------------------------------------------------------------------------------------------------------ */

/* A name of the original layout and one of the parameters behind it. */
struct alias {
    const char          *name;
    int64_t              n_in;
    struct param_segment segment;
};

struct aliases {
    struct params *p;
    struct alias  *v;
    size_t         n, cap;
};

static void add_alias(struct aliases *a, const char *name, int64_t n_in, const struct param_segment *s)
{
    struct alias *v = vec_room(a->v, a->n, &a->cap, sizeof *v);
    char         *copy = v ? arena_strdup(a->p->arena, name, strlen(name)) : NULL;
    if (v)
        a->v = v;
    if (copy)
        a->v[a->n++] = (struct alias){copy, n_in, *s};
    else
        a->p->failed = true;
}

static void alias_row(struct aliases *a, const struct param *p, const struct layout_rule *rule, const char *name)
{
    bool    matrix = param_is_matrix(p), turns = rule->parts && rule->interleaved;
    int64_t n_out = matrix ? p->shape[p->n_dim - 2] : p->weight->n_out;
    int64_t n_in = matrix ? p->shape[p->n_dim - 1] : p->weight->n_in;
    add_alias(a, name, n_in,
              &(struct param_segment){.weight = p->weight,
                                      .slice = SEGMENT_ALL,
                                      .from = turns ? rule->part : rule->part * n_out,
                                      .step = turns ? rule->parts : 1,
                                      .n_row = n_out});
}

static int alias_order(const void *x, const void *y)
{
    const struct alias *a = x, *b = y;
    int                 d = strcmp(a->name, b->name);
    if (!d)
        d = a->segment.from < b->segment.from ? -1 : a->segment.from > b->segment.from;
    return d ? d : a->segment.weight->index - b->segment.weight->index;
}

/* Several rules can make one name of a row: "transformer.h.*c_attn" and "transformer.*". */
static bool same_alias(const struct alias *a, const struct alias *b)
{
    return strcmp(a->name, b->name) == 0 && a->segment.weight == b->segment.weight &&
           a->segment.from == b->segment.from;
}

void layout_targets(struct params *p, const struct model_desc *m)
{
    struct aliases a = {.p = p};
    for (size_t i = 0; i < p->n; i++)
        for (const struct layout_rule *rule = m->layout; rule && rule->param; rule++) {
            const struct param *row = &p->v[i];
            struct star         star;
            char                name[LAYOUT_NAME];
            if (row->role != ROLE_BIAS && rule->from && !rule->below && !rule->above &&
                layout_match(rule->param, row->name, &star) && layout_fill(rule->from, &star, name))
                alias_row(&a, row, rule, name);
        }
    if (a.n)
        qsort(a.v, a.n, sizeof *a.v, alias_order);
    size_t kept = 0;
    for (size_t i = 0; i < a.n; i++)
        if (!kept || !same_alias(&a.v[kept - 1], &a.v[i]))
            a.v[kept++] = a.v[i];
    a.n = kept;
    for (size_t i = 0, n; i < a.n; i += n) {
        struct param_segment s[FUSED_MAX];
        int64_t              n_out = 0;
        for (n = 0; i + n < a.n && strcmp(a.v[i].name, a.v[i + n].name) == 0; n++) {
            n_out += a.v[i + n].segment.n_row;
            if (n < FUSED_MAX)
                s[n] = a.v[i + n].segment;
        }
        if (!p->failed && n <= FUSED_MAX && !params_has_target(p, a.v[i].name))
            params_segments(p, 0, a.v[i].name, a.v[i].n_in, n_out, (int)n, s);
    }
    free(a.v);
}
