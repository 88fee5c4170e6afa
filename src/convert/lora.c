/* Adapters in another format, and sums of adapters; contracts in lora.h. */
#include "convert/lora.h"

#include <stdlib.h>
#include <string.h>

#include "adapt/bind.h"
#include "adapt/write.h"
#include "arch/arch.h"
#include "base/num.h"
#include "base/vec.h"

/* The files of a sum, and the model that they must fit. */
struct sources {
    struct adapter_file **file;
    size_t                n;
    struct model         *model; /* NULL: none was named */
};

static void sources_deinit(struct sources *s)
{
    for (size_t i = 0; s->file && i < s->n; i++)
        adapter_file_free(s->file[i]);
    free(s->file);
    model_free(s->model);
}

static int check_fit(const struct sources *s, struct adapter_file *f, struct faults *faults, struct error *e)
{
    struct adapter_binding b = {0};
    int                    err = s->model ? adapter_bind(&b, f, s->model, faults, e) : 0;
    if (!s->model && adapter_stacks_need_model(f))
        faults_add(faults, ERR_INVALID, f->path,
                   "%s has pairs of stacked experts, of which only the model tells which half is the input's in "
                   "files of this version of PEFT: name it with -m",
                   f->path);
    adapter_binding_deinit(&b);
    return err;
}

static int sources_open(struct sources *s, const struct convert_adapter *v, size_t n, const struct lora_output *o,
                        struct error *e)
{
    struct model_options mo = {.page_tokens = KV_TILE, .log = o->log};
    struct faults        faults = {0};
    s->file = calloc(n, sizeof *s->file);
    s->n = n;
    int err = s->file ? 0 : error_nomem(e, "the adapters");
    if (!err && o->model)
        err = model_load(&s->model, o->model, arch_describe, NULL, &mo, e);
    for (size_t i = 0; i < n && !err; i++) {
        err = adapter_file_open(&s->file[i], v[i].path, &faults, e);
        if (!err && s->file[i] && !faults.n)
            err = check_fit(s, s->file[i], &faults, e);
        if (s->file[i])
            adapter_file_warn(s->file[i], o->log);
    }
    if (!err)
        err = faults_report(&faults, e);
    faults_deinit(&faults);
    return err;
}

/* --- the sum ---------------------------------------------------------------------------------------------------- */

/* mlx-lm's files do not say it: the model does, else the name. */
static bool is_embedding(const struct sources *s, const struct adapter_module *m)
{
    static const char *const names[] = {"embed_tokens", "wte", "word_embeddings", "tok_embeddings", "embed_in"};
    const char              *dot = strrchr(m->name, '.'), *last = dot ? dot + 1 : m->name;
    struct param_target      t;
    if (m->layout != ADAPTER_MLX)
        return m->layout == ADAPTER_PEFT_EMBED;
    if (s->model && adapter_resolve(s->model, m->name, &t))
        return t.uses & WEIGHT_EMBED;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!strcmp(last, names[i]))
            return true;
    return false;
}

struct member {
    const struct adapter_file   *file;
    const struct adapter_module *module;
    struct adapter_sum_module    to; /* what it belongs to, without the parts */
    struct adapter_part          part;
    size_t                       order; /* of the files */
};

static int member_order(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    int                  c = strcmp(x->to.name, y->to.name);
    return c ? c : x->order < y->order ? -1 : x->order > y->order;
}

static void compare_shapes(const struct member *x, const struct member *y, struct faults *f)
{
    const struct adapter_sum_module *a = &x->to, *b = &y->to;
    if (a->n_in != b->n_in || a->n_out != b->n_out || a->n_expert != b->n_expert)
        faults_add(f, ERR_MISFIT, x->module->name,
                   "%s takes %lld input features and produces %lld in %s, but %lld and %lld in %s", x->module->name,
                   (long long)a->n_in, (long long)a->n_out, x->file->path, (long long)b->n_in, (long long)b->n_out,
                   y->file->path);
}

