/* Reading the values of an opened GGUF file, whose bounds were checked by gguf.c. */
#include <inttypes.h>
#include <string.h>

#include "formats/gguf_int.h"

static const struct {
    const char *name;
    size_t      size;
} types[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},   [GGUF_U16] = {"u16", 2}, [GGUF_I16] = {"i16", 2},
    [GGUF_U32] = {"u32", 4},     [GGUF_I32] = {"i32", 4}, [GGUF_F32] = {"f32", 4}, [GGUF_BOOL] = {"bool", 1},
    [GGUF_U64] = {"u64", 8},     [GGUF_I64] = {"i64", 8}, [GGUF_F64] = {"f64", 8}, [GGUF_STR] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0},
};

uint64_t gguf_load_bits(const char *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)(unsigned char)p[i] << 8 * i;
    return v;
}

size_t gguf_type_size(enum gguf_type t)
{
    return types[t].size;
}

static bool is_int(enum gguf_type t)
{
    return t <= GGUF_I32 || t == GGUF_U64 || t == GGUF_I64;
}

static bool is_num(enum gguf_type t)
{
    return is_int(t) || t == GGUF_F32 || t == GGUF_F64;
}

static int64_t load_int(enum gguf_type t, const char *p)
{
    uint64_t v = gguf_load_bits(p, types[t].size);
    switch (t) {
    case GGUF_I8:
        return (int8_t)v;
    case GGUF_I16:
        return (int16_t)v;
    case GGUF_I32:
        return (int32_t)v;
    case GGUF_U64:
        return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    default:
        return (int64_t)v;
    }
}

static double load_num(enum gguf_type t, const char *p)
{
    uint64_t v = gguf_load_bits(p, types[t].size);
    uint32_t half = (uint32_t)v;
    float    f;
    double   d;
    if (t == GGUF_F32) {
        memcpy(&f, &half, sizeof f);
        return (double)f;
    }
    if (t == GGUF_F64) {
        memcpy(&d, &v, sizeof d);
        return d;
    }
    return t == GGUF_U64 ? (double)v : (double)load_int(t, p);
}

static struct str load_str(const char *p)
{
    return (struct str){p + 8, (size_t)gguf_load_bits(p, 8)};
}

/* --- by key ------------------------------------------------------------------------------------------------------- */

size_t gguf_value_count(const struct gguf *g)
{
    return g->n_values;
}

const char *gguf_key_at(const struct gguf *g, size_t i)
{
    return g->values[i].key;
}

bool gguf_has(const struct gguf *g, const char *key)
{
    return gguf_value_find(g, key) != NULL;
}

/* The value, or *status and a sentence that says `need`. */
static const struct gguf_value *need(const struct gguf *g, const char *key, bool array, bool (*fits)(enum gguf_type),
                                     const char *what, int *status, struct error *e)
{
    const struct gguf_value *v = gguf_value_find(g, key);
    *status = 0;
    if (!v)
        *status = error_set(e, ERR_NOT_FOUND, key, "%s: the value '%s' is missing, %s is needed", g->name, key, what);
    else if (v->array != array || !fits(v->type))
        *status = error_set(e, ERR_FORMAT, key, "%s: the value '%s' has the type %s%s, %s is needed", g->name, key,
                            v->array ? "array of " : "", types[v->type].name, what);
    return *status ? NULL : v;
}

static bool is_bool(enum gguf_type t)
{
    return t == GGUF_BOOL;
}

static bool is_str(enum gguf_type t)
{
    return t == GGUF_STR;
}

int gguf_get_int(const struct gguf *g, const char *key, int64_t lo, int64_t hi, int64_t *out, struct error *e)
{
    int                      status;
    const struct gguf_value *v = need(g, key, false, is_int, "a whole number", &status, e);
    if (!v)
        return status;
    int64_t x = load_int(v->type, v->p);
    if (x < lo || x > hi)
        return error_set(e, ERR_FORMAT, key,
                         "%s: the value '%s' is %" PRId64 ", %" PRId64 " to %" PRId64 " are allowed", g->name, key, x,
                         lo, hi);
    *out = x;
    return 0;
}

int gguf_get_num(const struct gguf *g, const char *key, double *out, struct error *e)
{
    int                      status;
    const struct gguf_value *v = need(g, key, false, is_num, "a number", &status, e);
    if (v)
        *out = load_num(v->type, v->p);
    return status;
}

int gguf_get_bool(const struct gguf *g, const char *key, bool *out, struct error *e)
{
    int                      status;
    const struct gguf_value *v = need(g, key, false, is_bool, "a bool", &status, e);
    if (v)
        *out = *v->p != 0;
    return status;
}

int gguf_get_str(const struct gguf *g, const char *key, struct str *out, struct error *e)
{
    int                      status;
    const struct gguf_value *v = need(g, key, false, is_str, "a string", &status, e);
    if (v)
        *out = load_str(v->p);
    return status;
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

int gguf_get_array(const struct gguf *g, const char *key, enum gguf_kind kind, struct gguf_array *out, struct error *e)
{
    static const struct {
        bool (*fits)(enum gguf_type);
        const char *what;
    } kinds[] = {
        [GGUF_KIND_INT] = {is_int, "an array of whole numbers"},
        [GGUF_KIND_NUM] = {is_num, "an array of numbers"},
        [GGUF_KIND_BOOL] = {is_bool, "an array of bools"},
        [GGUF_KIND_STR] = {is_str, "an array of strings"},
    };
    int                      status;
    const struct gguf_value *v = need(g, key, true, kinds[kind].fits, kinds[kind].what, &status, e);
    if (v)
        *out = (struct gguf_array){v->type, v->count, v->p};
    return status;
}

/* The place of the next element, NULL after the last. */
static const char *step(struct gguf_array *a)
{
    const char *p = a->p;
    if (!a->left)
        return NULL;
    a->left--;
    a->p += a->type == GGUF_STR ? 8 + load_str(p).n : types[a->type].size;
    return p;
}

int64_t gguf_next_int(struct gguf_array *a)
{
    const char *p = step(a);
    return p ? load_int(a->type, p) : 0;
}

double gguf_next_num(struct gguf_array *a)
{
    const char *p = step(a);
    return p ? load_num(a->type, p) : 0;
}

bool gguf_next_bool(struct gguf_array *a)
{
    const char *p = step(a);
    return p && *p;
}

struct str gguf_next_str(struct gguf_array *a)
{
    const char *p = step(a);
    return p ? load_str(p) : (struct str){"", 0};
}
