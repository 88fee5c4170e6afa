/* From pieces to modules: pairs are put together and everything about them is checked that needs no model. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapt/file_int.h"
#include "base/num.h"

void adapter_refuse(struct adapter_reader *r, struct adapter_piece *p, int code, const char *fmt, ...)
{
    char    text[ERROR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    faults_add(r->faults, code, p->tensor->name, "%s: %s %s", p->tensor->file, p->tensor->name, text);
    p->part = PART_NONE;
}

/* Says what kind of adapter the config makes of the files: that may be what is wrong. */
void adapter_unknown(struct adapter_reader *r, struct adapter_piece *p)
{
    char shape[TENSOR_SHAPE_TEXT];
    adapter_refuse(r, p, ERR_MISFIT, "(%s %s) is no tensor of a%s adapter of %s", dtype_name(p->tensor->dtype),
                   tensor_view_shape_text(p->tensor, shape),
                   r->f->kind == ADAPTER_KIND_FULL   ? " full"
                   : r->f->kind == ADAPTER_KIND_DORA ? " DoRA"
                                                     : " LoRA",
                   adapter_format_name(r->f->format));
}

/* --- one tensor --------------------------------------------------------------------------------------------------- */

/* Last component of a dotted name. */
static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* A pair belongs to a layer, not to one of the tensors in which the layer is stored. */
static bool aims_at_plane(struct adapter_reader *r, struct adapter_piece *p)
{
    static const char *const planes[] = {"scales", "biases", "weight", "bias"};
    const char              *part = last_part(p->name);
    int                      n = (int)(part - p->name) - 1;
    for (size_t i = 0; i < ARRAY_LEN(planes) && n > 0; i++)
        if (strcmp(part, planes[i]) == 0) {
            adapter_refuse(r, p, ERR_MISFIT, "aims at the %s plane of %.*s; a pair belongs to the layer itself, %.*s",
                           part, n, p->name, n, p->name);
            return true;
        }
    return false;
}

/* Types and dimensions that cannot be right whatever the layer is. */
static void check_piece(struct adapter_reader *r, struct adapter_piece *p)
{
    const struct tensor_view *t = p->tensor;
    char                      shape[TENSOR_SHAPE_TEXT];
    bool                      pair = p->part == PART_A || p->part == PART_B;
    bool                      is_switch = r->f->format == ADAPTER_FORMAT_MLX_LM;
    if (p->part != PART_COPY && p->part != PART_REPLACE && aims_at_plane(r, p))
        return;
    if (!dtype_is_float16_32(t->dtype)) {
        adapter_refuse(r, p, ERR_MISFIT, "is %s %s, F32, F16 or BF16 is needed", dtype_name(t->dtype),
                       tensor_view_shape_text(t, shape));
        return;
    }
    for (int i = 0; i < t->n_dim; i++)
        if (t->shape[i] == 0) {
            adapter_refuse(r, p, ERR_MISFIT, "is %s, which holds nothing", tensor_view_shape_text(t, shape));
            return;
        }
    if (pair && t->n_dim != 2 && !(is_switch && t->n_dim == 3))
        adapter_refuse(r, p, ERR_MISFIT, "is %s, %s are needed", tensor_view_shape_text(t, shape),
                       is_switch ? "2 dimensions, or 3 for a stack of experts," : "2 dimensions");
    else if ((p->part == PART_MAGNITUDE || p->part == PART_EXTRA) && t->n_dim != 1)
        adapter_refuse(r, p, ERR_MISFIT, "is %s, one dimension is needed", tensor_view_shape_text(t, shape));
}

/* --- one module --------------------------------------------------------------------------------------------------- */

struct group {
    struct adapter_piece *piece[PART_EXTRA + 1]; /* by part */
    struct adapter_piece *first;
    bool                  broken; /* a piece of it is a fault already: nothing is missing for sure */
};

static void lone(struct adapter_reader *r, const struct adapter_piece *p, const char *needed)
{
    faults_add(r->faults, ERR_MISFIT, p->tensor->name, "%s: %s stands alone, there is no %s.%s", p->tensor->file,
               p->tensor->name, p->spelled, needed);
}

