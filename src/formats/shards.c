/* Finding the shards: the index's list, the directory's list, and what to do when they differ. */
#include "formats/shards.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/num.h"

#define PATTERN "model*.safetensors"
#define INDEX_SIZE_MAX ((size_t)100000000)
#define TEXTS_MAX ((size_t)16 << 20)

/* Adds a name in its place, unless it is there already. */
static int add(struct shards *s, struct str name, const char *where, struct error *e)
{
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int    c = strncmp(s->names[mid], name.p, name.n);
        if (c == 0 && !s->names[mid][name.n])
            return 0;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (s->n == SHARDS_MAX)
        return error_set(e, ERR_LIMIT, NULL, "%s names more than %d weight files", where, SHARDS_MAX);
    if (s->n == s->cap) {
        size_t       cap = s->cap ? s->cap * 2 : 16;
        const char **v = realloc(s->names, cap * sizeof *v);
        if (!v)
            return error_nomem(e, "the list of weight files");
        s->names = v;
        s->cap = cap;
    }
    const char *copy = arena_strdup(&s->texts, name.p, name.n);
    if (!copy)
        return error_nomem(e, "the list of weight files");
    memmove(s->names + lo + 1, s->names + lo, (s->n - lo) * sizeof *s->names);
    s->names[lo] = copy;
    s->n++;
    return 0;
}

/* Is it the plain name of a file in the directory? An index must not lead us elsewhere. */
static bool plain_name(struct str t)
{
    return t.n > 0 && t.n <= 255 && !memchr(t.p, '/', t.n) && !memchr(t.p, '\0', t.n) && !str_is(t, ".") &&
           !str_is(t, "..");
}

/* The object at the reader: tensor name -> file name. */
static int read_map(struct shards *s, struct json *j, const char *name, struct error *e)
{
    enum json_token t;
    while ((t = json_next(j)) == JSON_KEY) {
        char tensor[256];
        snprintf(tensor, sizeof tensor, STR_FMT, STR_ARG(j->text));
        t = json_next(j);
        if (t == JSON_ERROR)
            break;
        if (t != JSON_STRING)
            return error_set(e, ERR_FORMAT, tensor, "%s: weight_map places '%s' in %s, a file name is needed", name,
                             tensor, json_token_name(t));
        if (!plain_name(j->text))
            return error_set(e, ERR_FORMAT, tensor, "%s: weight_map places '%s' in '%.*s', which is no plain file name",
                             name, tensor, (int)MIN(j->text.n, (size_t)255), j->text.p);
        int status = add(s, j->text, name, e);
        if (status)
            return status;
    }
    return t == JSON_ERROR ? json_fault(j, e, name) : 0;
}

static int read_index(struct shards *s, struct json *j, const char *name, struct error *e)
{
    bool            found = false;
    enum json_token t = json_next(j);
    if (t != JSON_OBJECT)
        return t == JSON_ERROR
                   ? json_fault(j, e, name)
                   : error_set(e, ERR_FORMAT, NULL, "%s is %s, an object is needed", name, json_token_name(t));
    while ((t = json_next(j)) == JSON_KEY) {
        bool map = str_is(j->text, "weight_map");
        if (map && found)
            return error_set(e, ERR_FORMAT, NULL, "%s has two weight_map objects", name);
        t = json_next(j);
        if (map && t != JSON_OBJECT && t != JSON_ERROR)
            return error_set(e, ERR_FORMAT, NULL, "%s: weight_map is %s, an object is needed", name,
                             json_token_name(t));
        if (!map) {
            json_skip(j, t);
            continue;
        }
        found = true;
        int status = read_map(s, j, name, e);
        if (status)
            return status;
    }
    if (t == JSON_ERROR || json_next(j) != JSON_EOF)
        return json_fault(j, e, name);
    if (!found)
        return error_set(e, ERR_FORMAT, NULL, "%s has no weight_map", name);
    return 0;
}

