/* Files: read-only mappings, whole small files, and output that appears whole or not at all.
 *
 * Only regular files are opened (a FIFO or a device in a model's directory must not hang us). A pointer that Git LFS
 * left where the file itself should be is refused with the remedy. Messages name the path.
 */
#ifndef MLXCEL_BASE_FILE_H
#define MLXCEL_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

/* The last component of a path, for messages. */
const char *file_base(const char *path);

/* A private read-only mapping of a whole file. The pages stay the file's: whoever truncates it under us raises SIGBUS,
 * which no program can rule out, so sizes are checked once, here, and the command line ends by an error
 * (cli/interrupt.h). */
struct file_map {
    const char *p; /* never NULL after an open; an empty file is "" */
    size_t      n;
};
int file_map_open(struct file_map *m, const char *path, struct error *e); /* ERR_NOT_FOUND, ERR_IO, ERR_FORMAT */
/* The same for at most the first `max` bytes (1,024 or more); *size gets the file's. */
int file_map_open_head(struct file_map *m, const char *path, size_t max, size_t *size, struct error *e);
/* A copy of the file in memory instead: whatever becomes of the file does no harm. */
int  file_map_read(struct file_map *m, const char *path, struct error *e);
void file_map_close(struct file_map *m); /* fine on a zeroed one */

/* Opens a regular file for reading and gives its size. */
int file_open(const char *path, int *fd, size_t *size, struct error *e);

/* Appends a whole file to b, whose maximum is the limit (ERR_LIMIT beyond it). */
int file_read(struct buf *b, const char *path, struct error *e);

/* An output file: written under a temporary name in the same directory, then synced and renamed to `path`.
 * Without `force` an existing path is refused, at the start and at the end; with it, only a regular file is replaced (a
 * device or a link to one must not become a file). */
struct file_out {
    char *path, *tmp; /* NULL when idle */
    int   fd;
    bool  force;
};
int file_out_begin(struct file_out *o, const char *path, bool force, struct error *e);
int file_out_check(const char *path, bool force,
                   struct error *e); /* whether begin would refuse path, to say so early */
int file_out_write(struct file_out *o, const void *p, size_t n, struct error *e);
/* The same at a place in the file; several threads may write different places at once. */
int file_out_put(const struct file_out *o, size_t at, const void *p, size_t n, struct error *e);
/* Appends the next at most `max` bytes of the open file `from`, inside the system where it can; *n: how many, 0 at its
 * end. */
int  file_out_copy(struct file_out *o, int from, size_t max, size_t *n, struct error *e);
int  file_out_finish(struct file_out *o, struct error *e); /* idle afterwards, also when it failed */
void file_out_abort(struct file_out *o);                   /* removes the temporary; fine on a zeroed or finished one */

/* rename(2) that does not replace: -1 with errno EEXIST when `to` exists, atomically where the filesystem can. */
int file_rename_new(const char *from, const char *to);
/* ERR_INVALID: the sentence for an output that exists and was not to be replaced. */
int file_refuse_existing(const char *path, struct error *e);

#endif
