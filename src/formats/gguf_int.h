/* What gguf.c (opening) and gguf_value.c (reading values) share. */
#ifndef MLXCEL_FORMATS_GGUF_INT_H
#define MLXCEL_FORMATS_GGUF_INT_H

#include "base/arena.h"
#include "base/file.h"
#include "formats/gguf.h"

struct gguf_value {
    const char    *key;
    bool           array;
    enum gguf_type type; /* of the value, or of an array's elements */
    uint64_t       count;
    const char    *p; /* checked to hold count elements */
};

struct gguf_extent {
    uint64_t offset;
    size_t   i; /* of the tensor */
};

struct gguf {
    struct file_map     map; /* empty when parsed from memory */
    const char         *start;
    size_t              size;
    const char         *name;
    struct gguf_value  *values;  /* sorted by key */
    struct gguf_tensor *tensors; /* sorted by name */
    size_t              n_values, n_tensors;
    struct gguf_extent *extents; /* only while parsing */
    struct arena        names;
};

/* A little-endian number of 1 to 8 bytes. */
uint64_t gguf_load_bits(const char *p, size_t bytes);
/* Bytes of a fixed-size value type; 0 for strings and arrays. */
size_t                   gguf_type_size(enum gguf_type t);
const struct gguf_value *gguf_value_find(const struct gguf *g, const char *key); /* NULL if there is none */

#endif
