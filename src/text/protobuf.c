/* See protobuf.h. */
#include "text/protobuf.h"

#define NUMBER_MAX ((1u << 29) - 1) /* of a field */

static bool fault(struct protobuf *r, const char *why)
{
    r->why = why;
    return false;
}

/* Seven bits a byte, the least significant first; the tenth byte has room for one. */
static bool read_varint(struct protobuf *r, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (r->p == r->end)
            return fault(r, "a number is cut off");
        uint64_t byte = (unsigned char)*r->p++;
        if (shift == 63 && byte > 1)
            return fault(r, "a number has more than 64 bits");
        *out |= (byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return fault(r, "a number has more than 64 bits");
}

/* A little-endian number of n bytes. */
static bool read_fixed(struct protobuf *r, unsigned n, uint64_t *out)
{
    if ((size_t)(r->end - r->p) < n)
        return fault(r, "a number is cut off");
    *out = 0;
    for (unsigned i = 0; i < n; i++)
        *out |= (uint64_t)(unsigned char)*r->p++ << (8 * i);
    return true;
}

static bool read_bytes(struct protobuf *r, struct str *out)
{
    uint64_t n;
    if (!read_varint(r, &n))
        return false;
    if (n > (uint64_t)(r->end - r->p))
        return fault(r, "a field is longer than what is left");
    *out = (struct str){r->p, (size_t)n};
    r->p += n;
    return true;
}

bool protobuf_next(struct protobuf *r, struct protobuf_field *f)
{
    uint64_t tag;
    if (r->why || r->p == r->end || !read_varint(r, &tag))
        return false;
    if (tag >> 3 == 0 || tag >> 3 > NUMBER_MAX)
        return fault(r, "a field's number is out of range");
    *f = (struct protobuf_field){.number = (uint32_t)(tag >> 3), .kind = (enum protobuf_kind)(tag & 7)};
    switch (tag & 7) {
    case PROTOBUF_VARINT:
        return read_varint(r, &f->value);
    case PROTOBUF_FIXED64:
        return read_fixed(r, 8, &f->value);
    case PROTOBUF_BYTES:
        return read_bytes(r, &f->bytes);
    case PROTOBUF_FIXED32:
        return read_fixed(r, 4, &f->value);
    default:
        return fault(r, "a field is of a kind that does not exist");
    }
}

float protobuf_float(const struct protobuf_field *f)
{
    uint32_t bits = (uint32_t)f->value;
    float    x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
