/* From names of the table to tensors of the files; contracts in layout.h. */
#include "model/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "base/num.h"
#include "model/layout_int.h"

#define SUFFIXES 4

/* --- names -------------------------------------------------------------------------------------------------------- */

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

const struct tensor_view *layout_find(const struct model_desc *m, const struct checkpoint *c, const char *name)
{
    const struct tensor_view *t = checkpoint_find(c, name);
    char                      other[LAYOUT_NAME];
    for (const struct layout_prefix *x = m->layout_prefix; !t && x && x->name; x++)
        if (begins(name, x->name) &&
            (size_t)snprintf(other, sizeof other, "%s%s", x->files, name + strlen(x->name)) < sizeof other)
            t = checkpoint_find(c, other);
    return t;
}

const char *layout_spelling(const struct model_desc *m, const char *name, int k, char out[LAYOUT_NAME])
{
    if (k-- == 0)
        return name;
    for (const struct layout_prefix *x = m->layout_prefix; x && x->name; x++)
        if (begins(name, x->files) &&
            (size_t)snprintf(out, LAYOUT_NAME, "%s%s", x->name, name + strlen(x->files)) < LAYOUT_NAME && k-- == 0)
            return out;
    return NULL;
}

bool layout_match(const char *pattern, const char *name, struct star *star)
{
    const char *mark = strchr(pattern, '*');
    size_t      n = strlen(name), before = mark ? (size_t)(mark - pattern) : n, after = mark ? strlen(mark + 1) : 0;
    *star = (struct star){name + before, (int)(n - before - after)};
    if (!mark)
        return strcmp(pattern, name) == 0;
    return n >= before + after && strncmp(pattern, name, before) == 0 && strcmp(mark + 1, name + n - after) == 0;
}

bool layout_fill(const char *pattern, const struct star *star, char out[LAYOUT_NAME])
{
    const char *mark = strchr(pattern, '*');
    int n = mark ? snprintf(out, LAYOUT_NAME, "%.*s%.*s%s", (int)(mark - pattern), pattern, star->n, star->p, mark + 1)
                 : snprintf(out, LAYOUT_NAME, "%s", pattern);
    return n < LAYOUT_NAME;
}

const char *layout_module(const struct param *p, char out[LAYOUT_NAME])
{
    static const char bias[] = ".bias";
    size_t            n = strlen(p->name), k = sizeof bias - 1;
    if (p->role != ROLE_BIAS || n < k || n >= LAYOUT_NAME || strcmp(p->name + n - k, bias))
        return p->name;
    memcpy(out, p->name, n - k);
    out[n - k] = '\0';
    return out;
}

const char *layout_other_name(const struct model_desc *m, const struct param *p, char out[LAYOUT_NAME])
{
    char        module[LAYOUT_NAME];
    struct star star;
    for (const struct layout_rule *rule = m->layout; rule && rule->param; rule++)
        if (rule->from && layout_match(rule->param, layout_module(p, module), &star) &&
            layout_fill(rule->from, &star, out))
            return out;
    return NULL;
}

int layout_layer(const struct model_desc *m, const char *name)
{
    const char *before = m->name[NAME_LAYER], *mark = strstr(before, "%d");
    size_t      n = strlen(m->prefix), k = mark ? (size_t)(mark - before) : 0;
    if (!mark || strncmp(name, m->prefix, n) != 0 || strncmp(name + n, before, k) != 0)
        return -1;
    const char *number = name + n + k;
    size_t      digits = strspn(number, "0123456789");
    return digits && digits < 9 && begins(number + digits, mark + 2) ? atoi(number) : -1;
}

/* --- one row ------------------------------------------------------------------------------------------------------ */

/* What the files say about a marker. */
enum mark { MARK_NONE, MARK_MLX, MARK_ORIGINAL, MARK_BOTH };