/* mlx-lm has a magnitude for each row of an embedding, PEFT for each column. */
static void refuse_embedding(const struct adapter_sum *sum, const struct member *x, bool embedding, struct faults *f)
{
    if (embedding && x->module->magnitude && (sum->format == ADAPTER_FORMAT_PEFT || x->module->layout != ADAPTER_MLX))
        faults_add(f, ERR_UNSUPPORTED, x->module->name,
                   "%s: %s has DoRA on an embedding, whose magnitudes mlx-lm keeps by row and PEFT by column",
                   x->file->path, x->module->spelled);
}

static bool is_peft(const struct adapter_file *f)
{
    return f->format == ADAPTER_FORMAT_PEFT;
}

/* A pair of PEFT's means another change than the same pair of mlx-lm's where the MLX layout holds factors of the model. */
static void refuse_factors(const struct sources *s, const struct adapter_sum *sum, const struct member *x,
                           struct faults *f)
{
    struct param_target t;
    if (!s->model || is_peft(x->file) == (sum->format == ADAPTER_FORMAT_PEFT) ||
        !adapter_resolve(s->model, x->module->name, &t))
        return;
    for (int i = 0; i < t.n; i++) {
        const struct layout_rule *rule = layout_arithmetic(&s->model->desc, t.segment[i].param);
        if (!rule || !rule->scale)
            continue;
        faults_add(f, ERR_UNSUPPORTED, x->module->name,
                   "%s: %s changes a layer that MLX stores times the model's factors and PEFT knows without them",
                   x->file->path, x->module->spelled);
        return;
    }
}

/* Modules of all files, those of one name together, as parts of one; *parts is one array for all. */
static int make_sum(const struct sources *s, struct member *v, size_t n, struct adapter_sum *sum,
                    struct adapter_part **parts, struct faults *faults, struct error *e)
{
    sum->module = calloc(n + 1, sizeof *sum->module);
    *parts = calloc(n + 1, sizeof **parts);
    if (!sum->module || !*parts)
        return error_nomem(e, "the adapter's modules");
    for (size_t i = 0; i < n; i++) {
        bool first = i == 0 || strcmp(v[i].to.name, v[i - 1].to.name);
        refuse_embedding(sum, &v[i], v[i].to.embedding, faults);
        refuse_factors(s, sum, &v[i], faults);
        (*parts)[i] = v[i].part;
        if (first) {
            sum->module[sum->n_module] = v[i].to;
            sum->module[sum->n_module++].part = &(*parts)[i];
        } else {
            compare_shapes(&v[i - 1], &v[i], faults);
        }
        sum->module[sum->n_module - 1].n_part++;
    }
    return 0;
}

struct members {
    struct member *v;
    size_t         n, cap;
    bool           nomem;
};

static void add_member(struct members *l, const struct member *m)
{
    struct member *v = vec_room(l->v, l->n, &l->cap, sizeof *v);
    l->nomem |= !v;
    if (!v)
        return;
    l->v = v;
    l->v[l->n++] = *m;
}

/* As its file names it. */
static void add_as_named(const struct sources *s, struct members *l, struct member m)
{
    struct adapter_matrix a, b;
    bool                  embedding = is_embedding(s, m.module);
    adapter_module_pair(m.module, embedding, 0, &a, &b);
    m.to = (struct adapter_sum_module){m.module->name, embedding, a.n_col, b.n_row, m.module->n_expert, NULL, 0};
    m.part.expert = -1;
    m.part.step = 1;
    m.part.n_row = b.n_row;
    add_member(l, &m);
}

/* Whether the module is whole matrices, or rows of them, of MLX's layout. Heads are not, nor one use of a tied matrix. */
static bool is_stored(const struct param_target *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->segment[i].transposed || t->segment[i].slice != SEGMENT_ALL)
            return false;
    return t->segment->param->role != ROLE_EMBED || t->uses == t->segment->param->uses;
}

