/* Opening a GGUF file: a cursor reader that fails once and for all, then the checks; contracts in gguf.h.
 * Reading values is in gguf_value.c. */
#include "formats/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "formats/gguf_int.h"

#define COUNT_MAX 1000000 /* tensors, and values; real files have thousands */
#define NAME_MAX_BYTES 1000
#define VALUE_MIN 13  /* bytes of the smallest value: empty key, type, one byte */
#define TENSOR_MIN 24 /* bytes of the smallest tensor description */
#define NAMES_MAX ((size_t)1 << 31)

/* --- types -------------------------------------------------------------------------------------------------------- */

bool ggml_type_info(uint32_t type, struct ggml_type_info *out)
{
    switch (type) {
#define GGML_TYPE(number, name, elements, bytes)                                                                       \
    case number:                                                                                                       \
        *out = (struct ggml_type_info){#name, elements, bytes};                                                        \
        return true;
#include "formats/ggml_types.def"
#undef GGML_TYPE
    default:
        return false;
    }
}

const char *ggml_type_name(uint32_t type, char out[24])
{
    struct ggml_type_info info;
    if (ggml_type_info(type, &info))
        return info.name;
    snprintf(out, 24, "type %" PRIu32, type);
    return out;
}

/* --- cursor ------------------------------------------------------------------------------------------------------- */

struct cursor {
    const char *p, *end;
    bool        bad; /* the bytes ran out; everything read since is zero */
};

static size_t left(const struct cursor *c)
{
    return (size_t)(c->end - c->p);
}

static const char *take(struct cursor *c, uint64_t n)
{
    const char *p = c->p;
    if (c->bad || n > left(c)) {
        c->bad = true;
        return NULL;
    }
    c->p += n;
    return p;
}

static uint64_t take_number(struct cursor *c, size_t bytes)
{
    const char *p = take(c, bytes);
    return p ? gguf_load_bits(p, bytes) : 0;
}

static struct str take_str(struct cursor *c)
{
    uint64_t    n = take_number(c, 8);
    const char *p = take(c, n);
    return p ? (struct str){p, (size_t)n} : (struct str){"", 0};
}

/* --- header ------------------------------------------------------------------------------------------------------- */

static int cut_short(const struct gguf *g, const char *where, struct error *e)
{
    return error_set(e, ERR_FORMAT, NULL, "%s: the file ends inside %s (is it cut short?)", g->name, where);
}

/* A key or a tensor's name, as a string of the arena. */
static int take_name(struct gguf *g, struct cursor *c, const char *what, const char **out, struct error *e)
{
    struct str s = take_str(c);
    if (c->bad)
        return cut_short(g, what, e);
    if (s.n > NAME_MAX_BYTES || memchr(s.p, '\0', s.n))
        return error_set(e, ERR_FORMAT, NULL, "%s: %s of %zu bytes%s; at most %d without NUL are allowed", g->name,
                         what, s.n, s.n > NAME_MAX_BYTES ? "" : " that holds a NUL", NAME_MAX_BYTES);
    *out = arena_strdup(&g->names, s.p, s.n);
    return *out ? 0 : error_nomem(e, g->name);
}

/* Steps over n elements of a type. */
static int skip_elements(const struct gguf *g, struct cursor *c, const char *key, enum gguf_type type, uint64_t n,
                         struct error *e)
{
    uint64_t bytes;
    if (type == GGUF_STR)
        while (n-- && !c->bad)
            take_str(c);
    else if (!num_mul(n, (uint64_t)gguf_type_size(type), &bytes) || !take(c, bytes))
        c->bad = true;
    return c->bad ? error_set(e, ERR_FORMAT, key, "%s: the file ends inside the value '%s' (is it cut short?)", g->name,
                              key)
                  : 0;
}

static int read_value(struct gguf *g, struct cursor *c, struct error *e)
{
    struct gguf_value v = {0};
    int               status = take_name(g, c, "a key", &v.key, e);
    if (status)
        return status;
    uint64_t type = take_number(c, 4);
    v.array = type == GGUF_ARRAY;
    v.count = 1;
    if (v.array) {
        type = take_number(c, 4);
        v.count = take_number(c, 8);
    }
    if (c->bad)
        return cut_short(g, "a value", e);
    if (type >= GGUF_TYPE_COUNT || type == GGUF_ARRAY)
        return error_set(e, ERR_FORMAT, v.key, "%s: the value '%s' has the %stype %" PRIu64 ", which is not supported",
                         g->name, v.key, v.array ? "element " : "", type);
    v.type = (enum gguf_type)type;
    v.p = c->p;
    status = skip_elements(g, c, v.key, v.type, v.count, e);
    if (!status)
        g->values[g->n_values++] = v;
    return status;
}

/* The size in bytes of a tensor whose type is known. */
static int tensor_size(const struct gguf *g, struct gguf_tensor *t, const struct ggml_type_info *info, struct error *e)
{
    int64_t n = t->shape[t->n_dim - 1];
    if (n % info->block_elements)
        return error_set(e, ERR_FORMAT, t->name,
                         "%s: tensor '%s' is %s with rows of %" PRId64 " elements, not a multiple of %d", g->name,
                         t->name, info->name, n, info->block_elements);
    n /= info->block_elements;
    for (int i = 0; i < t->n_dim - 1; i++)
        if (!num_mul(n, t->shape[i], &n))
            return error_set(e, ERR_FORMAT, t->name, "%s: the size of tensor '%s' overflows", g->name, t->name);
    if (!num_mul(n, (int64_t)info->block_bytes, &n))
        return error_set(e, ERR_FORMAT, t->name, "%s: the size of tensor '%s' overflows", g->name, t->name);
    t->size = (size_t)n;
    return 0;
}

static int read_tensor(struct gguf *g, struct cursor *c, struct error *e)
{
    struct gguf_extent   *x = &g->extents[g->n_tensors];
    struct gguf_tensor    t = {0};
    struct ggml_type_info info;
    uint64_t              dims[GGUF_DIMS_MAX] = {0};
    int                   status = take_name(g, c, "a tensor name", &t.name, e);
    if (status)
        return status;
    uint64_t n_dim = take_number(c, 4);
    if (!c->bad && (n_dim < 1 || n_dim > GGUF_DIMS_MAX))
        return error_set(e, ERR_FORMAT, t.name, "%s: tensor '%s' has %" PRIu64 " dimensions, 1 to %d are allowed",
                         g->name, t.name, n_dim, GGUF_DIMS_MAX);
    for (uint64_t i = 0; i < n_dim && !c->bad; i++)
        dims[i] = take_number(c, 8);
    t.type = (uint32_t)take_number(c, 4);
    x->offset = take_number(c, 8);
    x->i = g->n_tensors;
    if (c->bad)
        return cut_short(g, "a tensor description", e);
    t.n_dim = (int)n_dim;
    for (int i = 0; i < t.n_dim; i++) {
        if (dims[i] > INT64_MAX)
            return error_set(e, ERR_FORMAT, t.name, "%s: the size of tensor '%s' overflows", g->name, t.name);
        t.shape[t.n_dim - 1 - i] = (int64_t)dims[i];
    }
    if (ggml_type_info(t.type, &info))
        status = tensor_size(g, &t, &info, e);
    if (!status)
        g->tensors[g->n_tensors++] = t;
    return status;
}

/* --- checks over all ---------------------------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const struct gguf_extent *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Tensors lie inside the data and apart; gives them their addresses. */
static int place_tensors(struct gguf *g, struct cursor *c, struct error *e)
{
    int64_t align = 32;
    size_t  start, at = 0;
    if (gguf_has(g, "general.alignment")) {
        int status = gguf_get_int(g, "general.alignment", 1, 1 << 30, &align, e);
        if (status)
            return status;
        if (align & (align - 1))
            return error_set(e, ERR_FORMAT, "general.alignment",
                             "%s: general.alignment is %" PRId64 ", a power of two is needed", g->name, align);
    }
    if (!num_align((size_t)(c->p - g->start), (size_t)align, &start))
        return cut_short(g, "the header", e);
    start = MIN(start, g->size); /* the padding may be missing when no data follows */
    size_t size = g->size - start;
    if (g->n_tensors)
        qsort(g->extents, g->n_tensors, sizeof *g->extents, by_offset);
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensors[g->extents[i].i];
        uint64_t            offset = g->extents[i].offset;
        char                type[24];
        if (offset % (uint64_t)align)
            return error_set(e, ERR_FORMAT, t->name,
                             "%s: tensor '%s' is at offset %" PRIu64 ", not a multiple of %" PRId64, g->name, t->name,
                             offset, align);
        if (offset > size || t->size > size - offset)
            return error_set(e, ERR_FORMAT, t->name,
                             "%s: tensor '%s' (%s) takes %zu bytes at offset %" PRIu64
                             ", but the data has only %zu (is the file "
                             "cut short?)",
                             g->name, t->name, ggml_type_name(t->type, type), t->size, offset, size);
        if (offset < at)
            return error_set(e, ERR_FORMAT, t->name,
                             "%s: tensor '%s' at offset %" PRIu64 " overlaps the one before it, which "
                             "ends at %zu",
                             g->name, t->name, offset, at);
        at = (size_t)offset + t->size;
        if (ggml_type_info(t->type, &(struct ggml_type_info){0}))
            t->data = g->start + start + offset;
    }
    return 0;
}

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const struct gguf_tensor *)a)->name, ((const struct gguf_tensor *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct gguf_value *)a)->key, ((const struct gguf_value *)b)->key);
}

