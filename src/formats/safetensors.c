/* Reading a safetensors header.
 *
 * One pass of the pull reader collects a view and a span (its offsets) per tensor. Then the spans are sorted and walked
 * once to see that they tile the data, and the views are sorted by name to see that names are unique. Faults of single
 * tensors are collected, so that one message tells all; a fault of the JSON itself ends the reading.
 */
#include "formats/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/num.h"
#include "base/utf8.h"

#define NAME_MAX_BYTES 1000
#define TENSORS_MAX 1000000         /* of a file; the largest checkpoints have some 200,000 */
#define NAMES_MAX ((size_t)1 << 30) /* arena of a 100 MB header: short names are rounded up to 16 bytes */

struct span {
    int64_t begin, end;
    size_t  i; /* of the tensor */
};

struct parse {
    struct safetensors *s;
    struct json         j;
    const char         *file; /* in the arena */
    struct span        *spans;
    size_t              cap_spans, cap_tensors, cap_metadata;
    struct faults       faults;
    bool                nomem;
};

#define FAULT(x, name, fmt, ...)                                                                                       \
    faults_add(&(x)->faults, ERR_FORMAT, (name), "%s: tensor '%s' " fmt, (x)->file, (name), __VA_ARGS__)

/* p, grown to room for more than n elements of `size` bytes; NULL when out of memory (p stays). */
static void *grow(void *p, size_t n, size_t *cap, size_t size)
{
    size_t more = *cap ? *cap * 2 : 64, bytes;
    if (n < *cap)
        return p;
    if (!num_mul(more, size, &bytes) || !(p = realloc(p, bytes)))
        return NULL;
    *cap = more;
    return p;
}

static bool add_tensor(struct parse *x, const struct tensor_view *v, const struct span *span)
{
    struct safetensors *s = x->s;
    struct span        *spans = grow(x->spans, s->n, &x->cap_spans, sizeof *spans);
    struct tensor_view *tensors = grow(s->tensors, s->n, &x->cap_tensors, sizeof *tensors);
    if (spans)
        x->spans = spans;
    if (tensors)
        s->tensors = tensors;
    if (!spans || !tensors)
        return false;
    spans[s->n] = *span;
    tensors[s->n++] = *v;
    return true;
}

static bool add_metadata(struct parse *x, struct safetensors_pair p)
{
    struct safetensors      *s = x->s;
    struct safetensors_pair *v = grow(s->metadata, s->n_metadata, &x->cap_metadata, sizeof *v);
    if (!v)
        return false;
    s->metadata = v;
    v[s->n_metadata++] = p;
    return true;
}

/* The reader's text as a string of the arena. NULL and a fault when it is unfit for a name. */
static const char *take_name(struct parse *x, const char *what)
{
    struct str  t = x->j.text;
    const char *copy;
    if (t.n > NAME_MAX_BYTES || memchr(t.p, '\0', t.n)) {
        faults_add(&x->faults, ERR_FORMAT, "", "%s: a %s of %zu bytes%s; at most %d without NUL are allowed", x->file,
                   what, t.n, t.n > NAME_MAX_BYTES ? "" : " that holds a NUL", NAME_MAX_BYTES);
        return NULL;
    }
    copy = arena_strdup(&x->s->names, t.p, t.n);
    x->nomem |= !copy;
    return copy;
}

/* Reads an array of whole numbers >= 0 into v[max]. Returns how many it holds (perhaps more than max), -1 when it is
 * something else; the value is consumed either way. */
static int64_t read_numbers(struct json *j, enum json_token t, int64_t *v, int max)
{
    int64_t n = 0;
    bool    good = t == JSON_ARRAY;
    if (!good) {
        json_skip(j, t);
        return -1;
    }
    while ((t = json_next(j)) != JSON_ARRAY_END && t != JSON_ERROR) {
        good = good && t == JSON_INT && j->i >= 0;
        if (good && n < max)
            v[n] = j->i;
        n++;
        json_skip(j, t);
    }
    return good && t == JSON_ARRAY_END ? n : -1;
}

