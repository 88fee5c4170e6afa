/* Reading GGUF files, version 2 and 3, for import. Numbers are little-endian.
 *
 *     "GGUF" | u32 version | u64 n_tensors | u64 n_values
 *     n_values  x: string key | u32 type | value              string: u64 bytes | bytes (no NUL at the end)
 *                  array value: u32 type of the elements | u64 count | elements
 *     n_tensors x: string name | u32 n_dim | u64 dims[n_dim] | u32 type | u64 offset
 *     padding to the alignment (value general.alignment, 32 when absent) | data, to which the offsets count
 *
 * The whole structure is checked when the file is opened: every length against the bytes that are left, names unique
 * and without NUL, offsets aligned, tensors inside the file and apart from each other. So what the functions below hand
 * out can be read without further checks. Tensors of a type that is not in ggml_types.def are kept with their number,
 * so that the caller can refuse them by name; their data is NULL. Arrays of arrays are refused: nothing writes them.
 *
 * Everything is a view of the mapping (or belongs to the gguf) and lives until gguf_close.
 */
#ifndef MLXCEL_FORMATS_GGUF_H
#define MLXCEL_FORMATS_GGUF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define GGUF_DIMS_MAX 4

/* Types of values; the numbers are the format's. */
enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STR,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
};

enum ggml_type { /* of a tensor; other numbers occur */
#define GGML_TYPE(number, name, elements, bytes) GGML_##name = number,
#include "formats/ggml_types.def"
#undef GGML_TYPE
};

/* Facts of a tensor type. False for a type that is not in the table. */
struct ggml_type_info {
    const char *name;
    int         block_elements, block_bytes;
};
bool ggml_type_info(uint32_t type, struct ggml_type_info *out);
/* "Q4_1", or "type 99" in out. */
const char *ggml_type_name(uint32_t type, char out[24]);

/* shape is as everywhere in this program, the contiguous dimension last; the file has it the other way round. */
struct gguf_tensor {
    const char *name;
    uint32_t    type;
    int         n_dim; /* 1..4 */
    int64_t     shape[GGUF_DIMS_MAX];
    const void *data; /* at a multiple of general.alignment of the file; NULL when the type is unknown */
    size_t      size; /* bytes: rows of whole blocks */
};

struct gguf;
int gguf_open(struct gguf **out, const char *path, struct error *e);
/* The same for n bytes at p, which must outlive it; `name` is for messages. */
int  gguf_parse(struct gguf **out, const char *p, size_t n, const char *name, struct error *e);
void gguf_close(struct gguf *g); /* NULL is fine */

const char               *gguf_name(const struct gguf *g); /* base name of the file, for messages */
size_t                    gguf_tensor_count(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i);           /* sorted by name */
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name); /* NULL if there is none */
size_t                    gguf_value_count(const struct gguf *g);
const char               *gguf_key_at(const struct gguf *g, size_t i); /* sorted */
bool                      gguf_has(const struct gguf *g, const char *key);

/* Typed reads of the value of a key. 0 and *out, or ERR_NOT_FOUND when the key is missing, ERR_FORMAT when its value is
 * of another kind or out of range; the sentence names file, key, what was found and what is needed. An integer is a
 * number. */
int gguf_get_int(const struct gguf *g, const char *key, int64_t lo, int64_t hi, int64_t *out, struct error *e);
int gguf_get_num(const struct gguf *g, const char *key, double *out, struct error *e);
int gguf_get_bool(const struct gguf *g, const char *key, bool *out, struct error *e);
int gguf_get_str(const struct gguf *g, const char *key, struct str *out, struct error *e); /* any bytes */

/* A cursor over an array's elements: read `left` times with the getter of its element type. */
struct gguf_array {
    enum gguf_type type;
    uint64_t       left;
    const char    *p;
};
enum gguf_kind { GGUF_KIND_INT, GGUF_KIND_NUM, GGUF_KIND_BOOL, GGUF_KIND_STR };
/* The array must have elements that can be read as `kind`. */
int gguf_get_array(const struct gguf *g, const char *key, enum gguf_kind kind, struct gguf_array *out, struct error *e);
/* The next element; the zero of its kind after the last. A U64 beyond int64 reads as INT64_MAX. */
int64_t    gguf_next_int(struct gguf_array *a);
double     gguf_next_num(struct gguf_array *a);
bool       gguf_next_bool(struct gguf_array *a);
struct str gguf_next_str(struct gguf_array *a);

#endif
