/* The generated tables of properties; contracts in property.h. */
#include "text/property.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

#define BY_CATEGORY 0x80000000u /* the other bits are general categories */

struct property {
    const char *name;
    uint32_t    set; /* place in the ranges, or BY_CATEGORY and a set of categories */
};

#include "text/property_table.inc"

static uint32_t number(const uint8_t **p)
{
    uint32_t value = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = *(*p)++;
        value |= (uint32_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
}

static void add(struct charset *s, uint32_t set)
{
    if (set & BY_CATEGORY) {
        charset_add_class(s, set & ~BY_CATEGORY, 0);
        return;
    }
    const uint8_t *p = ranges + set;
    uint32_t       at = 0;
    for (uint32_t n = number(&p); n > 0; n--) {
        uint32_t lo = at + number(&p), hi = lo + number(&p);
        charset_add(s, lo, hi);
        at = hi + 1;
    }
}

static int by_name(const void *name, const void *entry)
{
    return strcmp(name, ((const struct property *)entry)->name);
}

bool property_add(struct charset *s, const char *name)
{
    const struct property *p = bsearch(name, properties, ARRAY_LEN(properties), sizeof *properties, by_name);
    if (p)
        add(s, p->set);
    return p != NULL;
}

void property_add_segment(struct charset *s, enum segment_class class)
{
    add(s, segments[class]);
}