enum { HAVE_DTYPE = 1, HAVE_SHAPE = 2, HAVE_OFFSETS = 4, HAVE_ALL = 7 };

/* One field of a tensor's object, whose key the reader has just returned. */
static void read_field(struct parse *x, struct tensor_view *v, struct span *span, int *have)
{
    struct str      key = x->j.text;
    int             bit = str_is(key, "dtype")          ? HAVE_DTYPE
                          : str_is(key, "shape")        ? HAVE_SHAPE
                          : str_is(key, "data_offsets") ? HAVE_OFFSETS
                                                        : 0;
    enum json_token t = json_next(&x->j);
    int64_t         offsets[2], n;
    if (*have & bit)
        FAULT(x, v->name, "gives its %s twice",
              bit == HAVE_DTYPE   ? "dtype"
              : bit == HAVE_SHAPE ? "shape"
                                  : "data_offsets");
    *have |= bit;
    switch (bit) {
    case HAVE_DTYPE:
        v->dtype = t == JSON_STRING ? dtype_from_name(x->j.text) : DTYPE_NONE;
        if (t == JSON_STRING && !v->dtype)
            FAULT(x, v->name, "has the unknown dtype '%.*s'", (int)MIN(x->j.text.n, (size_t)64), x->j.text.p);
        else if (t != JSON_STRING)
            FAULT(x, v->name, "has %s as dtype, a string is needed", json_token_name(t));
        json_skip(&x->j, t);
        break;
    case HAVE_SHAPE:
        n = read_numbers(&x->j, t, v->shape, TENSOR_DIMS_MAX);
        if (n < 0)
            FAULT(x, v->name, "has a shape that is not a list of whole numbers %s", ">= 0");
        else if (n > TENSOR_DIMS_MAX)
            FAULT(x, v->name, "has %" PRId64 " dimensions, at most %d are allowed", n, TENSOR_DIMS_MAX);
        v->n_dim = n < 0 || n > TENSOR_DIMS_MAX ? -1 : (int)n;
        break;
    case HAVE_OFFSETS:
        if (read_numbers(&x->j, t, offsets, 2) != 2)
            FAULT(x, v->name, "has data_offsets that are not two whole numbers %s", ">= 0");
        else
            *span = (struct span){offsets[0], offsets[1], span->i};
        break;
    default:
        json_skip(&x->j, t);
    }
}

/* What can be said of one tensor alone: fields complete, offsets in order and inside, size equal to shape times type.
 */
static void check_tensor(struct parse *x, const struct tensor_view *v, const struct span *span, int have)
{
    char   shape[TENSOR_SHAPE_TEXT];
    size_t bytes;
    if (have != HAVE_ALL) {
        FAULT(x, v->name, "has no %s",
              !(have & HAVE_DTYPE)   ? "dtype"
              : !(have & HAVE_SHAPE) ? "shape"
                                     : "data_offsets");
        return;
    }
    if (span->begin < 0 || !v->dtype || v->n_dim < 0)
        return; /* already reported */
    if (span->end < span->begin)
        FAULT(x, v->name, "has data_offsets that run backwards, [%" PRId64 ", %" PRId64 "]", span->begin, span->end);
    else if (!dtype_bytes(v->dtype, v->shape, v->n_dim, &bytes))
        FAULT(x, v->name, "is %s %s, whose size overflows or is no whole number of bytes", dtype_name(v->dtype),
              tensor_view_shape_text(v, shape));
    else if ((int64_t)bytes != span->end - span->begin)
        FAULT(x, v->name,
              "is %s %s, which takes %zu bytes, but its data_offsets [%" PRId64 ", %" PRId64 "] hold %" PRId64,
              dtype_name(v->dtype), tensor_view_shape_text(v, shape), bytes, span->begin, span->end,
              span->end - span->begin);
}