static const char *part_name(const struct adapter_reader *r, const struct adapter_piece *beside, enum adapter_part part)
{
    if (beside->layout == ADAPTER_PEFT_EMBED)
        return part == PART_A ? "lora_embedding_A" : "lora_embedding_B";
    return part == PART_A ? r->rules->a : r->rules->b;
}

/* Whether both halves of the pair are there, and what DoRA needs. */
static bool is_complete(struct adapter_reader *r, const struct group *g)
{
    const struct adapter_piece *a = g->piece[PART_A], *b = g->piece[PART_B], *m = g->piece[PART_MAGNITUDE];
    bool                        dora = r->f->kind == ADAPTER_KIND_DORA, peft = r->f->format == ADAPTER_FORMAT_PEFT;
    if (g->broken)
        return false;
    if (!a || !b) {
        lone(r, g->first, part_name(r, g->first, a ? PART_B : PART_A));
        return false;
    }
    if (m && !dora && r->config)
        faults_add(r->faults, ERR_MISFIT, m->tensor->name, "%s: %s is a magnitude of DoRA, but " ADAPTER_CONFIG " %s",
                   m->tensor->file, m->tensor->name,
                   peft ? "has no use_dora" : "says fine_tune_type \"lora\" (\"dora\" is needed)");
    else if (!m && dora)
        lone(r, a, peft ? "lora_magnitude_vector" : "m");
    return (m != NULL) == dora || !r->config;
}

/* Ranks and experts as the shapes tell; 0 where a and b do not go together. */
static void read_shapes(struct adapter_module *m, int64_t config_rank)
{
    const int64_t *a = m->a->shape, *b = m->b->shape;
    bool           is_switch = m->b->n_dim == 3 || m->a->n_dim == 3;
    if (m->layout == ADAPTER_MLX && is_switch)
        m->layout = ADAPTER_MLX_SWITCH;
    switch (m->layout) {
    case ADAPTER_MLX:
        m->rank = a[1] == b[0] ? a[1] : 0;
        break;
    case ADAPTER_MLX_SWITCH: /* older files have a as [E * r, K] */
        m->n_expert = m->b->n_dim == 3 ? b[0] : 0;
        m->rank = m->b->n_dim == 3 ? b[2] : 0;
        if (m->a->n_dim == 3 ? a[0] != m->n_expert || a[1] != m->rank
                             : m->rank && (a[0] / m->rank != m->n_expert || a[0] % m->rank))
            m->rank = 0;
        break;
    case ADAPTER_PEFT:
    case ADAPTER_PEFT_EMBED:
        m->rank = a[0] == b[1] ? a[0] : 0;
        break;
    case ADAPTER_PEFT_STACK:
    case ADAPTER_PEFT_STACK_TURNED:
        if (a[0] == b[1] && config_rank && a[0] % config_rank == 0) {
            m->rank = config_rank;
            m->n_expert = a[0] / config_rank;
        }
        break;
    }
}

static bool check_rank(struct adapter_reader *r, struct adapter_module *m)
{
    char    a[TENSOR_SHAPE_TEXT], b[TENSOR_SHAPE_TEXT];
    int64_t rank = 0;
    m->scale = r->config ? r->rules->scale(r, m, &rank) : 1;
    read_shapes(m, rank);
    tensor_view_shape_text(m->a, a);
    tensor_view_shape_text(m->b, b);
    if (m->layout == ADAPTER_PEFT_STACK && m->a->shape[0] == m->b->shape[1] && !m->rank) {
        if (rank)
            faults_add(r->faults, ERR_MISFIT, m->a->name,
                       "%s: %s is %s, its rows are no whole number of experts of rank %" PRId64 " (" ADAPTER_CONFIG ")",
                       m->a->file, m->a->name, a, rank);
        return false;
    }
    if (!m->rank) {
        faults_add(r->faults, ERR_MISFIT, m->a->name, "%s: %s is %s and %s %s, they have no rank in common", m->a->file,
                   m->a->name, a, m->b->name, b);
        return false;
    }
    if (rank && rank != m->rank) {
        faults_add(r->faults, ERR_MISFIT, m->a->name,
                   "%s: %s is %s, rank %" PRId64 ", but " ADAPTER_CONFIG " says rank %" PRId64, m->a->file, m->a->name,
                   a, m->rank, rank);
        return false;
    }
    return true;
}

