/* Writing safetensors files: the header from the descriptions, then the data as it comes; contracts in safetensors.h.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "base/utf8.h"
#include "formats/safetensors.h"

#define DATA_ALIGN 64 /* the header is padded with blanks so that the data begins at a multiple of this */

struct safetensors_writer {
    struct file_out out;
    size_t          header, data; /* bytes */
    atomic_size_t   left;         /* bytes of data still to come */
};

static void put_string(struct buf *b, const char *z)
{
    buf_putc(b, '"');
    for (const char *p = z; *p; p++)
        if (*p == '"' || *p == '\\')
            buf_printf(b, "\\%c", *p);
        else if ((unsigned char)*p < 0x20)
            buf_printf(b, "\\u%04x", *p);
        else
            buf_putc(b, *p);
    buf_putc(b, '"');
}

static int check_text(const char *z, struct error *e)
{
    size_t n = strlen(z);
    return utf8_valid_prefix(z, n) == n ? 0 : error_set(e, ERR_INVALID, z, "'%s' is not UTF-8", z);
}

static int put_metadata(struct buf *b, const char *const *pairs, struct error *e)
{
    buf_puts(b, "\"__metadata__\":{");
    for (size_t i = 0; pairs[i]; i += 2) {
        int status = check_text(pairs[i], e);
        if (!status)
            status = check_text(pairs[i + 1], e);
        if (status)
            return status;
        buf_puts(b, i ? "," : "");
        put_string(b, pairs[i]);
        buf_putc(b, ':');
        put_string(b, pairs[i + 1]);
    }
    buf_putc(b, '}');
    return 0;
}

/* One tensor's description; its data begins at *offset, which is moved on. */
static int put_tensor(struct buf *b, const struct tensor_view *t, size_t *offset, struct error *e)
{
    size_t bytes, end;
    int    status = check_text(t->name, e);
    if (status)
        return status;
    if (t->n_dim < 0 || t->n_dim > TENSOR_DIMS_MAX || !dtype_bits(t->dtype) ||
        !dtype_bytes(t->dtype, t->shape, t->n_dim, &bytes) || !num_add(*offset, bytes, &end) || end > INT64_MAX)
        return error_set(e, ERR_INVALID, t->name, "tensor '%s' has a type or shape that cannot be stored", t->name);
    put_string(b, t->name);
    buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", dtype_name(t->dtype));
    for (int i = 0; i < t->n_dim; i++)
        buf_printf(b, "%s%" PRId64, i ? "," : "", t->shape[i]);
    buf_printf(b, "],\"data_offsets\":[%zu,%zu]}", *offset, end);
    *offset = end;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_unique(const struct tensor_view *t, size_t n, struct error *e)
{
    int          status = 0;
    const char **names = calloc(MAX(n, (size_t)1), sizeof *names);
    if (!names)
        return error_nomem(e, "the list of tensors");
    for (size_t i = 0; i < n; i++)
        names[i] = t[i].name;
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n && !status; i++)
        if ((i && strcmp(names[i - 1], names[i]) == 0) || strcmp(names[i], "__metadata__") == 0)
            status = error_set(e, ERR_INVALID, names[i], "the tensor name '%s' is taken", names[i]);
    free(names);
    return status;
}

/* The 8 bytes of length and the header. */
static int put_header(struct buf *b, const struct tensor_view *t, size_t n, const char *const *pairs, size_t *data_size,
                      struct error *e)
{
    char   length[8] = {0};
    int    status = check_unique(t, n, e);
    size_t offset = 0;
    buf_put(b, length, sizeof length);
    buf_putc(b, '{');
    if (!status && pairs)
        status = put_metadata(b, pairs, e);
    for (size_t i = 0; i < n && !status; i++) {
        buf_puts(b, i || pairs ? "," : "");
        status = put_tensor(b, &t[i], &offset, e);
    }
    buf_putc(b, '}');
    while (!b->failed && b->n % DATA_ALIGN)
        buf_putc(b, ' ');
    if (status)
        return status;
    if (b->failed)
        return b->full ? error_set(e, ERR_LIMIT, NULL, "the header of %zu tensors passes %zu bytes", n,
                                   SAFETENSORS_HEADER_MAX)
                       : error_nomem(e, "a safetensors header");
    for (int i = 0; i < 8; i++)
        b->p[i] = (char)((uint64_t)(b->n - 8) >> 8 * i & 0xff);
    *data_size = offset;
    return 0;
}

int safetensors_writer_begin(struct safetensors_writer **out, const char *path, const struct tensor_view *t, size_t n,
                             const char *const *metadata_pairs, bool force, struct error *e)
{
    struct buf                 header;
    struct safetensors_writer *w = calloc(1, sizeof *w);
    int                        status;
    if (!w) {
        error_nomem(e, path);
        return ERR_NOMEM;
    }
    buf_init(&header, SAFETENSORS_HEADER_MAX + 8);
    status = put_header(&header, t, n, metadata_pairs, &w->data, e);
    if (!status)
        status = file_out_begin(&w->out, path, force, e);
    if (!status)
        status = file_out_write(&w->out, header.p, header.n, e);
    w->header = header.n;
    w->left = w->data;
    buf_deinit(&header);
    if (status)
        safetensors_writer_abort(w);
    else
        *out = w;
    return status;
}

int safetensors_writer_append(struct safetensors_writer *w, const void *p, size_t n, struct error *e)
{
    if (n > w->left)
        return error_set(e, ERR_INTERNAL, NULL, "%s: %zu bytes of data, but only %zu are left to write", w->out.path, n,
                         (size_t)w->left);
    w->left -= n;
    return file_out_write(&w->out, p, n, e);
}

int safetensors_writer_put(struct safetensors_writer *w, size_t at, const void *p, size_t n, struct error *e)
{
    size_t end;
    if (!num_add(at, n, &end) || end > w->data || n > w->left)
        return error_set(e, ERR_INTERNAL, NULL, "%s: data at %zu do not fit into the %zu bytes of the tensors",
                         w->out.path, at, w->data);
    w->left -= n;
    return file_out_put(&w->out, w->header + at, p, n, e);
}

int safetensors_writer_finish(struct safetensors_writer *w, struct error *e)
{
    int status =
        w->left ? error_set(e, ERR_INTERNAL, NULL, "%s: %zu bytes of data are missing", w->out.path, (size_t)w->left)
                : file_out_finish(&w->out, e);
    safetensors_writer_abort(w);
    return status;
}

void safetensors_writer_abort(struct safetensors_writer *w)
{
    if (!w)
        return;
    file_out_abort(&w->out);
    free(w);
}

int safetensors_write(const char *path, const struct tensor_view *t, size_t n, const char *const *metadata_pairs,
                      bool force, struct error *e)
{
    struct safetensors_writer *w = NULL;
    int                        status = safetensors_writer_begin(&w, path, t, n, metadata_pairs, force, e);
    if (status)
        return status;
    for (size_t i = 0; i < n && !status; i++) {
        size_t bytes = 0;
        dtype_bytes(t[i].dtype, t[i].shape, t[i].n_dim, &bytes);
        status = t[i].size == bytes
                     ? safetensors_writer_append(w, t[i].data, bytes, e)
                     : error_set(e, ERR_INTERNAL, t[i].name, "tensor '%s' has %zu bytes of data, %zu are needed",
                                 t[i].name, t[i].size, bytes);
    }
    if (!status)
        return safetensors_writer_finish(w, e);
    safetensors_writer_abort(w);
    return status;
}
