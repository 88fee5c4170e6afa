/* See write.h. */
#include "adapt/write.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapt/bind.h"
#include "base/num.h"
#include "formats/safetensors.h"

#define NAMES_MAX ((size_t)512 << 20)

/* --- what cannot be said ---------------------------------------------------------------------------------------- */

static void refuse(struct faults *f, const struct adapter_file *a, const char *name, const char *what)
{
    faults_add(f, ERR_UNSUPPORTED, name, "%s: %s %s", a->path, name, what);
}

void adapter_sum_check(const struct adapter_file *f, enum adapter_format format, struct faults *faults)
{
    bool dora = f->n_module && f->module[0].magnitude;
    for (size_t i = 0; i < f->n_replace; i++)
        refuse(faults, f, f->replace[i].tensor->name, "replaces a parameter, which low-rank pairs cannot say");
    for (size_t i = 0; i < f->n_module; i++) {
        const struct adapter_module *m = &f->module[i];
        if (m->extra)
            refuse(faults, f, m->spelled, "brings a bias along, which only PEFT's own file can say");
        if (m->n_expert && format == ADAPTER_FORMAT_PEFT)
            refuse(faults, f, m->spelled, "has a pair for each expert, which is not written in PEFT's format");
        if (!m->magnitude != !dora)
            refuse(faults, f, m->spelled, "and other modules of the adapter are not all DoRA or all LoRA");
    }
    if (!f->n_module && !f->n_replace)
        refuse(faults, f, "the adapter", "has no pairs");
}

/* --- the sum's numbers ------------------------------------------------------------------------------------------ */

static bool concerns(const struct adapter_part *p, int64_t expert)
{
    return p->expert < 0 || p->expert == expert;
}

static int64_t rank_of(const struct adapter_sum_module *m)
{
    int64_t most = 0;
    for (int64_t k = 0; k < MAX(m->n_expert, 1); k++) {
        int64_t rank = 0;
        for (size_t i = 0; i < m->n_part; i++)
            rank += concerns(&m->part[i], k) ? m->part[i].module->rank : 0;
        most = MAX(most, rank);
    }
    return most;
}

static double total_of(const struct adapter_part *p)
{
    return p->module->scale * p->factor;
}

struct numbers {
    int64_t rank;  /* the greatest */
    double  scale; /* of all pairs */
    bool    fold;  /* their scales differ: they are in B */
};

static struct numbers numbers_of(const struct adapter_sum *s)
{
    struct numbers n = {.scale = total_of(&s->module[0].part[0])};
    for (size_t i = 0; i < s->n_module; i++) {
        const struct adapter_sum_module *m = &s->module[i];
        n.rank = MAX(n.rank, rank_of(m));
        for (size_t k = 0; k < m->n_part; k++)
            n.fold = n.fold || total_of(&m->part[k]) != n.scale;
    }
    n.scale = n.fold ? 1 : n.scale;
    return n;
}

/* --- config ----------------------------------------------------------------------------------------------------- */

/* The module's path inside its block for mlx-lm ("self_attn.q_proj"), its last component for PEFT. */
static const char *key_of(const struct adapter_sum *s, const char *name)
{
    const char *dot = strrchr(name, '.'), *layers = strstr(name, "layers.");
    if (s->format == ADAPTER_FORMAT_PEFT)
        return dot ? dot + 1 : name;
    const char *rest = layers ? strchr(layers + strlen("layers."), '.') : NULL;
    return rest ? rest + 1 : name;
}

/* The keys of all modules, sorted, each once. */
static json_t *keys_of(const struct adapter_sum *s)
{
    json_t     *seen = json_object(), *list = json_array();
    const char *key;
    json_t     *value;
    for (size_t i = 0; i < s->n_module; i++)
        json_object_set_new(seen, key_of(s, s->module[i].name), json_true());
    json_object_foreach(seen, key, value) json_array_append_new(list, json_string(key));
    json_decref(seen);
    return list;
}

static json_t *number(double v)
{
    return v == floor(v) && fabs(v) < 1e15 ? json_integer((json_int_t)v) : json_real(v);
}