struct resolver {
    struct params           *p;
    const struct model_desc *m;
    const struct checkpoint *c;
    unsigned char           *uses;
    struct layout_leftover  *leftover;
    const char              *marker; /* the latest that was asked for, and what was found */
    enum mark                mark;
    bool                     failed;
};

/* Suffixes of the planes, in order of preference. */
#define PACKED ".weight_packed"
static const char *const of_module[PLANES][SUFFIXES] = {[PLANE_WEIGHT] = {".weight", "", "_blocks", PACKED},
                                                        [PLANE_SCALES] = {".scales", "_scales", ".weight_scale"},
                                                        [PLANE_BIASES] = {".biases"},
                                                        [PLANE_TILES] = {PLANE_FP8_SCALES, "_scale_inv"},
                                                        [PLANE_NOTE] = {".weight_shape", ".activation_scale"}};
/* Of a matrix under its own name. */
static const char *const of_own[PLANES][SUFFIXES] = {[PLANE_WEIGHT] = {".weight", PACKED},
                                                     [PLANE_SCALES] = {".scales", ".weight_scale"},
                                                     [PLANE_BIASES] = {".biases"},
                                                     [PLANE_TILES] = {PLANE_FP8_SCALES},
                                                     [PLANE_NOTE] = {".weight_shape", ".activation_scale"}};
static const char *const of_bias[PLANES][SUFFIXES] = {[PLANE_WEIGHT] = {".bias", "_bias"}};

bool layout_is_plane(const char *suffix)
{
    for (int i = 0; i < PLANES; i++)
        for (int k = 0; k < SUFFIXES && of_own[i][k]; k++)
            if (strcmp(of_own[i][k], suffix) == 0)
                return true;
    return false;
}

/* What a row is looked for by: a name with at most one '#', and its suffixes. */
struct place {
    const char *name, *mark; /* mark: the '#', or NULL */
    const char *suffix[PLANES][SUFFIXES];
};

static void own_place(const struct param *p, struct place *k)
{
    *k = (struct place){.name = p->name};
    if (param_is_matrix(p) || (p->role == ROLE_NORM))
        memcpy(k->suffix, of_own, sizeof k->suffix);
    k->suffix[PLANE_WEIGHT][0] = p->suffix;
}

static void other_place(const struct param *p, const char *name, struct place *k)
{
    *k = (struct place){.name = name, .mark = strchr(name, '#')};
    memcpy(k->suffix, p->role == ROLE_BIAS ? of_bias : of_module, sizeof k->suffix);
}

static const struct tensor_view *numbered(const struct resolver *r, const struct place *k, int i, const char *suffix)
{
    char name[LAYOUT_NAME];
    int  n = k->mark
                 ? snprintf(name, sizeof name, "%.*s%d%s%s", (int)(k->mark - k->name), k->name, i, k->mark + 1, suffix)
                 : snprintf(name, sizeof name, "%s%s", k->name, suffix);
    return n < (int)sizeof name ? layout_find(r->m, r->c, name) : NULL;
}

/* Finds the tensors of one plane: all have the suffix of the first that is there. False: none is. */
static bool find_plane(struct resolver *r, struct param_source *s, const struct place *k, int plane)
{
    const struct tensor_view **v = NULL;
    for (int x = 0; x < SUFFIXES && k->suffix[plane][x] && !v; x++)
        for (int i = 0; i < s->n; i++) {
            const struct tensor_view *t = numbered(r, k, i, k->suffix[plane][x]);
            if (t && !v)
                v = arena_calloc(r->p->arena, (size_t)s->n, sizeof *v);
            r->failed |= t && !v;
            if (!t || !v)
                continue;
            v[i] = t;
            s->suffix[plane] = k->suffix[plane][x];
        }
    s->plane[plane] = v;
    s->packed |= v && strcmp(s->suffix[plane], PACKED) == 0;
    return v != NULL;
}

