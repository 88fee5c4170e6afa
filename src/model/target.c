/* Names of modules beside the rows of the table; contracts in target.h. */
#include "model/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

#define NAMES_MAX (1u << 20)
#define NUMBER_MAX 9  /* digits of a slice's number */
#define NUMBERS_MAX 4 /* in a name, that may be a slice's */

struct target_name {
    const char           *name;
    struct param_target   target;
    struct param_segment *segment; /* target.segment */
};

struct target_names {
    struct target_name   *v; /* sorted by name once the table is finished */
    size_t                n, cap;
    bool                  numbered; /* some have a '#' */
    struct param_segment *row;      /* [params.n]: each row of the table as a segment */
};

/* --- declaring --------------------------------------------------------------------------------------------------- */

static struct target_name *add(struct params *p)
{
    struct target_names *t = p->target_names;
    if (!t)
        t = p->target_names = arena_calloc(p->arena, 1, sizeof *t);
    if (t && t->n == t->cap) {
        size_t              cap = t->cap ? t->cap * 2 : 64;
        struct target_name *v = cap > NAMES_MAX ? NULL : arena_calloc(p->arena, cap, sizeof *v);
        if (!v)
            return NULL;
        if (t->n)
            memcpy(v, t->v, t->n * sizeof *v);
        t->v = v;
        t->cap = cap;
    }
    return t ? &t->v[t->n++] : NULL;
}

void params_segments(struct params *p, int layer, const char *name, int64_t n_in, int64_t n_out, int n,
                     const struct param_segment *s)
{
    char                 *full = params_layer_name(p, name, layer);
    struct param_segment *copy = arena_calloc(p->arena, (size_t)n, sizeof *copy);
    struct target_name   *t = full && copy ? add(p) : NULL;
    if (!t) {
        p->failed = true;
        return;
    }
    memcpy(copy, s, (size_t)n * sizeof *copy);
    p->target_names->numbered |= strchr(full, '#') != NULL;
    *t = (struct target_name){
        .name = full, .target = {n_in, n_out, SEGMENT_ALL, 1, WEIGHT_LINEAR, n, copy}, .segment = copy};
}

static struct param_segment segment(const struct weight *w, int64_t from, int64_t row, int64_t n_row)
{
    return (struct param_segment){
        .weight = w, .slice = SEGMENT_ALL, .from = from, .step = 1, .row = row, .n_row = n_row};
}

void params_part(struct params *p, int layer, const char *name, const struct weight *w, int64_t row, int64_t n_row)
{
    struct param_segment s = segment(w, 0, row, n_row);
    params_segments(p, layer, name, w->n_in, n_row, 1, &s);
}

void params_fused(struct params *p, int layer, const char *name, int n, const struct weight *const *w)
{
    struct param_segment s[FUSED_MAX];
    int64_t              n_out = 0;
    n = MIN(n, FUSED_MAX);
    for (int i = 0; i < n; i++) {
        s[i] = segment(w[i], n_out, 0, w[i]->n_out);
        n_out += w[i]->n_out;
    }
    params_segments(p, layer, name, w[0]->n_in, n_out, n, s);
}

void params_tied_head(struct params *p, const char *name, const struct weight *embedding)
{
    params_part(p, 0, name, embedding, 0, embedding->n_out);
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].weight == embedding)
            p->v[i].uses |= WEIGHT_LINEAR;
}

bool params_has_target(const struct params *p, const char *name)
{
    for (size_t i = 0; p->target_names && i < p->target_names->n; i++)
        if (strcmp(p->target_names->v[i].name, name) == 0)
            return true;
    return false;
}

/* --- finishing --------------------------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct target_name *)a)->name, ((const struct target_name *)b)->name);
}

/* Matrices of the stack that the name means one or all of; 1 where no segment is a stack's. */
static int stack_of(const struct param_target *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->segment[i].slice == SEGMENT_ALL)
            return param_stack(t->segment[i].param);
    return 1;
}

static void finish_rows(struct params *p, const struct param **of_weight)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct param *row = &p->v[i];
        if (row->role == ROLE_BIAS)
            continue;
        p->target_names->row[i] = segment(row->weight, 0, 0, row->weight->n_out);
        p->target_names->row[i].param = row;
        for (int k = 0; k < param_stack(row); k++)
            of_weight[row->weight[k].index] = row;
    }
}

int params_finish_targets(struct params *p, struct error *e)
{
    const struct param **of_weight = calloc((size_t)p->n_weight + 1, sizeof *of_weight);
    struct target_names *t = p->target_names ? p->target_names : arena_calloc(p->arena, 1, sizeof *t);
    p->target_names = t;
    if (t)
        t->row = arena_calloc(p->arena, p->n + 1, sizeof *t->row);
    if (!of_weight || !t || !t->row) {
        free(of_weight);
        return error_nomem(e, "the parameter table");
    }
    finish_rows(p, of_weight);
    for (size_t i = 0; i < t->n; i++) {
        struct target_name *name = &t->v[i];
        for (int k = 0; k < name->target.n; k++)
            name->segment[k].param = of_weight[name->segment[k].weight->index];
        name->target.n_slice = stack_of(&name->target);
        if (!param_is_matrix(name->segment->param))
            name->target.uses = WEIGHT_VECTOR;
    }
    if (t->n)
        qsort(t->v, t->n, sizeof *t->v, compare_names);
    free(of_weight);
    return 0;
}

/* --- finding ----------------------------------------------------------------------------------------------------- */

static const struct target_name *find(const struct params *p, const char *name)
{
    struct target_name key = {.name = name};
    return p->target_names->n ? bsearch(&key, p->target_names->v, p->target_names->n, sizeof key, compare_names) : NULL;
}

/* The name with one of its numbers, which lies between dots, as the number of a slice. */
static bool find_slice(const struct params *p, const char *name, struct param_target *t)
{
    char   with_mark[512];
    size_t len = strlen(name);
    if (len >= sizeof with_mark || !p->target_names->numbered)
        return false;
    int numbers = 0;
    for (const char *dot = strchr(name, '.'); dot && numbers < NUMBERS_MAX; dot = strchr(dot + 1, '.')) {
        size_t digits = strspn(dot + 1, "0123456789");
        numbers += digits > 0;
        if (!digits || digits > NUMBER_MAX || dot[1 + digits] != '.' || (dot[1] == '0' && digits > 1))
            continue;
        size_t at = (size_t)(dot + 1 - name);
        memcpy(with_mark, name, at);
        with_mark[at] = '#';
        memcpy(with_mark + at + 1, name + at + digits, len - at - digits + 1);
        const struct target_name *hit = find(p, with_mark);
        long                      slice = strtol(dot + 1, NULL, 10);
        if (!hit || slice >= hit->target.n_slice)
            continue;
        *t = hit->target;
        t->slice = (int)slice;
        t->n_slice = 1;
        return true;
    }
    return false;
}

bool params_target(const struct params *p, const char *name, struct param_target *t)
{
    const struct param       *row = params_find(p, name);
    const struct target_name *hit;
    if (row && row->role != ROLE_BIAS) {
        const struct weight *w = row->weight;
        *t = (struct param_target){
            w->n_in, w->n_out, SEGMENT_ALL, param_stack(row), row->uses, 1, &p->target_names->row[row - p->v]};
        return true;
    }
    if (strchr(name, '#'))
        return false;
    if ((hit = find(p, name)) != NULL) {
        *t = hit->target;
        return true;
    }
    return find_slice(p, name, t);
}