static json_t *mlx_config(const struct adapter_sum *s, const struct numbers *n)
{
    bool    dora = s->module[0].part[0].module->magnitude;
    json_t *c = json_pack("{s:s, s:i, s:{s:I, s:f, s:f, s:o}}", "fine_tune_type", dora ? "dora" : "lora", "num_layers",
                          -1, "lora_parameters", "rank", (json_int_t)n->rank, "scale", n->scale, "dropout", 0.0, "keys",
                          keys_of(s));
    if (c && s->base)
        json_object_set_new(c, "model", json_string(s->base));
    return c;
}

static json_t *peft_config(const struct adapter_sum *s, const struct numbers *n)
{
    bool    dora = s->module[0].part[0].module->magnitude;
    json_t *ranks = json_object(), *alphas = json_object();
    for (size_t i = 0; i < s->n_module; i++) {
        int64_t rank = rank_of(&s->module[i]);
        if (rank != n->rank) {
            json_object_set_new(ranks, s->module[i].name, json_integer(rank));
            json_object_set_new(alphas, s->module[i].name, number(n->scale * (double)rank));
        }
    }
    json_t *c = json_pack("{s:s, s:s, s:I, s:o, s:b, s:b, s:b, s:b, s:f, s:s, s:n, s:o, s:o, s:o}", "peft_type", "LORA",
                          "task_type", "CAUSAL_LM", "r", (json_int_t)n->rank, "lora_alpha",
                          number(n->scale * (double)n->rank), "use_rslora", 0, "use_dora", (int)dora, "fan_in_fan_out",
                          0, "inference_mode", 1, "lora_dropout", 0.0, "bias", "none", "modules_to_save",
                          "target_modules", keys_of(s), "rank_pattern", ranks, "alpha_pattern", alphas);
    if (c)
        json_object_set_new(c, "base_model_name_or_path", s->base ? json_string(s->base) : json_null());
    return c;
}

static int write_config(const struct adapter_sum *s, const struct numbers *numbers, const struct dir_out *out,
                        struct error *e)
{
    json_t *c = s->format == ADAPTER_FORMAT_PEFT ? peft_config(s, numbers) : mlx_config(s, numbers);
    char   *text = c ? json_dumps(c, JSON_INDENT(4) | JSON_SORT_KEYS) : NULL;
    size_t  n = text ? strlen(text) : 0;
    if (text)
        text[n] = '\n'; /* in the place of its NUL */
    int err = text ? dir_out_write(out, "adapter_config.json", text, n + 1, e) : error_nomem(e, "adapter_config.json");
    free(text);
    json_decref(c);
    return err;
}

/* --- tensors ---------------------------------------------------------------------------------------------------- */

enum half { HALF_A, HALF_B, HALF_MAGNITUDE };

struct entry {
    struct tensor_view               view;
    const struct adapter_sum_module *m;
    enum half                        half; /* A [rank, inputs] or B [outputs, rank] */
    bool                             transposed;
    int64_t                          rank; /* with what is filled up */
};

static const char *entry_name(const struct adapter_sum *s, const struct adapter_sum_module *m, enum half half,
                              struct arena *a)
{
    static const char *const mlx[] = {".lora_a", ".lora_b", ".m"};
    static const char *const peft[] = {".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"};
    static const char *const embed[] = {".lora_embedding_B", ".lora_embedding_A", ""};
    bool                     is_peft = s->format == ADAPTER_FORMAT_PEFT;
    const char              *end = is_peft ? (m->embedding ? embed : peft)[half] : mlx[half];
    if (!is_peft && m->embedding && half != HALF_MAGNITUDE)
        end = mlx[half == HALF_A ? HALF_B : HALF_A]; /* lora_a has the rows of the embedding */
    return arena_printf(a, "%s%s%s", is_peft ? "base_model.model." : "", m->name, end);
}

