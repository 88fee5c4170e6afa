/* See registry.h. */
#include "api/registry.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

#define NAME_MAX_BYTES 256

struct entry {
    int             id;
    char           *name, *path;
    float           scale, load_scale;
    bool            fused;
    struct adapter *adapter; /* NULL when fused */
};

struct registry {
    const struct model *model;
    struct cpu_options  prepare_options;
    struct backend     *prepare; /* made for the first adapter; used by the one thread that loads */
    pthread_mutex_t     loading; /* one adapter at a time */
    pthread_mutex_t     lock;    /* guards what follows; never held for long */
    struct entry       *v;       /* ids ascend */
    size_t              n, cap;
    int                 next_id;
    struct adapter_set *defaults; /* of the default scales; NULL: the base alone */
};

int registry_new(struct registry **out, const struct model *m, const struct backend *backend, struct error *e)
{
    struct registry *r = calloc(1, sizeof *r);
    if (!r)
        return error_nomem(e, "the list of adapters");
    r->model = m;
    r->prepare_options = (struct cpu_options){
        .threads = 1, .level = (int)cpu_backend_level(backend), .precision = cpu_backend_precision(backend)};
    pthread_mutex_init(&r->loading, NULL);
    pthread_mutex_init(&r->lock, NULL);
    *out = r;
    return 0;
}

static void entry_deinit(struct entry *x)
{
    adapter_unref(x->adapter);
    free(x->name);
    free(x->path);
}

void registry_free(struct registry *r)
{
    if (!r)
        return;
    adapter_set_unref(r->defaults);
    for (size_t i = 0; i < r->n; i++)
        entry_deinit(&r->v[i]);
    free(r->v);
    if (r->prepare)
        r->prepare->free(r->prepare);
    pthread_mutex_destroy(&r->loading);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- with the lock held ---- */

static struct entry *find(const struct registry *r, int id)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].id == id)
            return &r->v[i];
    return NULL;
}

static struct entry *find_name(const struct registry *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++)
        if (!strcmp(r->v[i].name, name))
            return &r->v[i];
    return NULL;
}

/* The set of all entries but `without`, each with its scale (of scale[], or NULL: the default). */
static int combine(const struct registry *r, const float *scale, const struct entry *without, struct adapter_set **set,
                   struct error *e)
{
    struct adapter_use *use = malloc((r->n + 1) * sizeof *use);
    int                 n = 0;
    if (!use)
        return error_nomem(e, "a set of adapters");
    for (size_t i = 0; i < r->n; i++)
        if (&r->v[i] != without && !r->v[i].fused)
            use[n++] = (struct adapter_use){r->v[i].adapter, scale ? scale[i] : r->v[i].scale};
    int err = adapter_set_new(set, use, n, e);
    free(use);
    return err;
}

static void set_defaults(struct registry *r, struct adapter_set *set)
{
    adapter_set_unref(r->defaults);
    r->defaults = set;
}

/* Takes an entry off the list; it is the caller's then. */
static struct entry take_off(struct registry *r, struct entry *x)
{
    struct entry taken = *x;
    memmove(x, x + 1, (--r->n - (size_t)(x - r->v)) * sizeof *x);
    return taken;
}

/* Scales of every entry, 0 for those that v[0, n) leaves out. */
static int read_scales(const struct registry *r, const struct mlxcel_lora *v, size_t n, float *scale, struct error *e)
{
    for (size_t i = 0; i < r->n; i++)
        scale[i] = NAN; /* not named yet */
    for (size_t i = 0; i < n; i++) {
        const struct entry *x = find(r, v[i].id);
        if (!x)
            return error_set(e, ERR_INVALID, "lora", "there is no adapter with the id %d", v[i].id);
        if (!isfinite(v[i].scale))
            return error_set(e, ERR_INVALID, "lora", "the scale of adapter %d (%s) is not a finite number", x->id,
                             x->name);
        if (!isnan(scale[x - r->v]))
            return error_set(e, ERR_INVALID, "lora", "adapter %d (%s) is named twice", x->id, x->name);
        scale[x - r->v] = v[i].scale;
    }
    for (size_t i = 0; i < r->n; i++) {
        scale[i] = isnan(scale[i]) ? 0 : scale[i];
        if (r->v[i].fused && scale[i] != r->v[i].scale)
            return error_set(e, ERR_INVALID, "lora", "adapter %d (%s) is fused into the weights: its scale stays %g",
                             r->v[i].id, r->v[i].name, (double)r->v[i].scale);
    }
    return 0;
}

static int choose(const struct registry *r, const struct mlxcel_lora *v, size_t n, float **scale,
                  struct adapter_set **set, struct error *e)
{
    *scale = malloc((r->n + 1) * sizeof **scale);
    int err = *scale ? read_scales(r, v, n, *scale, e) : error_nomem(e, "a set of adapters");
    return err ? err : combine(r, *scale, NULL, set, e);
}

