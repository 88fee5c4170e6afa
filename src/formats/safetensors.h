/* The safetensors file format: reading a mapped file's header, and writing files.
 *
 *     u64 N (little-endian) | N bytes of JSON, blanks at the end | data
 *     {"__metadata__": {"key": "text"}, "name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
 *
 * Offsets count from the first byte after the header. Accepted is what the reference library accepts, less what could
 * hide something: the tensors in order of their offsets must fill the data exactly (no hole, no overlap, no byte after
 * the last), every size must equal shape times type, names are unique, the header begins with '{' and has at most
 * 100,000,000 bytes. Further limits of ours: a million tensors, 8 dimensions, names of 1,000 bytes, no NUL in a name.
 */
#ifndef MLXCEL_FORMATS_SAFETENSORS_H
#define MLXCEL_FORMATS_SAFETENSORS_H

#include "base/arena.h"
#include "base/error.h"
#include "formats/tensor_view.h"

#define SAFETENSORS_HEADER_MAX ((size_t)100000000)

struct safetensors_pair {
    const char *key, *value;
};

struct safetensors {
    struct tensor_view      *tensors; /* sorted by name */
    size_t                   n;
    struct safetensors_pair *metadata; /* sorted by key */
    size_t                   n_metadata;
    struct arena             names; /* holds all texts */
};

/* Parses the n bytes at p, which must outlive s; `file` (base name) is copied and goes into the messages and views.
 * ERR_FORMAT with all faults of the file, ERR_LIMIT. On failure there is nothing to deinit. */
int safetensors_parse(struct safetensors *s, const char *p, size_t n, const char *file, struct error *e);
/* The same when only the first `head` bytes of the file's n are at p, at least safetensors_head(): all is checked but the
 * data, whose views point nowhere. */
int safetensors_parse_head(struct safetensors *s, const char *p, size_t head, size_t n, const char *file,
                           struct error *e);
/* How many bytes from the file's beginning hold its header, as the first of them say (n are at p). */
size_t safetensors_head(const char *p, size_t n);
void   safetensors_deinit(struct safetensors *s);

/* Writes a whole file: name, dtype, shape, data and size of each t are used, data in the order given. metadata_pairs:
 * key, value, key, value, ..., NULL; or NULL. The file appears by rename; an existing one is refused unless `force`.
 * Give the wider types first if readers are to find them aligned. */
int safetensors_write(const char *path, const struct tensor_view *t, size_t n, const char *const *metadata_pairs,
                      bool force, struct error *e);

/* The same in steps, for data that does not fit in memory: begin with the descriptions (data is ignored), append the
 * data of all tensors one after another in pieces of any size, then finish or abort, each of which frees the writer. */
struct safetensors_writer;
int safetensors_writer_begin(struct safetensors_writer **out, const char *path, const struct tensor_view *t, size_t n,
                             const char *const *metadata_pairs, bool force, struct error *e);
int safetensors_writer_append(struct safetensors_writer *w, const void *p, size_t n, struct error *e);
/* Or put pieces at their places, from several threads, without overlap: `at` counts from the first tensor's first byte. */
int  safetensors_writer_put(struct safetensors_writer *w, size_t at, const void *p, size_t n, struct error *e);
int  safetensors_writer_finish(struct safetensors_writer *w, struct error *e);
void safetensors_writer_abort(struct safetensors_writer *w); /* NULL is fine */

#endif
