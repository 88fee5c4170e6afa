/* Roots, names and resolution; contracts in store.h. */
#include "hub/store.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/utf8.h"

#define COMPONENT_MAX 96

/* ---- paths ---- */

static bool join(char out[PATH_MAX], const char *dir, const char *rest)
{
    return snprintf(out, PATH_MAX, "%s/%s", dir, rest) < PATH_MAX;
}

static bool has_config(const char *dir)
{
    char        path[PATH_MAX];
    struct stat st;
    return join(path, dir, "config.json") && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The first of the variables that is set and not empty gives out = its value + "/" + its suffix; HOME is the last. */
static int root_from_env(char out[PATH_MAX], const char *const vars[][2], struct error *e)
{
    out[0] = '\0';
    for (; (*vars)[0]; vars++) {
        const char *value = getenv((*vars)[0]), *suffix = (*vars)[1];
        if (!value || !*value)
            continue;
        if (snprintf(out, PATH_MAX, "%s%s%s", value, *suffix ? "/" : "", suffix) >= PATH_MAX)
            return error_set(e, ERR_LIMIT, (*vars)[0], "the environment variable %s is longer than a path may be",
                             (*vars)[0]);
        return 0;
    }
    return 0;
}

int store_roots_from_env(struct store_roots *r, struct error *e)
{
    static const char *const own[][2] = {{"MLXCEL_CACHE_DIR", ""}, {"HOME", ".cache/mlxcel"}, {NULL, NULL}};
    static const char *const hugging_face[][2] = {
        {"HF_HUB_CACHE", ""}, {"HF_HOME", "hub"}, {"HOME", ".cache/huggingface/hub"}, {NULL, NULL}};
    int rc = root_from_env(r->own, own, e);
    return rc ? rc : root_from_env(r->hugging_face, hugging_face, e);
}

/* ---- names ---- */

static bool component_ok(const char *p, size_t n)
{
    uint32_t cp;
    int      len;
    if (n == 0 || n > COMPONENT_MAX || *p == '.')
        return false;
    for (size_t i = 0; i < n; i += (size_t)len) {
        len = utf8_decode(p + i, n - i, &cp);
        if (len <= 0 || cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == '/' || cp == '\\')
            return false;
    }
    return true;
}

bool store_name_ok(const char *name)
{
    const char *slash = strchr(name, '/');
    if (!slash)
        return component_ok(name, strlen(name));
    return component_ok(name, (size_t)(slash - name)) && component_ok(slash + 1, strlen(slash + 1));
}

bool store_hugging_face_snapshot(const char *repository, char out[PATH_MAX])
{
    char  path[PATH_MAX], revision[COMPONENT_MAX + 2];
    FILE *f = join(path, repository, "refs/main") ? fopen(path, "re") : NULL;
    if (!f)
        return false;
    size_t n = fread(revision, 1, sizeof revision - 1, f);
    fclose(f);
    while (n && isspace((unsigned char)revision[n - 1]))
        n--;
    revision[n] = '\0';
    if (!component_ok(revision, n))
        return false;
    return snprintf(out, PATH_MAX, "%s/snapshots/%s", repository, revision) < PATH_MAX && has_config(out);
}

static bool find_own(const struct store_roots *r, const char *name, char out[PATH_MAX])
{
    return *r->own && join(out, r->own, name) && has_config(out);
}

static bool find_hugging_face(const struct store_roots *r, const char *name, char out[PATH_MAX])
{
    char        repository[PATH_MAX];
    const char *slash = strchr(name, '/');
    int         owner = slash ? (int)(slash - name) : 0;
    int n = snprintf(repository, PATH_MAX, "%s/models--%.*s%s%s", r->hugging_face, owner, name, slash ? "--" : "",
                     slash ? slash + 1 : name);
    return *r->hugging_face && n < PATH_MAX && store_hugging_face_snapshot(repository, out);
}

/* ---- resolution ---- */

/* Appends the known name that is nearest to `model`: as a whole, or its part after the slash. True when there is one. */
static bool suggest(const struct store_roots *r, const char *model, struct buf *text)
{
    struct store_list l;
    const char      **names;
    const char       *slash = strrchr(model, '/'), *near;
    if (store_list(r, &l, NULL))
        return false;
    names = calloc(l.n + 1, sizeof *names);
    for (size_t i = 0; names && i < l.n; i++)
        names[i] = l.v[i].name;
    near = names ? opt_nearest(model, names, l.n) : NULL;
    for (size_t i = 0; names && !near && i < l.n; i++) {
        const char *base = strrchr(names[i], '/'), *last = base ? base + 1 : names[i];
        if (opt_nearest(slash ? slash + 1 : model, &last, 1) || strcasestr(last, slash ? slash + 1 : model))
            near = names[i];
    }
    if (near)
        buf_printf(text, "; did you mean '%s'?", near);
    else if (l.n)
        buf_printf(text, "; `mlxcel list` shows the %zu model%s that %s there", l.n, l.n == 1 ? "" : "s",
                   l.n == 1 ? "is" : "are");
    bool found = near != NULL;
    free(names);
    store_list_deinit(&l);
    return found;
}

/* Appends how a model of the hub gets here, unless `model` cannot be one. */
static void suggest_download(const char *model, struct buf *text)
{
    if (store_name_ok(model))
        buf_printf(text, "; `hf download %s%s` gets a model of Hugging Face's hub into that cache",
                   strchr(model, '/') ? "" : "OWNER/", model);
}

static int not_found(const struct store_roots *r, const char *model, struct error *e)
{
    struct buf text;
    buf_init(&text, ERROR_MSG_MAX);
    buf_printf(&text, "no directory of that name, not in the store %s, not in the Hugging Face cache %s",
               *r->own ? r->own : "(HOME is not set)", *r->hugging_face ? r->hugging_face : "(HOME is not set)");
    if (strcmp(model, STORE_DEFAULT_MODEL) == 0)
        buf_puts(&text, "; tools/get-default-model of the sources puts it into the store");
    else if (!suggest(r, model, &text) || strchr(model, '/'))
        suggest_download(model, &text);
    int rc = error_set(e, ERR_NOT_FOUND, "model", "model '%s' was not found: %s", model, buf_cstr(&text));
    buf_deinit(&text);
    return rc;
}

/* What a path that is no directory is. */
static int not_a_directory(const char *model, struct error *e)
{
    size_t n = strlen(model);
    if (n > 5 && strcasecmp(model + n - 5, ".gguf") == 0)
        return error_set(e, ERR_INVALID, "model",
                         "'%s' is a GGUF file, a model is a directory; make one with: mlxcel convert %s -o DIR", model,
                         model);
    return error_set(e, ERR_INVALID, "model",
                     "'%s' is a file, a model is a directory with config.json and safetensors files", model);
}

int store_resolve(const struct store_roots *r, const char *model, char **path, struct error *e)
{
    char        found[PATH_MAX];
    struct stat st;
    bool        exists = stat(model, &st) == 0, dir = exists && S_ISDIR(st.st_mode);
    bool        as_path = *model == '/' || *model == '.';
    const char *hit = NULL;
    if (!*model)
        return error_set(e, ERR_INVALID, "model", "the model's name is empty");
    if (!as_path && !(dir && has_config(model)) && store_name_ok(model) &&
        (find_own(r, model, found) || find_hugging_face(r, model, found)))
        hit = found;
    else if (dir) /* perhaps not complete, but what was meant */
        hit = model;
    else if (exists)
        return not_a_directory(model, e);
    else if (as_path)
        return error_set(e, ERR_NOT_FOUND, "model", "model directory '%s' does not exist", model);
    else if (!store_name_ok(model) && !strchr(model, '/'))
        return error_set(e, ERR_INVALID, "model", "'%.200s' is not a model's name", model);
    if (!hit)
        return not_found(r, model, e);
    *path = strdup(hit);
    return *path ? 0 : error_nomem(e, "the model's path");
}