/* As MLX's layout has it: fused where the original is not or the other way round, stacks for single experts. */
static void add_as_stored(struct members *l, struct member m, const struct param_target *t, struct faults *f)
{
    for (int i = 0; i < t->n; i++) {
        const struct param_segment *g = &t->segment[i];
        const struct param         *p = g->param;
        const struct weight        *w = p->weight;
        bool                        stack = p->n_dim == 3;
        if (m.module->magnitude && (g->step != 1 || g->n_row != w->n_out))
            faults_add(f, ERR_UNSUPPORTED, m.module->name,
                       "%s: %s has DoRA for a part of what MLX stores as one, which mlx-lm cannot say", m.file->path,
                       m.module->spelled);
        m.to = (struct adapter_sum_module){
            p->name, t->uses & WEIGHT_EMBED, w->n_in, w->n_out, stack ? p->shape[0] : 0, NULL, 0};
        m.part.expert = stack && t->slice != SEGMENT_ALL ? t->slice : -1;
        m.part.from = g->from;
        m.part.step = g->step;
        m.part.n_row = g->n_row;
        m.part.row = g->row;
        add_member(l, &m);
    }
}

/* With a model and for mlx-lm, modules are called and cut as its layers are. */
static void list_members(const struct sources *s, const struct convert_adapter *v, bool mlx, struct members *l,
                         struct faults *f)
{
    struct param_target t;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->file[i]->n_module && v[i].scale != 0; k++) {
            const struct adapter_module *module = &s->file[i]->module[k];
            struct member m = {s->file[i], module, .part = {.module = module, .factor = v[i].scale}, .order = i};
            if (mlx && s->model && adapter_resolve(s->model, module->name, &t) && is_stored(&t))
                add_as_stored(l, m, &t, f);
            else
                add_as_named(s, l, m);
        }
}

static int write_sum(const struct sources *s, const struct adapter_sum *sum, const struct lora_output *o,
                     struct error *e)
{
    struct dir_out out = {0};
    int            err = dir_out_begin(&out, o->path, o->model, o->force, e);
    for (size_t i = 0; i < s->n && !err; i++)
        err = dir_out_spare(&out, s->file[i]->path, e);
    if (!err)
        err = adapter_sum_write(sum, &out, e);
    if (!err)
        err = dir_out_finish(&out, e);
    dir_out_abort(&out);
    return err;
}

static const char *base_of(const struct sources *s, const struct log *log)
{
    const char *base = NULL;
    for (size_t i = 0; i < s->n; i++) {
        const char *other = s->file[i]->base;
        if (base && other && strcmp(base, other))
            log_warning(log, "%s was made for %s, %s for %s", s->file[0]->path, base, s->file[i]->path, other);
        base = base ? base : other;
    }
    return base;
}

/* Whether the file has pairs of an embedding, and of a head that is tied to it or, without a model, may be. */
static void find_tied(const struct sources *s, const struct adapter_file *f, bool *embedding, bool *head)
{
    struct param_target t;
    *embedding = *head = false;
    for (size_t k = 0; k < f->n_module; k++) {
        const struct adapter_module *m = &f->module[k];
        const char                  *dot = strrchr(m->name, '.');
        if (is_embedding(s, m))
            *embedding = true;
        else if (s->model)
            *head |= adapter_resolve(s->model, m->name, &t) && t.segment->param->role == ROLE_EMBED;
        else
            *head |= !strcmp(dot ? dot + 1 : m->name, "lm_head");
    }
}

/* PEFT's pairs of an embedding and of its tied head change each its own use (adapt/bind.h), those of mlx-lm add up. */
static void refuse_tied(const struct sources *s, const struct convert_adapter *v, bool mlx, const struct log *log,
                        struct faults *faults)
{
    bool parted = false, added = false, embeddings = false, heads = false;
    for (size_t i = 0; i < s->n; i++) {
        bool embedding, head;
        find_tied(s, s->file[i], &embedding, &head);
        embedding = embedding && v[i].scale != 0;
        head = head && v[i].scale != 0;
        bool both = embedding && head && is_peft(s->file[i]);
        parted |= both;
        added |= (embedding || head) && !both;
        embeddings |= embedding;
        heads |= head;
    }
    if (!(mlx ? parted : embeddings && heads && added))
        return;
    if (s->model)
        faults_add(faults, ERR_UNSUPPORTED, "lm_head",
                   "pairs of the embedding and of the head that is tied to it mean something else in the new format");
    else
        log_warning(log, "pairs of an embedding and of a head mean something else in the new format where the two are "
                         "tied, which a model tells (-m)");
}