static enum dtype entry_dtype(const struct adapter_sum_module *m, enum half half, const struct numbers *n)
{
    enum dtype found = DTYPE_NONE;
    if (half == HALF_MAGNITUDE)
        return m->part[0].module->magnitude->dtype;
    for (size_t i = 0; i < m->n_part; i++) {
        struct adapter_matrix a, b;
        adapter_module_pair(m->part[i].module, m->embedding, 0, &a, &b);
        enum dtype d = half == HALF_A ? a.dtype : b.dtype;
        found = found == DTYPE_NONE || found == d ? d : DTYPE_F32;
    }
    return half == HALF_B && n->fold ? DTYPE_F32 : found;
}

/* False when out of memory or beyond what a file can hold. */
static bool make_entry(const struct adapter_sum *s, const struct adapter_sum_module *m, enum half half,
                       const struct numbers *n, struct arena *names, struct entry *x)
{
    bool    peft = s->format == ADAPTER_FORMAT_PEFT;
    int64_t rank = peft ? rank_of(m) : n->rank;
    int64_t rows = half == HALF_A ? rank : m->n_out, cols = half == HALF_A ? m->n_in : rank;
    *x = (struct entry){.m = m, .half = half, .rank = rank};
    /* mlx-lm keeps [inputs, rank] and [rank, outputs], of an embedding [rows, rank] and [rank, features], of a stack
     * [rank, inputs] and [outputs, rank] for each expert; PEFT [rank, inputs] and [outputs, rank], of an embedding
     * [features, rank] and [rank, rows]. */
    x->transposed = half != HALF_MAGNITUDE && !m->n_expert && peft == m->embedding;
    x->view = (struct tensor_view){.name = entry_name(s, m, half, names), .dtype = entry_dtype(m, half, n)};
    int d = 0;
    if (m->n_expert)
        x->view.shape[d++] = m->n_expert;
    x->view.shape[d++] = x->transposed ? cols : rows;
    if (half != HALF_MAGNITUDE)
        x->view.shape[d++] = x->transposed ? rows : cols;
    x->view.n_dim = d;
    return x->view.name && dtype_bytes(x->view.dtype, x->view.shape, d, &x->view.size);
}

/* Wide types first, so that tensors are aligned; then by name. */
static int entry_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    size_t              p = dtype_size(x->view.dtype), q = dtype_size(y->view.dtype);
    return p != q ? (p < q ? 1 : -1) : strcmp(x->view.name, y->view.name);
}

/* One expert's matrix as float32, rows by rows: A [rank][inputs], B [outputs][rank]; v is zeroed. */
static void fill(const struct entry *x, int64_t expert, bool fold, float *v)
{
    int64_t at = 0;
    for (size_t i = 0; i < x->m->n_part; i++) {
        const struct adapter_part *p = &x->m->part[i];
        struct adapter_matrix      a, b;
        if (!concerns(p, expert))
            continue;
        adapter_module_pair(p->module, x->m->embedding, p->expert < 0 ? expert : 0, &a, &b);
        for (int64_t j = 0; x->half == HALF_A && j < a.n_row; j++)
            adapter_matrix_row(&a, j, v + (at + j) * a.n_col);
        for (int64_t o = 0; x->half == HALF_B && o < p->n_row; o++) {
            float *row = v + (p->row + o) * x->rank + at;
            adapter_matrix_row(&b, p->from + o * p->step, row);
            for (int64_t j = 0; fold && j < b.n_col; j++)
                row[j] *= (float)total_of(p);
        }
        at += a.n_row;
    }
}

static void transpose(const float *v, int64_t rows, int64_t cols, float *out)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            out[j * rows + i] = v[i * cols + j];
}

/* B times its scale may be beyond float32, or beyond what a reader takes. */
static int check_finite(const struct entry *x, const float *v, size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return error_set(e, ERR_INVALID, x->view.name, "%s: an element times its scale is %g, beyond float32",
                             x->view.name, (double)v[i]);
    return 0;
}