static void add_module(struct adapter_reader *r, const struct group *g)
{
    struct adapter_module m = {.name = g->first->name, .spelled = g->first->spelled};
    if (!is_complete(r, g))
        return;
    m.layout = g->piece[PART_A]->layout;
    m.a = g->piece[PART_A]->tensor;
    m.b = g->piece[PART_B]->tensor;
    if (g->piece[PART_MAGNITUDE])
        m.magnitude = g->piece[PART_MAGNITUDE]->tensor;
    if (g->piece[PART_EXTRA])
        m.extra = g->piece[PART_EXTRA]->tensor;
    if (!check_rank(r, &m))
        return;
    r->f->module[r->f->n_module++] = m;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static bool is_parameter(const struct adapter_piece *p)
{
    return p->part == PART_REPLACE || p->part == PART_COPY;
}

/* Modules before parameters, by name; the pieces of a module by part. */
static int compare(const void *pa, const void *pb)
{
    const struct adapter_piece *a = pa, *b = pb;
    int                         d = is_parameter(a) - is_parameter(b);
    if (!d)
        d = strcmp(a->name, b->name);
    return d ? d : a->part != b->part ? (int)a->part - (int)b->part : strcmp(a->tensor->name, b->tensor->name);
}

static bool same_place(const struct adapter_piece *a, const struct adapter_piece *b)
{
    return is_parameter(a) == is_parameter(b) && strcmp(a->name, b->name) == 0;
}

static void twice(struct adapter_reader *r, const struct adapter_piece *a, const struct adapter_piece *b)
{
    faults_add(r->faults, ERR_MISFIT, b->tensor->name, "%s: %s and %s are both for %s", b->tensor->file,
               a->tensor->name, b->tensor->name, a->name);
}

/* A piece of the module that leaves no place for p: the same half again, or a half of another layout. */
static const struct adapter_piece *clash(const struct group *g, const struct adapter_piece *p)
{
    const struct adapter_piece *half = p->part == PART_B ? g->piece[PART_A] : NULL;
    return g->piece[p->part] ? g->piece[p->part] : half && half->layout != p->layout ? half : NULL;
}

static void gather_module(struct adapter_reader *r, struct adapter_piece *p, size_t n)
{
    struct group                g = {.first = p};
    const struct adapter_piece *other;
    for (size_t i = 0; i < n; i++) {
        check_piece(r, &p[i]);
        if (p[i].part == PART_NONE)
            g.broken = true;
        else if ((other = clash(&g, &p[i]))) {
            twice(r, other, &p[i]);
            g.broken = true;
        } else {
            g.piece[p[i].part] = &p[i];
        }
    }
    add_module(r, &g);
}

static void gather_parameter(struct adapter_reader *r, struct adapter_piece *p, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (p[i].part == p->part)
            twice(r, p, &p[i]);
    for (size_t i = 0; i < n; i++) {
        check_piece(r, &p[i]);
        struct adapter_param param = {p[i].name, p[i].tensor};
        if (p[i].part == PART_REPLACE)
            r->f->replace[r->f->n_replace++] = param;
        else if (p[i].part == PART_COPY)
            r->f->copy[r->f->n_copy++] = param;
    }
}

bool adapter_gather(struct adapter_reader *r)
{
    struct adapter_file *f = r->f;
    size_t               room = MAX(r->n_piece, (size_t)1);
    f->module = arena_calloc(&f->arena, room, sizeof *f->module);
    f->replace = arena_calloc(&f->arena, room, sizeof *f->replace);
    f->copy = arena_calloc(&f->arena, room, sizeof *f->copy);
    if (!f->module || !f->replace || !f->copy)
        return false;
    qsort(r->piece, r->n_piece, sizeof *r->piece, compare);
    for (size_t i = 0, n; i < r->n_piece; i += n) {
        struct adapter_piece *p = &r->piece[i];
        for (n = 1; i + n < r->n_piece && same_place(p, &p[n]); n++)
            ;
        (is_parameter(p) ? gather_parameter : gather_module)(r, p, n);
    }
    if (!f->n_module && !f->n_replace && !r->faults->n)
        faults_add(r->faults, ERR_MISFIT, f->path, "%s holds no adapter: there is not one pair in it", f->path);
    return true;
}