/* ---- loading ---- */

static int check_name(const char *name, struct error *e)
{
    size_t n = strlen(name);
    if (n && n <= NAME_MAX_BYTES)
        return 0;
    return error_set(e, ERR_INVALID, "lora_name", "the name of an adapter has 1 to %d bytes, not %zu", NAME_MAX_BYTES,
                     n);
}

static int check_source(struct registry *r, const struct mlxcel_lora_source *s, struct error *e)
{
    int err = 0;
    if (!s->path || !s->path[0])
        return error_set(e, ERR_INVALID, "lora_path", "an adapter needs a path");
    if (!isfinite(s->scale))
        return error_set(e, ERR_INVALID, "scale", "the scale of adapter %s is not a finite number", s->path);
    if (!s->name)
        return 0;
    pthread_mutex_lock(&r->lock);
    err = check_name(s->name, e);
    if (!err && !s->replace && find_name(r, s->name))
        err = error_set(e, ERR_INVALID, "lora_name", "an adapter named %s is loaded already", s->name);
    pthread_mutex_unlock(&r->lock);
    return err;
}

/* A name for an adapter that was given none. */
static char *make_name(const struct registry *r, const char *path, int id)
{
    size_t n = strlen(path), size;
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t first = n;
    while (first > 0 && path[first - 1] != '/')
        first--;
    n = MIN(n - first, (size_t)NAME_MAX_BYTES);
    size = n + 16;
    char *name = malloc(size);
    if (!name)
        return NULL;
    snprintf(name, size, "%.*s", (int)n, path + first);
    for (int k = id; find_name(r, name); k++)
        snprintf(name + n, size - n, "-%d", k);
    return name;
}

/* An entry for the adapter, whose reference it takes in any case; of the id `id`. */
static int make_entry(const struct registry *r, const struct mlxcel_lora_source *s, struct adapter *a, int id,
                      struct entry *x, struct error *e)
{
    float scale = s->scale == 0 ? 1 : s->scale;
    *x = (struct entry){.id = id,
                        .adapter = a,
                        .fused = s->fuse,
                        .scale = s->idle ? 0 : scale,
                        .load_scale = scale,
                        .path = strdup(s->path)};
    x->name = s->name ? strdup(s->name) : make_name(r, s->path, id);
    return x->path && x->name ? 0 : error_nomem(e, "the list of adapters");
}

/* Moves *x to the end of the list. */
static int put_last(struct registry *r, struct entry *x, struct adapter_set **set, struct error *e)
{
    if (r->next_id == INT_MAX)
        return error_set(e, ERR_LIMIT, NULL, "too many adapters were loaded");
    if (r->n == r->cap) {
        struct entry *v = realloc(r->v, (r->n * 2 + 8) * sizeof *v);
        if (!v)
            return error_nomem(e, "the list of adapters");
        r->v = v;
        r->cap = r->n * 2 + 8;
    }
    r->v[r->n++] = *x;
    int err = combine(r, NULL, NULL, set, e);
    r->n -= err != 0;
    if (err)
        return err;
    r->next_id++;
    *x = (struct entry){0};
    return 0;
}

/* Swaps *x with the entry at `at`, which keeps its id and its default scale. */
static int put_in_place(struct registry *r, struct entry *at, struct entry *x, struct adapter_set **set,
                        struct error *e)
{
    struct entry old = *at;
    x->id = old.id;
    x->scale = old.scale;
    *at = *x;
    int err = combine(r, NULL, NULL, set, e);
    if (err)
        *at = old;
    else
        *x = old;
    return err;
}

/* Puts an adapter, whose reference it takes in any case, on the list. */
static int put_on(struct registry *r, const struct mlxcel_lora_source *s, struct adapter *a, int *id, struct error *e)
{
    struct adapter_set *set = NULL;
    struct entry        x;
    pthread_mutex_lock(&r->lock);
    struct entry *old = s->replace && s->name ? find_name(r, s->name) : NULL;
    int           err = make_entry(r, s, a, r->next_id, &x, e);
    if (!err && old && old->fused)
        err = error_set(e, ERR_INVALID, "lora_name", "adapter %d (%s) is fused into the weights and stays", old->id,
                        old->name);
    if (!err)
        err = old ? put_in_place(r, old, &x, &set, e) : put_last(r, &x, &set, e);
    if (!err)
        set_defaults(r, set);
    if (!err && id)
        *id = old ? old->id : r->next_id - 1;
    pthread_mutex_unlock(&r->lock);
    entry_deinit(&x); /* what was refused or replaced */
    return err;
}