static bool find_planes(struct resolver *r, struct param_source *s, const struct place *k)
{
    bool any = false;
    for (int i = 0; i < PLANES; i++)
        any |= find_plane(r, s, k, i);
    return any;
}

/* --- geometry ----------------------------------------------------------------------------------------------------- */

/* Rows that the stack of another name has among those of p's; 0 when there is none. */
static int64_t rows_between(const struct resolver *r, const struct param *p, const char *pattern,
                            const struct star *star)
{
    char                name[LAYOUT_NAME];
    const struct param *q = layout_fill(pattern, star, name) ? params_find(r->p, name) : NULL;
    return q && param_is_matrix(q) && param_stack(q) == param_stack(p)
               ? q->shape[q->n_dim - 2] * q->shape[q->n_dim - 1] / p->source.n_col
               : 0;
}

static void place_rows(struct param *p, const struct layout_rule *rule)
{
    struct param_source *s = &p->source;
    bool                 matrix = param_is_matrix(p), stacked = p->role == ROLE_BIAS && p->n_dim == 2;
    int64_t              n_in = matrix ? p->shape[p->n_dim - 1] : 1;
    int64_t              n_out = matrix ? p->shape[p->n_dim - 2] : stacked ? p->shape[1] : param_elements(p);
    int64_t              all = rule && rule->parts ? n_out * rule->parts : n_out;
    const char          *suffix = s->suffix[PLANE_WEIGHT];
    s->transposed = matrix && rule && rule->transposed && !(suffix && strcmp(suffix, "_blocks") == 0);
    bool columns = !matrix || s->transposed;
    s->n_row = columns ? n_in : all;
    s->n_col = columns ? all : n_in;
    s->pitch = s->n_row;
    s->lead = 0;
    s->first = rule && rule->parts ? (rule->interleaved ? rule->part : rule->part * n_out) : 0;
    s->step = rule && rule->parts && rule->interleaved ? rule->parts : 1;
}

/* False: the rule speaks of a stack that the model has not. */
static bool place_heads(const struct resolver *r, struct param *p, const struct layout_rule *rule,
                        const struct star *star)
{
    const char *pattern = rule->below ? rule->below : rule->above;
    int64_t     rows = pattern ? rows_between(r, p, pattern, star) : 0;
    p->source.pitch += rows;
    p->source.lead = rule->above ? rows : 0;
    return !pattern || rows > 0;
}

