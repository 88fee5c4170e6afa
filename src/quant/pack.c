/* Codes packed into rows: one little-endian bit stream, element i in bits [i*bits, (i+1)*bits), lowest first.
 *
 * Eight codes fill `bits` whole bytes whatever the width, so rows are read and written in packs of eight:
 *
 *   bits = 3:   byte 0            byte 1            byte 2
 *               2 2 1 1 1 0 0 0   5 4 4 4 3 3 3 2   7 7 7 6 6 6 5 5     (the element each bit belongs to)
 */
#include <string.h>

#include "base/num.h"
#include "quant/quant.h"

#define PACK 8 /* codes read or written together: `bits` bytes */

#define INLINE static inline __attribute__((always_inline))

/* The first bytes of a pack. */
INLINE uint64_t load(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* A whole pack of 2 to 6 bytes, in two words that may overlap. */
INLINE uint64_t load_whole(const uint8_t *p, int bytes)
{
    uint16_t a, b;
    uint32_t c, d;
    if (bytes < 4) {
        memcpy(&a, p, 2);
        memcpy(&b, p + bytes - 2, 2);
        return a | (uint64_t)b << 8 * (bytes - 2);
    }
    memcpy(&c, p, 4);
    memcpy(&d, p + bytes - 4, 4);
    return c | (uint64_t)d << 8 * (bytes - 4);
}

/* The 8 codes in the low bits of v, one a byte: halves, quarters and eighths are moved apart. */
INLINE uint64_t spread(uint64_t v, int bits)
{
    uint64_t four = ((uint64_t)1 << 4 * bits) - 1, two = (((uint64_t)1 << 2 * bits) - 1) * 0x0000000100000001;
    uint64_t one = (((uint64_t)1 << bits) - 1) * 0x0001000100010001;
    v = (v & four) | (v >> 4 * bits & four) << 32;
    v = (v & two) | (v >> 2 * bits & two) << 16;
    return (v & one) | (v >> bits & one) << 8;
}

/* Inlined with a constant width, so that all shifts and masks are constants. */
INLINE void unpack(const uint8_t *p, int bits, int64_t n, uint8_t *out)
{
    uint64_t v;
    for (; n >= PACK; n -= PACK, p += bits, out += PACK) {
        v = spread(load_whole(p, bits), bits);
        memcpy(out, &v, sizeof v);
    }
    v = spread(load(p, ((int)n * bits + 7) / 8), bits);
    memcpy(out, &v, (size_t)n);
}

void quant_codes_row(const struct quant *q, const void *codes, int64_t K, uint8_t *out)
{
    switch (q->bits) {
    case 2:
        unpack(codes, 2, K, out);
        break;
    case 3:
        unpack(codes, 3, K, out);
        break;
    case 4:
        unpack(codes, 4, K, out);
        break;
    case 5:
        unpack(codes, 5, K, out);
        break;
    case 6:
        unpack(codes, 6, K, out);
        break;
    default:
        memcpy(out, codes, (size_t)K);
    }
}

void quant_pack_row(const struct quant *q, const uint8_t *codes, int64_t K, void *out)
{
    uint8_t *p = out;
    for (int64_t i = 0; i < K; i += PACK, p += q->bits) {
        uint64_t v = 0;
        int      n = (int)MIN(K - i, PACK);
        for (int j = 0; j < n; j++)
            v |= (uint64_t)codes[i + j] << (j * q->bits);
        for (int j = 0; j < (n * q->bits + 7) / 8; j++)
            p[j] = (uint8_t)(v >> (8 * j));
    }
}
