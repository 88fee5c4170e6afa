/* Decimal numbers as the reference's JSON reader (serde_json, without float_roundtrip) reads them: quick, and in about one
 * case of five the neighbour of the nearest double. Scores of pieces are sums of such numbers, and ties are common. */
#ifndef MLXCEL_TEXT_DECIMAL_H
#define MLXCEL_TEXT_DECIMAL_H

#include "base/buf.h"

/* The value of a well-formed JSON number; infinite where the reference refuses it. */
double decimal_read(struct str s);

#endif
