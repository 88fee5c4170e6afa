/* One walk over an adapter's bytes: its hash, and whether all values are finite. A value is not finite when all bits of
 * its exponent are set; words of 8 bytes are tested at once, by a carry out of the exponent into the sign's place. */
#include <xxhash.h>

#include "adapt/file_int.h"
#include "base/num.h"

#define BLOCK ((size_t)16384) /* bytes that are hashed while they are in the nearest cache */

struct exponent {
    uint64_t mask, carry, sign;
};

static struct exponent exponent_of(enum dtype d)
{
    switch (d) {
    case DTYPE_F32:
        return (struct exponent){0x7f8000007f800000, 0x0080000000800000, 0x8000000080000000};
    case DTYPE_F16:
        return (struct exponent){0x7c007c007c007c00, 0x0400040004000400, 0x8000800080008000};
    default: /* BF16 */
        return (struct exponent){0x7f807f807f807f80, 0x0080008000800080, 0x8000800080008000};
    }
}

/* Whether the n bytes hold a value that is not finite. Zeros behind the end do no harm. */
static bool has_infinite(const char *p, size_t n, struct exponent x)
{
    uint64_t acc = 0, w;
    size_t   i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&w, p + i, 8);
        acc |= (w & x.mask) + x.carry;
    }
    w = 0;
    memcpy(&w, p + i, n - i);
    acc |= (w & x.mask) + x.carry;
    return acc & x.sign;
}

static void report(struct adapter_reader *r, const struct tensor_view *t, size_t block)
{
    size_t          size = dtype_size(t->dtype), i = block / size;
    struct exponent x = exponent_of(t->dtype);
    while (!has_infinite((const char *)t->data + i * size, size, x))
        i++;
    faults_add(r->faults, ERR_FORMAT, t->name, "%s: element %zu of %s is %g, numbers must be finite", t->file, i,
               t->name, (double)dtype_load(t->dtype, t->data, (int64_t)i));
}

static bool scan_tensor(struct adapter_reader *r, XXH3_state_t *h, const struct tensor_view *t)
{
    const char     *p = t->data;
    bool            said = !dtype_is_float16_32(t->dtype); /* other types are refused anyway */
    struct exponent x = exponent_of(t->dtype);
    int64_t         facts[2] = {t->dtype, t->n_dim};
    bool            ok = XXH3_128bits_update(h, t->name, strlen(t->name) + 1) == XXH_OK &&
              XXH3_128bits_update(h, facts, sizeof facts) == XXH_OK &&
              XXH3_128bits_update(h, t->shape, (size_t)t->n_dim * sizeof *t->shape) == XXH_OK;
    for (size_t i = 0; ok && i < t->size; i += BLOCK) {
        size_t n = MIN(BLOCK, t->size - i);
        if (!said && has_infinite(p + i, n, x)) {
            report(r, t, i);
            said = true;
        }
        ok = XXH3_128bits_update(h, p + i, n) == XXH_OK;
    }
    return ok;
}

bool adapter_scan(struct adapter_reader *r, struct str config)
{
    XXH3_state_t *h = XXH3_createState();
    bool          ok = h && XXH3_128bits_reset(h) == XXH_OK && XXH3_128bits_update(h, config.p, config.n) == XXH_OK;
    for (size_t i = 0; ok && i < checkpoint_count(r->f->tensors); i++)
        ok = scan_tensor(r, h, checkpoint_at(r->f->tensors, i));
    if (ok) {
        XXH128_hash_t sum = XXH3_128bits_digest(h);
        r->f->hash[0] = sum.high64;
        r->f->hash[1] = sum.low64;
    }
    XXH3_freeState(h);
    return ok;
}