/* One tensor, whose name the reader has just returned as a key. */
static void read_tensor(struct parse *x)
{
    struct tensor_view v = {.name = take_name(x, "tensor name"), .file = x->file};
    struct span        span = {-1, -1, x->s->n};
    int                have = 0;
    enum json_token    t = json_next(&x->j);
    if (!v.name) {
        json_skip(&x->j, t);
        return;
    }
    if (t != JSON_OBJECT) {
        FAULT(x, v.name, "is described by %s, an object is needed", json_token_name(t));
        json_skip(&x->j, t);
        return;
    }
    while ((t = json_next(&x->j)) == JSON_KEY)
        read_field(x, &v, &span, &have);
    if (t == JSON_ERROR)
        return;
    check_tensor(x, &v, &span, have);
    x->nomem |= !add_tensor(x, &v, &span);
}

/* The value of "__metadata__": an object of strings, or null. */
static void read_metadata(struct parse *x)
{
    struct safetensors *s = x->s;
    enum json_token     t = json_next(&x->j);
    if (t != JSON_OBJECT && t != JSON_NULL)
        faults_add(&x->faults, ERR_FORMAT, "", "%s: __metadata__ is %s, an object is needed", x->file,
                   json_token_name(t));
    if (t != JSON_OBJECT) {
        json_skip(&x->j, t);
        return;
    }
    while (json_next(&x->j) == JSON_KEY) {
        struct safetensors_pair p = {.key = take_name(x, "metadata key")};
        t = json_next(&x->j);
        if (t != JSON_STRING) {
            faults_add(&x->faults, ERR_FORMAT, "", "%s: __metadata__ '%s' is %s, a string is needed", x->file,
                       p.key ? p.key : "", json_token_name(t));
            json_skip(&x->j, t);
            continue;
        }
        if (!p.key)
            continue;
        p.value = arena_strdup(&s->names, x->j.text.p, x->j.text.n);
        x->nomem |= !p.value || !add_metadata(x, p);
    }
}

static int by_offset(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor_view *)a)->name, ((const struct tensor_view *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct safetensors_pair *)a)->key, ((const struct safetensors_pair *)b)->key);
}

/* The tensors must tile the data: each begins where the one before ended, and the last ends with the file, which has
 * `size` bytes of data after `before_data` others. */
static void check_layout(struct parse *x, size_t before_data, int64_t size)
{
    struct safetensors *s = x->s;
    const char         *before = NULL;
    int64_t             at = 0;
    if (s->n)
        qsort(x->spans, s->n, sizeof *x->spans, by_offset);
    for (size_t i = 0; i < s->n; i++) {
        const struct span *p = &x->spans[i];
        const char        *name = s->tensors[p->i].name;
        if (p->begin < 0 || p->end < p->begin)
            continue; /* already reported */
        if (p->begin > at)
            FAULT(x, name, "begins at data byte %" PRId64 ", but bytes from %" PRId64 " on belong to no tensor",
                  p->begin, at);
        else if (p->begin < at)
            FAULT(x, name, "begins at data byte %" PRId64 " inside tensor '%s', which ends at %" PRId64, p->begin,
                  before, at);
        if (p->end > at)
            before = name;
        at = MAX(at, p->end);
    }
    if (at > size)
        faults_add(&x->faults, ERR_FORMAT, "",
                   "%s: the file has %" PRIu64 " bytes, its tensors need %" PRIu64 " (is it cut short?)", x->file,
                   (uint64_t)size + before_data, (uint64_t)at + before_data);
    if (at < size && !x->faults.n)
        faults_add(&x->faults, ERR_FORMAT, "", "%s: %" PRId64 " bytes after the end of the last tensor", x->file,
                   size - at);
}

static void check_names(struct parse *x)
{
    struct safetensors *s = x->s;
    if (s->n)
        qsort(s->tensors, s->n, sizeof *s->tensors, by_name);
    if (s->n_metadata)
        qsort(s->metadata, s->n_metadata, sizeof *s->metadata, by_key);
    for (size_t i = 1; i < s->n; i++)
        if (strcmp(s->tensors[i - 1].name, s->tensors[i].name) == 0)
            FAULT(x, s->tensors[i].name, "is described %s", "twice");
    for (size_t i = 1; i < s->n_metadata; i++)
        if (strcmp(s->metadata[i - 1].key, s->metadata[i].key) == 0)
            faults_add(&x->faults, ERR_FORMAT, "", "%s: __metadata__ gives '%s' twice", x->file, s->metadata[i].key);
}

