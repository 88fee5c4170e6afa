/* A scratch directory for one test program, and small files in it. */
#ifndef TESTS_SUPPORT_TMP_H
#define TESTS_SUPPORT_TMP_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Makes a new empty directory and returns its path, which the caller passes to tmp_remove (which frees it). */
static inline char *tmp_make(void)
{
    const char *base = getenv("TMPDIR");
    char       *path;
    if (asprintf(&path, "%s/mlxcel-test-XXXXXX", base ? base : "/tmp") < 0 || !mkdtemp(path))
        abort();
    return path;
}

static inline int tmp_unlink(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static inline void tmp_remove(char *dir)
{
    nftw(dir, tmp_unlink, 16, FTW_DEPTH | FTW_PHYS);
    free(dir);
}

/* dir/name in a static buffer, good until the next call. */
static inline const char *tmp_path(const char *dir, const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static inline void tmp_write(const char *dir, const char *name, const void *p, size_t n)
{
    FILE *f = fopen(tmp_path(dir, name), "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0)
        abort();
}

static inline void tmp_puts(const char *dir, const char *name, const char *text)
{
    tmp_write(dir, name, text, strlen(text));
}

#endif