static int sort_values(struct gguf *g, struct error *e)
{
    if (g->n_values)
        qsort(g->values, g->n_values, sizeof *g->values, by_key);
    for (size_t i = 1; i < g->n_values; i++)
        if (strcmp(g->values[i - 1].key, g->values[i].key) == 0)
            return error_set(e, ERR_FORMAT, g->values[i].key, "%s: the key '%s' occurs twice", g->name,
                             g->values[i].key);
    return 0;
}

static int sort_tensors(struct gguf *g, struct error *e)
{
    if (g->n_tensors)
        qsort(g->tensors, g->n_tensors, sizeof *g->tensors, by_tensor);
    for (size_t i = 1; i < g->n_tensors; i++)
        if (strcmp(g->tensors[i - 1].name, g->tensors[i].name) == 0)
            return error_set(e, ERR_FORMAT, g->tensors[i].name, "%s: tensor '%s' is described twice", g->name,
                             g->tensors[i].name);
    return 0;
}

/* Magic, version and the two counts, against what the file could hold. */
static int read_counts(struct gguf *g, struct cursor *c, uint64_t *n_tensors, uint64_t *n_values, struct error *e)
{
    const char *magic = take(c, 4);
    uint64_t    version = take_number(c, 4);
    *n_tensors = take_number(c, 8);
    *n_values = take_number(c, 8);
    if (!magic || memcmp(magic, "GGUF", 4) != 0)
        return error_set(e, ERR_FORMAT, NULL, "%s is not a GGUF file: it does not begin with 'GGUF'", g->name);
    if (c->bad)
        return cut_short(g, "the header", e);
    if (version && !(version & 0xffff))
        return error_set(e, ERR_UNSUPPORTED, NULL, "%s is a big-endian GGUF file, which is not supported", g->name);
    if (version != 2 && version != 3)
        return error_set(e, ERR_UNSUPPORTED, NULL, "%s: GGUF version %" PRIu64 " is not supported, 2 and 3 are",
                         g->name, version);
    if (*n_tensors > COUNT_MAX || *n_tensors > left(c) / TENSOR_MIN)
        return error_set(e, ERR_FORMAT, NULL,
                         "%s claims %" PRIu64 " tensors, too many for its %zu bytes (is it cut short?)", g->name,
                         *n_tensors, g->size);
    if (*n_values > COUNT_MAX || *n_values > left(c) / VALUE_MIN)
        return error_set(e, ERR_FORMAT, NULL,
                         "%s claims %" PRIu64 " values, too many for its %zu bytes (is it cut short?)", g->name,
                         *n_values, g->size);
    return 0;
}

