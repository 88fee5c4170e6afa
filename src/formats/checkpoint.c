/* Opening the shards of a checkpoint and merging their tensors into one sorted table; contracts in checkpoint.h. */
#include "formats/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/num.h"
#include "formats/safetensors.h"
#include "formats/shards.h"

#define HEAD_FIRST ((size_t)1 << 16) /* bytes that are mapped to learn how many the header has */

struct shard {
    const char        *name; /* in its directory; NULL for a file of its own */
    struct file_map    map;
    struct safetensors st;
};

enum reading { READ_HEADERS, READ_MAPPED, READ_COPY };

struct checkpoint {
    struct shards       files;
    struct shard       *shards; /* those that could be read */
    size_t              n_shards;
    struct tensor_view *tensors; /* sorted by name */
    size_t              n, bytes;
    enum reading        reading;
};

/* Maps the file's header alone; *size gets the file's size. */
static int map_header(struct file_map *m, const char *path, size_t *size, struct error *e)
{
    int status = file_map_open_head(m, path, HEAD_FIRST, size, e);
    if (status || m->n == *size)
        return status;
    size_t head = safetensors_head(m->p, m->n);
    file_map_close(m);
    return file_map_open_head(m, path, MAX(head, HEAD_FIRST), size, e);
}

static int open_shard(struct checkpoint *c, const char *path, const char *name, struct error *e)
{
    struct shard *s = &c->shards[c->n_shards];
    size_t        size;
    s->name = name;
    int status = c->reading == READ_HEADERS ? map_header(&s->map, path, &size, e)
                 : c->reading == READ_COPY  ? file_map_read(&s->map, path, e)
                                            : file_map_open(&s->map, path, e);
    if (!status && c->reading != READ_HEADERS)
        size = s->map.n;
    if (!status)
        status = safetensors_parse_head(&s->st, s->map.p, s->map.n, size, file_base(path), e);
    if (status)
        file_map_close(&s->map);
    else
        c->n_shards++;
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor_view *)a)->name, ((const struct tensor_view *)b)->name);
}

/* Fills entries from all shards; a name that two files hold is a fault. */
static int merge(struct checkpoint *c, struct faults *f, struct error *e)
{
    size_t total = 0;
    for (size_t i = 0; i < c->n_shards; i++)
        total += c->shards[i].st.n;
    c->tensors = calloc(MAX(total, (size_t)1), sizeof *c->tensors);
    if (!c->tensors)
        return error_nomem(e, "the list of tensors");
    for (size_t i = 0; i < c->n_shards; i++)
        for (size_t k = 0; k < c->shards[i].st.n; k++) {
            c->tensors[c->n] = c->shards[i].st.tensors[k];
            c->bytes += c->tensors[c->n++].size;
        }
    qsort(c->tensors, c->n, sizeof *c->tensors, by_name);
    for (size_t i = 1; i < c->n; i++) {
        const struct tensor_view *a = &c->tensors[i - 1], *b = &c->tensors[i];
        if (strcmp(a->name, b->name) == 0) {
            bool less = strcmp(a->file, b->file) < 0;
            faults_add(f, ERR_FORMAT, a->name, "tensor '%s' is in two files, %s and %s", a->name,
                       less ? a->file : b->file, less ? b->file : a->file);
        }
    }
    return 0;
}

/* Opens n files, whose names are relative to dir (or whole paths when dir is NULL). Those that cannot be read are faults. */
static int open_files(struct checkpoint *c, const char *dir, const char *const *names, size_t n, struct faults *f,
                      struct error *e)
{
    c->shards = calloc(n, sizeof *c->shards);
    if (!c->shards)
        return error_nomem(e, "the list of shards");
    for (size_t i = 0; i < n; i++) {
        char        *path = NULL;
        struct error fault = {0};
        if (dir && asprintf(&path, "%s/%s", dir, names[i]) < 0)
            return error_nomem(e, "a path");
        int status = open_shard(c, dir ? path : names[i], dir ? names[i] : NULL, &fault);
        free(path);
        if (status == ERR_NOMEM)
            return error_set(e, status, NULL, "%s", fault.msg);
        if (status)
            faults_add(f, status, *fault.param ? fault.param : file_base(names[i]), "%s", fault.msg);
    }
    return merge(c, f, e);
}

