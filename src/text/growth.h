/* How far components may blow up a text: a file from a stranger can ask for any number of "a" -> "aa". What they make of
 * a text, in all its parts together, is bounded by its length; passing that is ERR_LIMIT, which names the component.
 */
#ifndef MLXCEL_TEXT_GROWTH_H
#define MLXCEL_TEXT_GROWTH_H

#include "base/error.h"
#include "base/num.h"

#define GROWTH_FACTOR ((size_t)64) /* NFKC and then ByteLevel, the most that may be meant, make 22 bytes of one */
#define GROWTH_FREE ((size_t)1 << 20)

/* The bytes that may become of n. */
static inline size_t growth_max(size_t n)
{
    size_t most;
    return num_mul(n, GROWTH_FACTOR, &most) && num_add(most, GROWTH_FREE, &most) ? most : SIZE_MAX - 1;
}

/* role: as in struct component. */
static inline int growth_passed(struct error *e, const char *role)
{
    return error_set(e, ERR_LIMIT, role, "%s: what it makes of a text is too long", role);
}

#endif