int layout_shape(const struct param *p, int64_t shape[4])
{
    const struct param_source *s = &p->source;
    const struct layout_rule  *rule = s->rule;
    int                        n = 0;
    bool                       bias = p->role == ROLE_BIAS;
    if (!rule || (!param_is_matrix(p) && !bias)) {
        memcpy(shape, p->shape, sizeof p->shape);
        return p->n_dim;
    }
    if (rule->below || rule->above) {
        shape[n++] = param_stack(p) * s->pitch;
    } else {
        if (p->n_dim == (bias ? 2 : 3) && !s->apart)
            shape[n++] = p->shape[0];
        if (!bias)
            shape[n++] = s->n_row;
    }
    shape[n++] = s->n_col;
    return n;
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

static enum mark mark_of(struct resolver *r, const char *pattern)
{
    int seen = 0;
    if (r->marker == pattern)
        return r->mark;
    for (size_t i = 0; i < checkpoint_count(r->c); i++) {
        const struct tensor_view *t = checkpoint_at(r->c, i);
        if (t->n_dim == 3 && glob_match(pattern, t->name))
            seen |= t->shape[2] != 1 ? MARK_ORIGINAL : MARK_MLX;
    }
    r->marker = pattern;
    r->mark = (enum mark)seen;
    return r->mark;
}

static void use(struct resolver *r, const struct param *p)
{
    const struct param_source *s = &p->source;
    const struct tensor_view  *first = checkpoint_count(r->c) ? checkpoint_at(r->c, 0) : NULL;
    int                        pieces = s->rule ? s->rule->parts : 0;
    for (int i = 0; i < PLANES; i++)
        for (int k = 0; s->plane[i] && k < s->n; k++)
            if (s->plane[i][k]) {
                unsigned char *n = &r->uses[s->plane[i][k] - first];
                *n = pieces && *n < LAYOUT_WHOLE - 1 ? *n + 1 : LAYOUT_WHOLE;
            }
}

/* Whether the rule says where the row is, or (home) where it would be. */
static bool try_rule(struct resolver *r, struct param *p, const struct layout_rule *rule, bool home)
{
    struct param_source *s = &p->source;
    struct star          star;
    struct place         k;
    char                 module[LAYOUT_NAME], name[LAYOUT_NAME];
    if (!rule->from || !layout_match(rule->param, layout_module(p, module), &star) ||
        !layout_fill(rule->from, &star, name) || (rule->marker && mark_of(r, rule->marker) != MARK_ORIGINAL))
        return false;
    other_place(p, name, &k);
    *s = (struct param_source){.rule = rule, .apart = k.mark != NULL};
    s->n = !k.mark ? 1 : p->role == ROLE_BIAS && p->n_dim == 2 ? (int)p->shape[0] : param_stack(p);
    bool found = find_planes(r, s, &k);
    place_rows(p, rule);
    if ((!found && !home) || !place_heads(r, p, rule, &star)) {
        *s = (struct param_source){0};
        return false;
    }
    s->name = arena_strdup(r->p->arena, name, strlen(name));
    r->failed |= !s->name;
    return true;
}

/* The rule about the row's own tensor, unless its marker says that this is the MLX layout's. */
static void find_own_rule(struct resolver *r, struct param *p)
{
    char        module[LAYOUT_NAME];
    struct star star;
    for (const struct layout_rule *rule = r->m->layout; rule && rule->param; rule++) {
        if (rule->from || !layout_match(rule->param, layout_module(p, module), &star))
            continue;
        enum mark mark = rule->marker ? mark_of(r, rule->marker) : MARK_ORIGINAL;
        if (mark == MARK_MLX)
            continue;
        p->source.rule = mark == MARK_ORIGINAL ? rule : NULL;
        p->source.unmarked = mark == MARK_ORIGINAL ? NULL : rule->marker;
        p->source.mixed = mark == MARK_BOTH;
        return;
    }
}

/* Tensors that stand beside what was made of them. */
static void find_leftovers(struct resolver *r, struct param *p)
{
    struct param_source own = p->source;
    for (const struct layout_rule *rule = r->m->layout; rule && rule->param; rule++) {
        if (!rule->leftover || !try_rule(r, p, rule, false))
            continue;
        use(r, p);
        if (!r->leftover->n++) {
            r->leftover->name = p->source.name;
            r->leftover->param = p->name;
        }
    }
    p->source = own;
}

static void resolve(struct resolver *r, struct param *p)
{
    struct place k;
    p->source = (struct param_source){.n = 1};
    own_place(p, &k);
    if (find_planes(r, &p->source, &k)) {
        p->source.name = p->name;
        find_own_rule(r, p);
        place_rows(p, p->source.rule);
        use(r, p);
        find_leftovers(r, p);
        return;
    }
    for (const struct layout_rule *rule = r->m->layout; rule && rule->param; rule++)
        if (try_rule(r, p, rule, rule->home)) {
            use(r, p);
            return;
        }
    p->source = (struct param_source){.n = 1};
    place_rows(p, NULL);
}

bool layout_resolve(struct params *p, const struct model_desc *m, const struct checkpoint *c, unsigned char *uses,
                    struct layout_leftover *leftover)
{
    struct resolver r = {.p = p, .m = m, .c = c, .uses = uses, .leftover = leftover};
    *leftover = (struct layout_leftover){0};
    for (size_t i = 0; i < p->n && !r.failed; i++)
        resolve(&r, &p->v[i]);
    return !r.failed;
}