/* The header's JSON, then all checks; `before_data` bytes of the file stand before the data, of which there are `size`
 * bytes; data: NULL if they are not at hand. */
static int parse_header(struct parse *x, size_t before_data, const char *data, size_t size, struct error *e)
{
    struct safetensors *s = x->s;
    bool                metadata = false;
    enum json_token     t = json_next(&x->j); /* the '{' that was checked */
    while (t != JSON_ERROR && (t = json_next(&x->j)) == JSON_KEY) {
        if (x->nomem)
            return error_nomem(e, x->file);
        if (str_is(x->j.text, "__metadata__")) {
            if (metadata)
                faults_add(&x->faults, ERR_FORMAT, "", "%s: two __metadata__ objects", x->file);
            metadata = true;
            read_metadata(x);
        } else if (s->n < TENSORS_MAX)
            read_tensor(x);
        else
            return error_set(e, ERR_LIMIT, NULL, "%s: more than %d tensors", x->file, TENSORS_MAX);
    }
    if (t != JSON_ERROR)
        t = json_next(&x->j);
    if (x->nomem)
        return error_nomem(e, x->file);
    if (t != JSON_EOF)
        return json_fault(&x->j, e, x->file);
    check_layout(x, before_data, (int64_t)size);
    for (size_t i = 0; i < s->n && !x->faults.n; i++) {
        const struct span *p = &x->spans[i];
        s->tensors[p->i].data = data ? data + p->begin : NULL;
        s->tensors[p->i].size = (size_t)(p->end - p->begin);
    }
    check_names(x);
    return faults_report(&x->faults, e);
}

/* What the first eight bytes claim. */
static uint64_t header_length(const char *p)
{
    uint64_t n = 0;
    for (int i = 0; i < 8; i++)
        n |= (uint64_t)(unsigned char)p[i] << 8 * i;
    return n;
}

size_t safetensors_head(const char *p, size_t n)
{
    return n < 8 ? n : 8 + (size_t)MIN(header_length(p), (uint64_t)SAFETENSORS_HEADER_MAX);
}

int safetensors_parse(struct safetensors *s, const char *p, size_t n, const char *file, struct error *e)
{
    return safetensors_parse_head(s, p, n, n, file, e);
}

int safetensors_parse_head(struct safetensors *s, const char *p, size_t head, size_t n, const char *file,
                           struct error *e)
{
    struct parse x = {.s = s};
    *s = (struct safetensors){0};
    if (n < 8)
        return error_set(e, ERR_FORMAT, NULL, "%s: %zu bytes are too few for a safetensors file", file, n);
    uint64_t header = header_length(p);
    if (header > SAFETENSORS_HEADER_MAX)
        return error_set(e, ERR_FORMAT, NULL, "%s: its header claims %" PRIu64 " bytes, at most %zu are allowed", file,
                         header, SAFETENSORS_HEADER_MAX);
    if (header > n - 8 || header > head - 8)
        return error_set(e, ERR_FORMAT, NULL,
                         "%s: its header claims %" PRIu64 " bytes, but only %zu follow (is it cut short?)", file,
                         header, n - 8);
    if (header == 0 || p[8] != '{')
        return error_set(e, ERR_FORMAT, NULL, "%s: its header does not begin with '{'", file);
    arena_init(&s->names, NAMES_MAX);
    json_init(&x.j, p + 8, (size_t)header);
    x.file = arena_strdup(&s->names, file, strlen(file));
    size_t before = 8 + (size_t)header;
    int status = x.file ? parse_header(&x, before, head == n ? p + before : NULL, n - before, e) : error_nomem(e, file);
    json_deinit(&x.j);
    faults_deinit(&x.faults);
    free(x.spans);
    if (status)
        safetensors_deinit(s);
    return status;
}

void safetensors_deinit(struct safetensors *s)
{
    free(s->tensors);
    free(s->metadata);
    arena_deinit(&s->names);
    *s = (struct safetensors){0};
}
