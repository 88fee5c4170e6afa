/* Character properties by name, as Oniguruma has them in Unicode 16.0: general categories, scripts, blocks, binary
 * properties and the POSIX classes. */
#ifndef MLXCEL_TEXT_PROPERTY_H
#define MLXCEL_TEXT_PROPERTY_H

#include "text/charset.h"
#include "text/unicode.h"

#define PROPERTY_NAME_MAX 64

/* Adds the characters of a property. The name is in lower case without spaces, '-' and '_'; "[alpha]" is the POSIX
 * bracket, which may differ from \p{alpha}. False where there is none of that name. */
bool property_add(struct charset *s, const char *name);

/* The classes of characters in the rules for grapheme clusters (Unicode's annex 29, without
 * its rule 9c about conjuncts, which the reference does not have). */
enum segment_class { SEGMENT_CONTROL, SEGMENT_PREPEND, SEGMENT_EXTEND, SEGMENT_SPACING };
void property_add_segment(struct charset *s, enum segment_class class);

#endif
