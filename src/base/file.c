/* See file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"

#define LFS_POINTER_MAX 1023        /* bytes, of Git LFS's specification */
#define WRITE_MAX ((size_t)1 << 30) /* one write(2) call; Linux stops a little below 2 GiB */

static const char lfs_pointer[] = "version https://git-lfs";

const char *file_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int file_open(const char *path, int *fd, size_t *size, struct error *e)
{
    struct stat st;
    int         status;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0)
        return error_errno(e, errno, "open", path);
    if (fstat(*fd, &st) != 0)
        status = error_errno(e, errno, "read", path);
    else if (!S_ISREG(st.st_mode))
        status = error_set(e, ERR_FORMAT, NULL, "%s is not a regular file", path);
    else {
        *size = (size_t)st.st_size;
        return 0;
    }
    close(*fd);
    return status;
}

/* Refuses the small text that Git LFS leaves in place of a file that was not fetched. */
static int check_no_pointer(const char *p, size_t n, const char *path, struct error *e)
{
    if (n > LFS_POINTER_MAX || n < sizeof lfs_pointer - 1 || memcmp(p, lfs_pointer, sizeof lfs_pointer - 1) != 0)
        return 0;
    return error_set(e, ERR_FORMAT, NULL,
                     "%s is a Git LFS pointer, not the file itself; run `git lfs pull` in its directory", path);
}

/* The end of every way to open a map: m stays open when all went well. */
static int map_opened(struct file_map *m, int fd, int status, const char *path, struct error *e)
{
    close(fd);
    if (!status)
        status = check_no_pointer(m->p, m->n, path, e);
    if (status)
        file_map_close(m);
    return status;
}

int file_map_open(struct file_map *m, const char *path, struct error *e)
{
    size_t size;
    return file_map_open_head(m, path, SIZE_MAX, &size, e);
}

int file_map_open_head(struct file_map *m, const char *path, size_t max, size_t *size, struct error *e)
{
    int fd, status = file_open(path, &fd, size, e);
    *m = (struct file_map){.p = ""};
    if (status)
        return status;
    if (*size) {
        size_t n = MIN(*size, max);
        void  *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            status = error_errno(e, errno, "map", path);
        else
            *m = (struct file_map){p, n};
    }
    return map_opened(m, fd, status, path, e);
}

