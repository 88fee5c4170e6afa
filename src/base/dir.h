/* An output directory that appears whole or not at all: filled under a hidden temporary name beside its place, then
 * renamed. A killed run leaves at most that temporary, which nothing takes for a finished directory and which the next run
 * for the same output removes: a running one holds a lock (flock) on its own.
 */
#ifndef MLXCEL_BASE_DIR_H
#define MLXCEL_BASE_DIR_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"

struct dir_out {
    char *path, *tmp; /* NULL when idle */
    int   lock;       /* descriptor of tmp */
    bool  force;
};

/* Makes the temporary directory. An existing `path` is refused without `force`, here and at the end; with it, only an
 * empty directory or one that holds config.json or adapter_config.json is replaced (a wrong word on the command line
 * must not cost a home directory), and none that is or holds `source`, what the output is made from (NULL: nothing). */
int dir_out_begin(struct dir_out *o, const char *path, const char *source, bool force, struct error *e);
/* ERR_INVALID when `source`, a further one, is or lies in what would be replaced. */
int dir_out_spare(const struct dir_out *o, const char *source, struct error *e);
/* The path of a file to be written in it. */
int dir_out_file(const struct dir_out *o, const char *name, char out[PATH_MAX], struct error *e);
/* Makes a folder in it, so that names "folder/file" can be written. */
int dir_out_mkdir(const struct dir_out *o, const char *name, struct error *e);
/* Writes a whole small file in it. */
int  dir_out_write(const struct dir_out *o, const char *name, const void *p, size_t n, struct error *e);
int  dir_out_finish(struct dir_out *o, struct error *e); /* idle afterwards, also when it failed */
void dir_out_abort(struct dir_out *o);                   /* removes the temporary; fine on a zeroed or finished one */

#endif