static int append(const struct entry *x, const struct numbers *n, struct safetensors_writer *w, struct error *e)
{
    const struct tensor_view  *t = &x->view;
    const struct adapter_part *first = x->m->part;
    if (x->half == HALF_MAGNITUDE)
        return safetensors_writer_append(
            w, (const char *)first->module->magnitude->data + (size_t)first->from * dtype_size(t->dtype), t->size, e);
    int64_t n_expert = MAX(x->m->n_expert, 1), rows = t->shape[t->n_dim - 2], cols = t->shape[t->n_dim - 1];
    size_t  size = (size_t)(rows * cols);
    float  *v = calloc(2 * size + 1, sizeof *v);
    int     err = 0;
    if (!v)
        return error_nomem(e, t->name);
    for (int64_t k = 0; k < n_expert && !err; k++) {
        memset(v, 0, size * sizeof *v);
        fill(x, k, n->fold, v);
        err = check_finite(x, v, size, e);
        if (x->transposed)
            transpose(v, cols, rows, v + size);
        quant_narrow(t->dtype, x->transposed ? v + size : v, (int64_t)size, v + size);
        if (!err)
            err = safetensors_writer_append(w, v + size, size * dtype_size(t->dtype), e);
    }
    free(v);
    return err;
}

static int list_entries(const struct adapter_sum *s, const struct numbers *n, struct arena *names, struct entry **out,
                        size_t *count, struct error *e)
{
    struct entry *list = calloc(s->n_module, 3 * sizeof *list);
    bool          ok = list;
    *count = 0;
    for (size_t i = 0; i < s->n_module && ok; i++)
        for (int h = HALF_A; h <= HALF_MAGNITUDE && ok; h++)
            if (h != HALF_MAGNITUDE || s->module[i].part[0].module->magnitude)
                ok = make_entry(s, &s->module[i], (enum half)h, n, names, &list[(*count)++]);
    if (ok)
        qsort(list, *count, sizeof *list, entry_order);
    *out = list;
    return ok ? 0 : error_nomem(e, "the adapter's tensors");
}

static int tell_progress(const struct adapter_sum *s, size_t done, size_t total, struct error *e)
{
    if (!s->progress || s->progress(s->ctx, done, total))
        return 0;
    return error_set(e, ERR_CANCELLED, NULL, "interrupted");
}

static int write_tensors(const struct adapter_sum *s, const struct numbers *n, struct entry *list, size_t count,
                         const char *path, struct error *e)
{
    static const char *const   pt[] = {"format", "pt", NULL};
    struct safetensors_writer *w = NULL;
    struct tensor_view        *views = malloc((count + 1) * sizeof *views);
    size_t                     done = 0, total = 0;
    for (size_t i = 0; i < count && views; i++) {
        views[i] = list[i].view;
        total += views[i].size;
    }
    int err =
        views ? safetensors_writer_begin(&w, path, views, count, s->format == ADAPTER_FORMAT_PEFT ? pt : NULL, false, e)
              : error_nomem(e, "the adapter's tensors");
    for (size_t i = 0; i < count && !err; i++) {
        err = append(&list[i], n, w, e);
        done += list[i].view.size;
        if (!err)
            err = tell_progress(s, done, total, e);
    }
    free(views);
    if (!err)
        return safetensors_writer_finish(w, e);
    safetensors_writer_abort(w);
    return err;
}

int adapter_sum_write(const struct adapter_sum *s, const struct dir_out *out, struct error *e)
{
    struct numbers n = numbers_of(s);
    struct arena   names;
    struct entry  *list = NULL;
    size_t         count;
    char           path[PATH_MAX];
    arena_init(&names, NAMES_MAX);
    int err = fabs(n.scale) <= (double)FLT_MAX
                  ? 0
                  : error_set(e, ERR_INVALID, "scale", "the scale of the sum is %g, beyond float32", n.scale);
    if (!err)
        err = dir_out_file(out, s->format == ADAPTER_FORMAT_PEFT ? "adapter_model.safetensors" : "adapters.safetensors",
                           path, e);
    if (!err)
        err = list_entries(s, &n, &names, &list, &count, e);
    if (!err)
        err = write_tensors(s, &n, list, count, path, e);
    if (!err)
        err = write_config(s, &n, out, e);
    free(list);
    arena_deinit(&names);
    return err;
}