int registry_load(struct registry *r, const struct mlxcel_lora_source *s, const struct log *log, int *id,
                  struct error *e)
{
    struct adapter *a = NULL;
    pthread_mutex_lock(&r->loading);
    int err = check_source(r, s, e);
    if (!err && !s->fuse && !r->prepare)
        err = cpu_backend_new(&r->prepare, &r->prepare_options, e);
    if (!err && !s->fuse)
        err = adapter_load(&a, s->path, r->model, r->prepare, log, e);
    if (!err)
        err = put_on(r, s, a, id, e);
    pthread_mutex_unlock(&r->loading);
    return err;
}

int registry_load_all(struct registry *r, const struct mlxcel_lora_source *source, size_t n, const struct log *log,
                      struct error *e)
{
    struct faults faults = {0};
    struct error  fault;
    for (size_t i = 0; i < n; i++) {
        const char *path = source[i].path ? source[i].path : "";
        if (!registry_load(r, &source[i], log, NULL, &fault))
            continue;
        if (n == 1)
            faults_add(&faults, fault.code, path, "%s", fault.msg);
        else /* files of adapters have the same names */
            faults_add(&faults, fault.code, path, "%s: %s", path, fault.msg);
    }
    int err = faults_report(&faults, e);
    faults_deinit(&faults);
    return err;
}

/* ---- the list ---- */

int registry_unload(struct registry *r, int id, struct error *e)
{
    struct adapter_set *set = NULL;
    struct entry        taken = {0};
    int                 err;
    pthread_mutex_lock(&r->lock);
    struct entry *x = find(r, id);
    if (!x)
        err = error_set(e, ERR_NOT_FOUND, "id", "there is no adapter with the id %d", id);
    else if (x->fused)
        err = error_set(e, ERR_INVALID, "id", "adapter %d (%s) is fused into the weights and stays", id, x->name);
    else
        err = combine(r, NULL, x, &set, e);
    if (!err) {
        set_defaults(r, set);
        taken = take_off(r, x);
    }
    pthread_mutex_unlock(&r->lock);
    entry_deinit(&taken); /* which may give much memory back: nobody waits for that */
    return err;
}

int registry_set_scales(struct registry *r, const struct mlxcel_lora *v, size_t n, struct error *e)
{
    struct adapter_set *set = NULL;
    float              *scale;
    pthread_mutex_lock(&r->lock);
    int err = choose(r, v, n, &scale, &set, e);
    for (size_t i = 0; i < r->n && !err; i++)
        r->v[i].scale = scale[i];
    if (!err)
        set_defaults(r, set);
    pthread_mutex_unlock(&r->lock);
    free(scale);
    return err;
}

int registry_choose(struct registry *r, const struct mlxcel_lora *v, size_t n, struct adapter_set **set,
                    struct error *e)
{
    float *scale = NULL;
    int    err = 0;
    pthread_mutex_lock(&r->lock);
    if (v)
        err = choose(r, v, n, &scale, set, e);
    else {
        *set = r->defaults;
        adapter_set_ref(*set);
    }
    pthread_mutex_unlock(&r->lock);
    free(scale);
    return err;
}

static struct adapter_info info_of(const struct entry *x)
{
    struct adapter_info i = {.format = "", .kind = ""};
    if (x->adapter)
        adapter_get_info(x->adapter, &i);
    return i;
}

/* Copies a text behind the list. */
static const char *keep(char **at, const char *text)
{
    char *copy = *at;
    *at = stpcpy(copy, text) + 1;
    return copy;
}

int registry_list(struct registry *r, struct mlxcel_lora_info **list, size_t *n, struct error *e)
{
    pthread_mutex_lock(&r->lock);
    size_t size = (r->n + 1) * sizeof **list;
    for (size_t i = 0; i < r->n; i++)
        size += strlen(r->v[i].name) + strlen(r->v[i].path) + 2;
    struct mlxcel_lora_info *out = malloc(size);
    char                    *text = out ? (char *)(out + r->n + 1) : NULL;
    *n = r->n;
    for (size_t i = 0; out && i < r->n; i++) {
        const struct entry *x = &r->v[i];
        struct adapter_info a = info_of(x);
        out[i] = (struct mlxcel_lora_info){.id = x->id,
                                           .name = keep(&text, x->name),
                                           .path = keep(&text, x->path),
                                           .scale = x->scale,
                                           .load_scale = x->load_scale,
                                           .fused = x->fused,
                                           .format = a.format, /* constants */
                                           .kind = a.kind,
                                           .rank_min = a.rank_min,
                                           .rank_max = a.rank_max,
                                           .n_module = a.n_module,
                                           .n_parameter = a.n_parameter,
                                           .bytes = (int64_t)a.bytes};
    }
    pthread_mutex_unlock(&r->lock);
    *list = out;
    return out ? 0 : error_nomem(e, "the list of adapters");
}

size_t registry_bytes(struct registry *r)
{
    size_t bytes = 0;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n; i++)
        bytes += info_of(&r->v[i]).bytes;
    pthread_mutex_unlock(&r->lock);
    return bytes;
}