/* Opens one file, or the shards of a directory when dir is not NULL. */
static int open_checkpoint(struct checkpoint **out, const char *dir, const char *path, enum reading reading,
                           const struct log *log, struct faults *f, struct error *e)
{
    struct faults      own = {0};
    struct checkpoint *c = calloc(1, sizeof *c);
    if (!c)
        return error_nomem(e, "the checkpoint");
    c->reading = reading;
    int status = dir ? shards_find(&c->files, dir, log, e) : 0;
    if (!status)
        status = open_files(c, dir, dir ? c->files.names : &path, dir ? c->files.n : 1, f ? f : &own, e);
    if (!status)
        status = faults_report(&own, e);
    faults_deinit(&own);
    if (status)
        checkpoint_close(c);
    else
        *out = c;
    return status;
}

int checkpoint_open_file(struct checkpoint **out, const char *path, bool copy, struct error *e)
{
    return open_checkpoint(out, NULL, path, copy ? READ_COPY : READ_MAPPED, NULL, NULL, e);
}

int checkpoint_open(struct checkpoint **out, const char *dir, bool headers, const struct log *log, struct faults *f,
                    struct error *e)
{
    return open_checkpoint(out, dir, NULL, headers ? READ_HEADERS : READ_MAPPED, log, f, e);
}

void checkpoint_close(struct checkpoint *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n_shards; i++) {
        safetensors_deinit(&c->shards[i].st);
        file_map_close(&c->shards[i].map);
    }
    free(c->shards);
    free(c->tensors);
    shards_deinit(&c->files);
    free(c);
}

bool checkpoint_is_whole(const struct checkpoint *c)
{
    return c->n_shards >= c->files.n;
}

const char *const *checkpoint_absent(const struct checkpoint *c, size_t *n)
{
    *n = c->files.n_absent;
    return c->files.absent;
}

size_t checkpoint_count(const struct checkpoint *c)
{
    return c->n;
}

size_t checkpoint_bytes(const struct checkpoint *c)
{
    return c->bytes;
}

const struct tensor_view *checkpoint_at(const struct checkpoint *c, size_t i)
{
    return &c->tensors[i];
}

const struct tensor_view *checkpoint_find(const struct checkpoint *c, const char *name)
{
    struct tensor_view key = {.name = name};
    return c->n ? bsearch(&key, c->tensors, c->n, sizeof *c->tensors, by_name) : NULL;
}

const char *checkpoint_metadata(const struct checkpoint *c, const char *key)
{
    for (size_t i = 0; i < c->n_shards; i++) {
        const struct safetensors *s = &c->shards[i].st;
        for (size_t k = 0; k < s->n_metadata; k++)
            if (strcmp(s->metadata[k].key, key) == 0)
                return s->metadata[k].value;
    }
    return NULL;
}

const char *const *checkpoint_files(const struct checkpoint *c, size_t *n)
{
    *n = c->files.n;
    return c->files.names;
}

size_t checkpoint_offset(const struct checkpoint *c, const void *data, const char **file)
{
    for (size_t i = 0; i < c->n_shards; i++) {
        const struct shard *s = &c->shards[i];
        uintptr_t           at = (uintptr_t)data - (uintptr_t)s->map.p;
        if (at < s->map.n) {
            *file = s->name;
            return at;
        }
    }
    *file = NULL;
    return SIZE_MAX;
}

/* madvise over the whole pages inside t's data. */
static void advise(const struct tensor_view *t, int advice)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)t->data, end = begin + t->size;
    size_t    before = (size_t)(-begin % page), after = (size_t)(end % page);
    if (t->size > before + after)
        madvise((char *)t->data + before, t->size - before - after, advice);
}

void checkpoint_prefetch(const struct tensor_view *t)
{
    advise(t, MADV_WILLNEED);
}

void checkpoint_release(const struct tensor_view *t)
{
    advise(t, MADV_DONTNEED); /* a private mapping that was never written: its pages come back from the file */
}
