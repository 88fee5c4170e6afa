/* A reader of the protocol buffers wire format: the fields of one message, in order, each a number, a kind and a value.
 *
 * Nothing is copied: a field with a length is a view of the input, and a message inside a message is read by a reader over
 * that view. Strict: a varint of more than 64 bits, field number 0, a length beyond the end and the groups that were
 * dropped from the format are faults. It knows no schema; what a number means, its caller says.
 */
#ifndef MLXCEL_TEXT_PROTOBUF_H
#define MLXCEL_TEXT_PROTOBUF_H

#include <stdint.h>

#include "base/buf.h"

struct protobuf {
    const char *p, *end;
    const char *why; /* NULL, or the fault that ended the reading */
};

enum protobuf_kind { PROTOBUF_VARINT = 0, PROTOBUF_FIXED64 = 1, PROTOBUF_BYTES = 2, PROTOBUF_FIXED32 = 5 };

struct protobuf_field {
    uint32_t           number;
    enum protobuf_kind kind;
    uint64_t           value; /* of a varint or a fixed number */
    struct str         bytes; /* of PROTOBUF_BYTES */
};

static inline struct protobuf protobuf_of(struct str message)
{
    return (struct protobuf){message.p, message.p + message.n, NULL};
}

/* Reads the next field. False at the end of the message and after a fault (r->why). */
bool protobuf_next(struct protobuf *r, struct protobuf_field *f);

/* The float that a fixed 32-bit field holds. */
float protobuf_float(const struct protobuf_field *f);

#endif
