/* Taking GGUF's blocks apart into planes, row by row.
 *
 *     Q4_0   f16 d         | 16 bytes     byte j: element j in the low, element j + 16 in the high nibble
 *     Q4_1   f16 d | f16 m | 16 bytes     the same
 *     Q8_0   f16 d         | 32 int8
 *
 * MLX packs the codes of a row in order: element i of 4 bits in bits 4i.., of 8 bits in byte i.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "convert/import.h"
#include "formats/safetensors.h"

#define CHUNK ((size_t)1 << 20) /* bytes of output that are written at once */

/* How a quantized type is taken apart. Biases: `factor` times the scale, or stored when factor is 0. */
struct layout {
    uint32_t type;
    int      bits, head; /* head: bytes before the codes */
    float    factor;
};
static const struct layout layouts[] = {
    {GGML_Q4_0, 4, 2, -8},
    {GGML_Q4_1, 4, 4, 0},
    {GGML_Q8_0, 8, 2, -128},
};

static const struct layout *layout_of(uint32_t type)
{
    for (size_t i = 0; i < ARRAY_LEN(layouts); i++)
        if (layouts[i].type == type)
            return &layouts[i];
    return NULL;
}

static size_t block_bytes(const struct layout *l)
{
    return (size_t)l->head + (size_t)l->bits * IMPORT_GROUP / 8;
}

bool import_type_bits(uint32_t type, int *bits, enum dtype *dense)
{
    const struct layout *l = layout_of(type);
    *bits = l ? l->bits : 0;
    *dense = type == GGML_F32 ? DTYPE_F32 : type == GGML_F16 ? DTYPE_F16 : type == GGML_BF16 ? DTYPE_BF16 : DTYPE_NONE;
    return l || *dense != DTYPE_NONE;
}

static float half_at(const uint8_t *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return f16_to_f32(bits);
}

bool import_needs_wide(const struct gguf_tensor *t, struct faults *f)
{
    const struct layout *l = layout_of(t->type);
    const uint8_t       *p = t->data, *end = p + t->size;
    const float          greatest = 65504; /* float16's */
    bool                 wide = false;
    for (; p < end; p += block_bytes(l)) {
        float scale = half_at(p), bias = l->factor != 0 ? scale * l->factor : half_at(p + 2);
        if (!isfinite(scale) || !isfinite(bias)) {
            faults_add(f, ERR_FORMAT, t->name, "tensor %s has a block whose scale is not finite", t->name);
            return false;
        }
        wide |= fabsf(bias) > greatest;
    }
    return wide;
}

/* ---- one row ---- */

static void put_codes(const struct layout *l, const uint8_t *p, int64_t n_blocks, uint8_t *out)
{
    for (int64_t b = 0; b < n_blocks; b++, p += block_bytes(l), out += l->bits * IMPORT_GROUP / 8) {
        const uint8_t *q = p + l->head;
        if (l->bits == 8) {
            for (int j = 0; j < IMPORT_GROUP; j++)
                out[j] = q[j] ^ 0x80; /* int8 + 128 */
            continue;
        }
        for (int j = 0; j < 8; j++) {
            out[j] = (uint8_t)((q[2 * j] & 15) | (q[2 * j + 1] & 15) << 4);
            out[8 + j] = (uint8_t)(q[2 * j] >> 4 | (q[2 * j + 1] & 0xf0));
        }
    }
}

static void put_floats(const struct layout *l, enum plane_kind kind, enum dtype dtype, const uint8_t *p,
                       int64_t n_blocks, uint8_t *out)
{
    for (int64_t b = 0; b < n_blocks; b++, p += block_bytes(l)) {
        float    x = kind == PLANE_SCALES ? half_at(p) : l->factor != 0 ? half_at(p) * l->factor : half_at(p + 2);
        uint16_t half = f32_to_f16(x);
        if (dtype == DTYPE_F32)
            memcpy(out + b * 4, &x, 4);
        else
            memcpy(out + b * 2, &half, 2);
    }
}

static void put_row(const struct plane *p, const uint8_t *row, size_t row_bytes, int64_t cols, uint8_t *out)
{
    const struct layout *l = layout_of(p->source->type);
    if (p->kind == PLANE_DENSE)
        memcpy(out, row, row_bytes);
    else if (p->kind == PLANE_CODES)
        put_codes(l, row, cols / IMPORT_GROUP, out);
    else
        put_floats(l, p->kind, p->view.dtype, row, cols / IMPORT_GROUP, out);
}

/* The file's row for row r of the model: within a head, file row 2 k + half holds model row half * head_dim / 2 + k. */
static int64_t source_row(int64_t r, int64_t rows, int64_t heads)
{
    if (!heads)
        return r;
    int64_t head_dim = rows / heads, in = r % head_dim, half = head_dim / 2;
    return r - in + 2 * (in % half) + in / half;
}

/* ---- whole planes ---- */

static int write_plane(const struct plane *p, struct safetensors_writer *w, struct error *e)
{
    const struct gguf_tensor *t = p->source;
    int64_t                   rows = t->shape[0], cols = t->n_dim == 2 ? t->shape[1] : 1;
    size_t                    in = t->size / (size_t)rows, out = p->view.size / (size_t)rows;
    size_t                    per_chunk = MAX(CHUNK / out, (size_t)1);
    uint8_t                  *buffer = malloc(per_chunk * out);
    int                       status = 0;
    if (!buffer)
        return error_nomem(e, t->name);
    for (int64_t r = 0; r < rows && !status;) {
        size_t n = 0;
        for (; n < per_chunk && r < rows; n++, r++)
            put_row(p, (const uint8_t *)t->data + (size_t)source_row(r, rows, p->heads) * in, in, cols,
                    buffer + n * out);
        status = safetensors_writer_append(w, buffer, n * out, e);
    }
    free(buffer);
    return status;
}

int import_write_planes(const struct import *m, const char *path, struct error *e)
{
    static const char *const   metadata[] = {"format", "mlx", NULL};
    struct safetensors_writer *w = NULL;
    struct tensor_view        *views = calloc(m->n_planes, sizeof *views);
    size_t                     done = 0;
    if (!views)
        return error_nomem(e, "the list of tensors");
    for (size_t i = 0; i < m->n_planes; i++)
        views[i] = m->planes[i].view;
    int status = safetensors_writer_begin(&w, path, views, m->n_planes, metadata, false, e);
    for (size_t i = 0; i < m->n_planes && !status; i++) {
        status = write_plane(&m->planes[i], w, e);
        done += m->planes[i].view.size;
        if (!status)
            status = import_progress(m, done, e);
    }
    if (!status)
        status = safetensors_writer_finish(w, e);
    else
        safetensors_writer_abort(w);
    free(views);
    return status;
}