static int parse(struct gguf *g, struct error *e)
{
    struct cursor c = {.p = g->start, .end = g->start + g->size};
    uint64_t      n_tensors, n_values;
    int           status = read_counts(g, &c, &n_tensors, &n_values, e);
    if (status)
        return status;
    g->values = calloc(MAX(n_values, (uint64_t)1), sizeof *g->values);
    g->tensors = calloc(MAX(n_tensors, (uint64_t)1), sizeof *g->tensors);
    g->extents = calloc(MAX(n_tensors, (uint64_t)1), sizeof *g->extents);
    if (!g->values || !g->tensors || !g->extents)
        return error_nomem(e, g->name);
    for (uint64_t i = 0; i < n_values && !status; i++)
        status = read_value(g, &c, e);
    if (!status)
        status = sort_values(g, e);
    for (uint64_t i = 0; i < n_tensors && !status; i++)
        status = read_tensor(g, &c, e);
    if (!status)
        status = place_tensors(g, &c, e);
    return status ? status : sort_tensors(g, e);
}

/* --- public ------------------------------------------------------------------------------------------------------- */

int gguf_parse(struct gguf **out, const char *p, size_t n, const char *name, struct error *e)
{
    int          status;
    struct gguf *g = calloc(1, sizeof *g);
    if (!g)
        return error_nomem(e, name);
    arena_init(&g->names, NAMES_MAX);
    g->start = p;
    g->size = n;
    g->name = arena_strdup(&g->names, name, strlen(name));
    status = g->name ? parse(g, e) : error_nomem(e, name);
    free(g->extents);
    g->extents = NULL;
    if (status)
        gguf_close(g);
    else
        *out = g;
    return status;
}

int gguf_open(struct gguf **out, const char *path, struct error *e)
{
    struct file_map map;
    int             status = file_map_open(&map, path, e);
    if (status)
        return status;
    status = gguf_parse(out, map.p, map.n, file_base(path), e);
    if (status)
        file_map_close(&map);
    else
        (*out)->map = map;
    return status;
}

void gguf_close(struct gguf *g)
{
    if (!g)
        return;
    free(g->values);
    free(g->tensors);
    free(g->extents);
    arena_deinit(&g->names);
    file_map_close(&g->map);
    free(g);
}

const char *gguf_name(const struct gguf *g)
{
    return g->name;
}

size_t gguf_tensor_count(const struct gguf *g)
{
    return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
    return &g->tensors[i];
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
    struct gguf_tensor key = {.name = name};
    return g->n_tensors ? bsearch(&key, g->tensors, g->n_tensors, sizeof key, by_tensor) : NULL;
}

const struct gguf_value *gguf_value_find(const struct gguf *g, const char *key)
{
    struct gguf_value k = {.key = key};
    return g->n_values ? bsearch(&k, g->values, g->n_values, sizeof k, by_key) : NULL;
}
