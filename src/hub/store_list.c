/* Walking the roots for `mlxcel list`; contracts in store.h. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/num.h"
#include "hub/store.h"

#define ENTRIES_MAX 10000
#define CONFIG_MAX ((size_t)16 << 20)

void store_list_deinit(struct store_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->v[i].name);
        free(l->v[i].path);
        free(l->v[i].model_type);
    }
    free(l->v);
    *l = (struct store_list){0};
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Sums the regular files of a directory (links are followed, as the cache's snapshots are links). False unless
 * config.json and a safetensors file are among them. */
static bool measure(const char *dir, int64_t *bytes)
{
    DIR *d = opendir(dir);
    bool config = false, weights = false;
    *bytes = 0;
    if (!d)
        return false;
    for (struct dirent *f; (f = readdir(d));) {
        struct stat st;
        if (fstatat(dirfd(d), f->d_name, &st, 0) || !S_ISREG(st.st_mode) ||
            !num_add(*bytes, (int64_t)st.st_size, bytes))
            continue;
        config |= strcmp(f->d_name, "config.json") == 0;
        weights |= ends_with(f->d_name, ".safetensors");
    }
    closedir(d);
    return config && weights;
}

/* The top-level string model_type of a config's text; "" when there is none. To be freed; NULL when out of memory. */
static char *model_type_of(const char *text, size_t n)
{
    struct json     j;
    enum json_token t;
    char           *found = NULL;
    json_init(&j, text, n);
    if (json_next(&j) == JSON_OBJECT) {
        while (!found && json_next(&j) == JSON_KEY) {
            bool wanted = str_is(j.text, "model_type");
            t = json_next(&j);
            if (wanted && t == JSON_STRING)
                found = strndup(j.text.p, j.text.n);
            else if (!json_skip(&j, t))
                break;
        }
    }
    json_deinit(&j);
    return found ? found : strdup("");
}

static char *read_model_type(const char *dir)
{
    char        path[PATH_MAX];
    struct stat st;
    char       *text = NULL, *type = NULL;
    FILE       *f = snprintf(path, sizeof path, "%s/config.json", dir) < PATH_MAX ? fopen(path, "re") : NULL;
    if (!f)
        return strdup("");
    if (fstat(fileno(f), &st) == 0 && st.st_size > 0 && (size_t)st.st_size <= CONFIG_MAX &&
        (text = malloc((size_t)st.st_size)))
        type = model_type_of(text, fread(text, 1, (size_t)st.st_size, f));
    free(text);
    fclose(f);
    return type ? type : strdup("");
}

/* 0 also when the directory holds no model. */
static int add(struct store_list *l, const char *name, const char *dir, struct error *e)
{
    int64_t bytes;
    if (l->n >= ENTRIES_MAX || !store_name_ok(name) || !measure(dir, &bytes))
        return 0;
    if (l->n == l->cap) {
        size_t              cap = l->cap ? l->cap * 2 : 16;
        struct store_entry *v = realloc(l->v, cap * sizeof *v);
        if (!v)
            return error_nomem(e, "the list of models");
        l->v = v;
        l->cap = cap;
    }
    struct store_entry *x = &l->v[l->n++];
    *x = (struct store_entry){
        .name = strdup(name), .path = strdup(dir), .bytes = bytes, .model_type = read_model_type(dir)};
    return x->name && x->path && x->model_type ? 0 : error_nomem(e, "the list of models");
}

/* Our store below dir: models, and (at the top, where owner is NULL) owners with models. */
static int walk_own(struct store_list *l, const char *dir, const char *owner, struct error *e)
{
    DIR *d = opendir(dir);
    int  rc = 0;
    for (struct dirent *f; !rc && d && (f = readdir(d));) {
        char name[PATH_MAX], path[PATH_MAX];
        if (*f->d_name == '.' || snprintf(path, sizeof path, "%s/%s", dir, f->d_name) >= PATH_MAX ||
            snprintf(name, sizeof name, "%s%s%s", owner ? owner : "", owner ? "/" : "", f->d_name) >= PATH_MAX)
            continue;
        size_t before = l->n;
        rc = add(l, name, path, e);
        if (!rc && !owner && l->n == before)
            rc = walk_own(l, path, name, e);
    }
    if (d)
        closedir(d);
    return rc;
}

static int walk_hugging_face(struct store_list *l, const char *root, struct error *e)
{
    DIR *d = opendir(root);
    int  rc = 0;
    for (struct dirent *f; !rc && d && (f = readdir(d));) {
        char        name[PATH_MAX], path[PATH_MAX], snapshot[PATH_MAX];
        const char *repository = f->d_name + strlen("models--");
        if (strncmp(f->d_name, "models--", strlen("models--")) != 0 ||
            snprintf(path, sizeof path, "%s/%s", root, f->d_name) >= PATH_MAX ||
            !store_hugging_face_snapshot(path, snapshot))
            continue;
        const char *dashes = strstr(repository, "--");
        int         owner = dashes ? (int)(dashes - repository) : 0;
        snprintf(name, sizeof name, "%.*s%s%s", owner, repository, dashes ? "/" : "", dashes ? dashes + 2 : repository);
        rc = add(l, name, snapshot, e);
    }
    if (d)
        closedir(d);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    const struct store_entry *x = a, *y = b;
    int                       c = strcmp(x->name, y->name);
    return c ? c : strcmp(x->path, y->path);
}

int store_list(const struct store_roots *r, struct store_list *l, struct error *e)
{
    *l = (struct store_list){0};
    int rc = *r->own ? walk_own(l, r->own, NULL, e) : 0;
    if (!rc && *r->hugging_face)
        rc = walk_hugging_face(l, r->hugging_face, e);
    if (rc)
        store_list_deinit(l);
    else if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_name);
    return rc;
}
