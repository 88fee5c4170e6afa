/* A checkpoint: every tensor of a directory's safetensors shards (or of one file), by name.
 *
 * Which files: those that model.safetensors.index.json names; without an index every model*.safetensors. When the index
 * names shards that are absent, the other model*.safetensors of the directory are read too, with one warning; whether a
 * needed tensor is missing is for the caller to say. A name in two files is refused. Where the index and the shards
 * disagree about a tensor's place, the shards are right.
 *
 * The data are views of read-only mappings that live until checkpoint_close. MLX pads no header, so most of its files
 * hold tensors at odd addresses: whoever reads them does so at any address.
 *
 * Reading is thread-safe.
 */
#ifndef MLXCEL_FORMATS_CHECKPOINT_H
#define MLXCEL_FORMATS_CHECKPOINT_H

#include "base/error.h"
#include "base/log.h"
#include "formats/tensor_view.h"

struct checkpoint;

/* All shards of a directory. ERR_NOT_FOUND when it holds no weights. Files that cannot be read and names in two files go
 * to *f, and the rest is open for further checks (and nothing else); with f NULL they are the error. `headers`: no data is
 * mapped, so that files of any size can be looked at; the views' data is NULL. */
int checkpoint_open(struct checkpoint **out, const char *dir, bool headers, const struct log *log, struct faults *f,
                    struct error *e);
/* One .safetensors file of any name (adapters, fixtures). `copy`: it is read into memory, so that others may change, cut or
 * remove it meanwhile; checkpoint_release is not for its tensors. */
int  checkpoint_open_file(struct checkpoint **out, const char *path, bool copy, struct error *e);
void checkpoint_close(struct checkpoint *c); /* NULL is fine */

/* Whether every file that is there could be read, and the names of those that only the index has. */
bool               checkpoint_is_whole(const struct checkpoint *c);
const char *const *checkpoint_absent(const struct checkpoint *c, size_t *n);

size_t                    checkpoint_count(const struct checkpoint *c);
size_t                    checkpoint_bytes(const struct checkpoint *c);                  /* of all tensors */
const struct tensor_view *checkpoint_at(const struct checkpoint *c, size_t i);           /* sorted by name (bytes) */
const struct tensor_view *checkpoint_find(const struct checkpoint *c, const char *name); /* NULL if there is none */
/* A text of __metadata__, from the first file that has the key; NULL if none has. */
const char *checkpoint_metadata(const struct checkpoint *c, const char *key);

/* The files that are read, sorted, and where in one of them `data`, a place in a view's data, stands: *file is its name;
 * SIZE_MAX with NULL when it is in none. */
const char *const *checkpoint_files(const struct checkpoint *c, size_t *n);
size_t             checkpoint_offset(const struct checkpoint *c, const void *data, const char **file);

/* t's bytes will be needed soon: begins to read them from the file. */
void checkpoint_prefetch(const struct tensor_view *t);
/* They are not needed for now: lets the system take back the whole pages among them. t->data stays readable. */
void checkpoint_release(const struct tensor_view *t);

#endif