/* Reads size bytes, or fewer where the file has become shorter. */
static int read_all(int fd, char *p, size_t *size, const char *path, struct error *e)
{
    size_t at = 0;
    while (at < *size) {
        ssize_t n = read(fd, p + at, *size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(e, errno, "read", path);
        if (n == 0)
            break;
        at += (size_t)n;
    }
    *size = at;
    return 0;
}

int file_map_read(struct file_map *m, const char *path, struct error *e)
{
    size_t size;
    int    fd, status = file_open(path, &fd, &size, e);
    *m = (struct file_map){.p = ""};
    if (status)
        return status;
    void *p = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
    if (p == MAP_FAILED)
        status = error_nomem(e, path);
    else if (size) {
        *m = (struct file_map){p, size};
        (void)madvise(p, size, MADV_HUGEPAGE); /* a wish: fewer faults */
        status = read_all(fd, p, &size, path, e);
    }
    if (!status && size < m->n)
        status = error_set(e, ERR_IO, NULL, "%s became shorter while it was read", path);
    return map_opened(m, fd, status, path, e);
}

void file_map_close(struct file_map *m)
{
    if (m->n)
        munmap((void *)m->p, m->n);
    *m = (struct file_map){0};
}

int file_read(struct buf *b, const char *path, struct error *e)
{
    size_t size, start = b->n;
    int    fd, status = file_open(path, &fd, &size, e);
    if (status)
        return status;
    while (!status) {
        char    chunk[16384];
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status = error_errno(e, errno, "read", path);
        if (n <= 0)
            break;
        buf_put(b, chunk, (size_t)n);
        if (b->full)
            status = error_set(e, ERR_LIMIT, NULL, "%s is larger than the limit of %zu bytes", path, b->max);
        else if (b->failed)
            status = error_nomem(e, path);
    }
    close(fd);
    return status || b->n == start ? status : check_no_pointer(b->p + start, b->n - start, path, e);
}

int file_refuse_existing(const char *path, struct error *e)
{
    return error_set(e, ERR_INVALID, NULL, "%s exists already; give --force to replace it", path);
}

static void out_reset(struct file_out *o)
{
    free(o->path);
    free(o->tmp);
    *o = (struct file_out){.fd = -1};
}

int file_out_check(const char *path, bool force, struct error *e)
{
    struct stat st;
    if (!*path)
        return error_set(e, ERR_INVALID, NULL, "the output's name is empty");
    if (lstat(path, &st) != 0)
        return 0;
    if (!force)
        return file_refuse_existing(path, e);
    if (!S_ISREG(st.st_mode))
        return error_set(e, ERR_INVALID, NULL, "%s exists and is not a regular file; it is not replaced", path);
    return 0;
}

int file_out_begin(struct file_out *o, const char *path, bool force, struct error *e)
{
    int err = file_out_check(path, force, e);
    *o = (struct file_out){.fd = -1, .force = force};
    if (err)
        return err;
    if (!(o->path = strdup(path)))
        return error_nomem(e, path);
    for (int i = 0; i < 100 && o->fd < 0; i++) {
        free(o->tmp);
        if (asprintf(&o->tmp, "%s.tmp-%ld-%d", path, (long)getpid(), i) < 0) {
            o->tmp = NULL;
            out_reset(o);
            return error_nomem(e, path);
        }
        o->fd = open(o->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (o->fd < 0 && errno != EEXIST)
            break;
    }
    if (o->fd < 0) {
        int status = error_errno(e, errno, "create", o->path);
        out_reset(o);
        return status;
    }
    return 0;
}

int file_out_write(struct file_out *o, const void *p, size_t n, struct error *e)
{
    const char *at = p;
    while (n) {
        ssize_t k = write(o->fd, at, MIN(n, WRITE_MAX));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return error_errno(e, errno, "write", o->path);
        at += k;
        n -= (size_t)k;
    }
    return 0;
}

int file_out_put(const struct file_out *o, size_t at, const void *p, size_t n, struct error *e)
{
    const char *from = p;
    while (n) {
        ssize_t k = pwrite(o->fd, from, MIN(n, WRITE_MAX), (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return error_errno(e, errno, "write", o->path);
        from += k;
        at += (size_t)k;
        n -= (size_t)k;
    }
    return 0;
}

/* For filesystems between which the system does not copy by itself. */
static ssize_t copy_through(int to, int from, size_t max)
{
    char    chunk[1 << 16];
    ssize_t k = read(from, chunk, MIN(max, sizeof chunk)), done = 0;
    while (done < k) {
        ssize_t n = write(to, chunk + done, (size_t)(k - done));
        if (n < 0 && errno != EINTR)
            return -1;
        done += MAX(n, 0);
    }
    return k;
}

int file_out_copy(struct file_out *o, int from, size_t max, size_t *n, struct error *e)
{
    ssize_t k;
    do {
        k = copy_file_range(from, NULL, o->fd, NULL, MIN(max, WRITE_MAX), 0);
        if (k < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM))
            k = copy_through(o->fd, from, max);
    } while (k < 0 && errno == EINTR);
    *n = (size_t)MAX(k, 0);
    return k < 0 ? error_errno(e, errno, "write", o->path) : 0;
}

int file_rename_new(const char *from, const char *to)
{
    struct stat st;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (lstat(to, &st) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

int file_out_finish(struct file_out *o, struct error *e)
{
    int status = 0, fd = o->fd;
    o->fd = -1;
    if (fsync(fd) != 0 && errno != EINVAL) /* EINVAL: a filesystem without fsync */
        status = error_errno(e, errno, "write", o->path);
    if (close(fd) != 0 && !status)
        status = error_errno(e, errno, "write", o->path);
    if (!status && o->force)
        status = file_out_check(o->path, true, e);
    if (!status && (o->force ? rename(o->tmp, o->path) : file_rename_new(o->tmp, o->path)) != 0)
        status = errno == EEXIST ? file_refuse_existing(o->path, e) : error_errno(e, errno, "create", o->path);
    if (status)
        unlink(o->tmp);
    out_reset(o);
    return status;
}

void file_out_abort(struct file_out *o)
{
    if (!o->path)
        return;
    if (o->fd >= 0)
        close(o->fd);
    unlink(o->tmp);
    out_reset(o);
}
