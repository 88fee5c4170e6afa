/* See dir.h. Replacing is one exchange of names where the filesystem can do it; else the old directory is moved aside
 * first. */
#include "base/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define TRIES 100
#define OPEN_DIRS 16

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, OPEN_DIRS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Whether `name` is what dir_out_begin names the temporary of an output `base`. */
static bool is_temporary(const char *name, const char *base)
{
    static const char digits[] = "0123456789", middle[] = ".tmp-";
    size_t            n = strlen(base), k;
    if (*name++ != '.' || strncmp(name, base, n) != 0 || strncmp(name + n, middle, sizeof middle - 1) != 0)
        return false;
    name += n + sizeof middle - 1;
    k = strspn(name, digits);
    return k && name[k] == '-' && name[k + 1] && !name[k + 1 + strspn(name + k + 1, digits)];
}

/* Removes what killed runs left of this output: their locks ended with them. */
static void sweep(const struct dir_out *o)
{
    const char *base = file_base(o->path);
    int         n = (int)(base - o->path);
    char        path[PATH_MAX];
    DIR        *d = snprintf(path, sizeof path, "%.*s.", n, o->path) < PATH_MAX ? opendir(path) : NULL;
    for (struct dirent *f; d && (f = readdir(d));) {
        if (!is_temporary(f->d_name, base) || snprintf(path, sizeof path, "%.*s%s", n, o->path, f->d_name) >= PATH_MAX)
            continue;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_tree(path);
        if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
}

/* Makes and locks o->tmp; -1 with errno, EEXIST also when another run's sweep took it before it was locked. Without locks on
 * this filesystem nobody sweeps either. */
static int make_locked(struct dir_out *o)
{
    if (mkdir(o->tmp, 0777) != 0)
        return -1;
    o->lock = open(o->tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (o->lock >= 0)
        flock(o->lock, LOCK_EX);
    if (access(o->tmp, F_OK) == 0)
        return 0;
    if (o->lock >= 0)
        close(o->lock);
    o->lock = -1;
    errno = EEXIST;
    return -1;
}

static void reset(struct dir_out *o)
{
    if (o->lock >= 0)
        close(o->lock);
    free(o->path);
    free(o->tmp);
    *o = (struct dir_out){0};
}

/* Whether a directory may be replaced: it is empty, a model, or an adapter. */
static bool replaceable(const char *path)
{
    DIR *d = opendir(path);
    bool empty = true, ours = false;
    if (!d)
        return false;
    for (struct dirent *f; (f = readdir(d));) {
        empty &= strcmp(f->d_name, ".") == 0 || strcmp(f->d_name, "..") == 0;
        ours |= strcmp(f->d_name, "config.json") == 0 || strcmp(f->d_name, "adapter_config.json") == 0;
    }
    closedir(d);
    return empty || ours;
}

static int check_existing(const struct dir_out *o, struct error *e)
{
    struct stat st;
    if (lstat(o->path, &st) != 0)
        return 0;
    if (!o->force)
        return file_refuse_existing(o->path, e);
    if (!S_ISDIR(st.st_mode) || !replaceable(o->path))
        return error_set(e, ERR_INVALID, NULL,
                         "%s exists and is no directory of a model or an adapter; it is not replaced, remove it first",
                         o->path);
    return 0;
}

/* Whether `path` is the directory or lies somewhere in it. */
static bool holds(const char *dir, const char *path)
{
    char a[PATH_MAX], b[PATH_MAX];
    if (!realpath(dir, a) || !realpath(path, b))
        return false;
    size_t n = strlen(a);
    return strncmp(a, b, n) == 0 && (!b[n] || b[n] == '/' || n == 1); /* 1: the root */
}

int dir_out_spare(const struct dir_out *o, const char *source, struct error *e)
{
    if (!holds(o->path, source))
        return 0;
    return error_set(e, ERR_INVALID, NULL, "%s is or holds %s, which is read; it is not replaced", o->path, source);
}

int dir_out_begin(struct dir_out *o, const char *path, const char *source, bool force, struct error *e)
{
    size_t n = strlen(path);
    int    status, made = -1;
    *o = (struct dir_out){.lock = -1, .force = force};
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (!n)
        return error_set(e, ERR_INVALID, NULL, "the output's name is empty");
    if (!(o->path = strndup(path, n)))
        return error_nomem(e, "the output's name");
    if ((status = check_existing(o, e)))
        goto out;
    if (source && (status = dir_out_spare(o, source, e)))
        goto out;
    sweep(o);
    const char *base = file_base(o->path);
    for (int i = 0; i < TRIES && made; i++) {
        free(o->tmp);
        if (asprintf(&o->tmp, "%.*s.%s.tmp-%ld-%d", (int)(base - o->path), o->path, base, (long)getpid(), i) < 0) {
            o->tmp = NULL;
            status = error_nomem(e, "the output's name");
            goto out;
        }
        made = make_locked(o);
        if (made && errno != EEXIST)
            break;
    }
    if (made) {
        status = error_errno(e, errno, "create", o->path);
        free(o->tmp);
        o->tmp = NULL;
    }
out:
    if (status)
        reset(o);
    return status;
}

int dir_out_file(const struct dir_out *o, const char *name, char out[PATH_MAX], struct error *e)
{
    if (snprintf(out, PATH_MAX, "%s/%s", o->tmp, name) < PATH_MAX)
        return 0;
    return error_set(e, ERR_LIMIT, NULL, "the path %s/%s is too long", o->path, name);
}

int dir_out_mkdir(const struct dir_out *o, const char *name, struct error *e)
{
    char path[PATH_MAX];
    int  status = dir_out_file(o, name, path, e);
    if (!status && mkdir(path, 0777) != 0)
        status = error_errno(e, errno, "create", path);
    return status;
}

int dir_out_write(const struct dir_out *o, const char *name, const void *p, size_t n, struct error *e)
{
    char            path[PATH_MAX];
    struct file_out f;
    int             status = dir_out_file(o, name, path, e);
    if (status || (status = file_out_begin(&f, path, false, e)))
        return status;
    if ((status = file_out_write(&f, p, n, e)))
        file_out_abort(&f);
    else
        status = file_out_finish(&f, e);
    return status;
}

/* Puts o->tmp in the place of the existing o->path; 0 or -1 with errno. The old directory is removed. */
static int replace(const struct dir_out *o)
{
    char *aside;
    if (renameat2(AT_FDCWD, o->tmp, AT_FDCWD, o->path, RENAME_EXCHANGE) == 0) {
        remove_tree(o->tmp);
        return 0;
    }
    if ((errno != EINVAL && errno != ENOSYS) || asprintf(&aside, "%s.old", o->tmp) < 0)
        return -1;
    int failed = rename(o->path, aside);
    if (!failed && (failed = rename(o->tmp, o->path)))
        rename(aside, o->path);
    int en = errno;
    if (!failed)
        remove_tree(aside);
    free(aside);
    errno = en;
    return failed;
}

int dir_out_finish(struct dir_out *o, struct error *e)
{
    int status = check_existing(o, e);
    if (!status && file_rename_new(o->tmp, o->path) != 0) {
        if (errno != EEXIST)
            status = error_errno(e, errno, "create", o->path);
        else if (!o->force)
            status = file_refuse_existing(o->path, e);
        else if (replace(o) != 0)
            status = error_errno(e, errno, "replace", o->path);
    }
    if (status)
        remove_tree(o->tmp);
    reset(o);
    return status;
}

void dir_out_abort(struct dir_out *o)
{
    if (!o->path)
        return;
    remove_tree(o->tmp);
    reset(o);
}