int shards_parse_index(struct shards *s, const char *p, size_t n, const char *name, struct error *e)
{
    struct json j;
    *s = (struct shards){0};
    arena_init(&s->texts, TEXTS_MAX);
    json_init(&j, p, n);
    int status = read_index(s, &j, name, e);
    json_deinit(&j);
    if (status)
        shards_deinit(s);
    return status;
}

/* Adds every model*.safetensors of the directory. */
static int list_directory(struct shards *s, const char *dir, struct error *e)
{
    struct dirent *entry;
    int            status = 0;
    DIR           *d = opendir(dir);
    if (!d)
        return error_errno(e, errno, "open", dir);
    while (!status && (errno = 0, entry = readdir(d)))
        if (fnmatch(PATTERN, entry->d_name, FNM_PERIOD) == 0)
            status = add(s, str_of(entry->d_name), dir, e);
    if (!status && errno)
        status = error_errno(e, errno, "read", dir);
    closedir(d);
    return status;
}

/* Moves the names that do not exist in dir to the list of the absent. */
static int part_absent(struct shards *s, const char *dir, struct error *e)
{
    size_t n = 0;
    s->absent = malloc((s->n + 1) * sizeof *s->absent);
    if (!s->absent)
        return error_nomem(e, "the list of weight files");
    for (size_t i = 0; i < s->n; i++) {
        char *path;
        if (asprintf(&path, "%s/%s", dir, s->names[i]) < 0)
            return error_nomem(e, "a path");
        if (access(path, F_OK) == 0)
            s->names[n++] = s->names[i];
        else
            s->absent[s->n_absent++] = s->names[i];
        free(path);
    }
    s->n = n;
    return 0;
}

static int from_index(struct shards *s, const char *dir, const char *path, const struct log *log, struct error *e)
{
    struct file_map map;
    int             status = file_map_open(&map, path, e);
    if (status)
        return status;
    status = map.n > INDEX_SIZE_MAX ? error_set(e, ERR_LIMIT, NULL, "%s is larger than %zu bytes", path, INDEX_SIZE_MAX)
                                    : shards_parse_index(s, map.p, map.n, SHARDS_INDEX, e);
    file_map_close(&map);
    if (status)
        return status;
    status = part_absent(s, dir, e);
    if (!status && (s->n_absent || !s->n))
        status = list_directory(s, dir, e);
    if (!status && !s->n)
        status = error_set(e, ERR_NOT_FOUND, NULL,
                           "%s holds none of the weight files that its " SHARDS_INDEX " names, and no " PATTERN, dir);
    else if (!status && s->n_absent)
        log_warning(log, "%s/" SHARDS_INDEX " names %zu weight file%s that %s absent (%s); reading the %zu that exist",
                    dir, s->n_absent, s->n_absent > 1 ? "s" : "", s->n_absent > 1 ? "are" : "is", s->absent[0], s->n);
    if (status)
        shards_deinit(s);
    return status;
}

int shards_find(struct shards *s, const char *dir, const struct log *log, struct error *e)
{
    char *path;
    int   status;
    *s = (struct shards){0};
    if (asprintf(&path, "%s/" SHARDS_INDEX, dir) < 0)
        return error_nomem(e, "a path");
    if (access(path, F_OK) == 0)
        status = from_index(s, dir, path, log, e);
    else {
        arena_init(&s->texts, TEXTS_MAX);
        status = list_directory(s, dir, e);
        if (!status && !s->n)
            status =
                error_set(e, ERR_NOT_FOUND, NULL, "%s holds no weights: neither " SHARDS_INDEX " nor " PATTERN, dir);
        if (status)
            shards_deinit(s);
    }
    free(path);
    return status;
}

void shards_deinit(struct shards *s)
{
    free(s->names);
    free(s->absent);
    arena_deinit(&s->texts);
    *s = (struct shards){0};
}