/* mlx-lm has other names for experts than PEFT, which only a model tells. */
static void warn_of_names(const struct sources *s, const struct members *l, const struct log *log)
{
    for (size_t i = 0; i < l->n && !s->model; i++)
        if (is_peft(l->v[i].file) && strstr(l->v[i].to.name, ".experts")) {
            log_warning(log, "%s keeps its names of experts, which mlx-lm does not know; with -m it gets mlx-lm's",
                        l->v[i].file->path);
            return;
        }
}

static int add_up(const struct sources *s, const struct convert_adapter *v, enum adapter_format format,
                  const struct lora_output *o, struct error *e)
{
    struct adapter_sum   sum = {.format = format, .base = base_of(s, o->log), .progress = o->progress, .ctx = o->ctx};
    struct adapter_part *parts = NULL;
    struct members       members = {0};
    struct faults        faults = {0};
    list_members(s, v, format == ADAPTER_FORMAT_MLX_LM, &members, &faults);
    if (format == ADAPTER_FORMAT_MLX_LM)
        warn_of_names(s, &members, o->log);
    int err = members.nomem ? error_nomem(e, "the adapter's modules") : 0;
    for (size_t i = 0; i < s->n; i++)
        adapter_sum_check(s->file[i], format, &faults);
    refuse_tied(s, v, format == ADAPTER_FORMAT_MLX_LM, o->log, &faults);
    if (members.n)
        qsort(members.v, members.n, sizeof *members.v, member_order);
    if (!err)
        err = make_sum(s, members.v, members.n, &sum, &parts, &faults, e);
    if (!err)
        err = faults_report(&faults, e);
    if (!err && !members.n)
        err = error_set(e, ERR_INVALID, NULL, "all scales are 0: nothing is left to write");
    if (!err)
        err = write_sum(s, &sum, o, e);
    faults_deinit(&faults);
    free(sum.module);
    free(parts);
    free(members.v);
    return err;
}

/* --- commands --------------------------------------------------------------------------------------------------- */

int lora_convert(const char *path, const char *format, const struct lora_output *o, struct error *e)
{
    struct convert_adapter v = {path, 1};
    struct sources         s = {0};
    bool                   peft = !strcmp(format, "peft");
    int                    err = sources_open(&s, &v, 1, o, e);
    if (!err && (peft ? is_peft(s.file[0]) : s.file[0]->format == ADAPTER_FORMAT_MLX_LM))
        err = error_set(e, ERR_INVALID, "to", "%s has %s's format already", path, peft ? "PEFT" : "mlx-lm");
    if (!err)
        err = add_up(&s, &v, peft ? ADAPTER_FORMAT_PEFT : ADAPTER_FORMAT_MLX_LM, o, e);
    sources_deinit(&s);
    return err;
}

static void refuse_dora(const struct sources *s, struct faults *faults)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->file[i]->n_module; k++)
            if (s->file[i]->module[k].magnitude)
                faults_add(faults, ERR_UNSUPPORTED, s->file[i]->module[k].name,
                           "%s: %s has DoRA, which does not add to other adapters", s->file[i]->path,
                           s->file[i]->module[k].spelled);
}

int lora_merge(const struct convert_adapter *v, size_t n, const char *format, const struct lora_output *o,
               struct error *e)
{
    struct sources s = {0};
    struct faults  faults = {0};
    bool           peft = true;
    int            err = sources_open(&s, v, n, o, e);
    if (!err) {
        refuse_dora(&s, &faults);
        err = faults_report(&faults, e);
    }
    for (size_t i = 0; i < s.n && !err; i++)
        peft = peft && is_peft(s.file[i]);
    peft = format ? !strcmp(format, "peft") : peft;
    if (!err)
        err = add_up(&s, v, peft ? ADAPTER_FORMAT_PEFT : ADAPTER_FORMAT_MLX_LM, o, e);
    faults_deinit(&faults);
    sources_deinit(&s);
    return err;
}
