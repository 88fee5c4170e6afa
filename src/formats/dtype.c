/* See dtype.h. */
#include "formats/dtype.h"

#include <string.h>

#include "base/half.h"
#include "base/num.h"

static const struct {
    const char *name;
    int         bits;
} table[DTYPE_COUNT] = {
    [DTYPE_NONE] = {"none", 0},
#define DTYPE(name, bits) [DTYPE_##name] = {#name, bits},
#include "formats/dtypes.def"
#undef DTYPE
};

const char *dtype_name(enum dtype d)
{
    return table[(unsigned)d < DTYPE_COUNT ? d : DTYPE_NONE].name;
}

enum dtype dtype_from_name(struct str s)
{
    for (int d = DTYPE_NONE + 1; d < DTYPE_COUNT; d++)
        if (str_is(s, table[d].name))
            return (enum dtype)d;
    return DTYPE_NONE;
}

int dtype_bits(enum dtype d)
{
    return table[(unsigned)d < DTYPE_COUNT ? d : DTYPE_NONE].bits;
}

size_t dtype_size(enum dtype d)
{
    int bits = dtype_bits(d);
    return bits % 8 ? 0 : (size_t)bits / 8;
}

bool dtype_is_float16_32(enum dtype d)
{
    return d == DTYPE_F16 || d == DTYPE_BF16 || d == DTYPE_F32;
}

float dtype_load(enum dtype d, const void *p, int64_t i)
{
    uint16_t h;
    float    f;
    if (d == DTYPE_F32) {
        memcpy(&f, (const char *)p + 4 * i, sizeof f);
        return f;
    }
    memcpy(&h, (const char *)p + 2 * i, sizeof h);
    return d == DTYPE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

bool dtype_bytes(enum dtype d, const int64_t *shape, int n_dim, size_t *bytes)
{
    int64_t n = 1;
    for (int i = 0; i < n_dim; i++)
        if (shape[i] < 0 || !num_mul(n, shape[i], &n))
            return false;
    if (!num_mul(n, (int64_t)dtype_bits(d), &n) || n % 8)
        return false;
    *bytes = (size_t)(n / 8);
    return true;
}
