/* Normalizers that look at one character at a time: each appends to `out` what it makes of a text of valid UTF-8. */
#ifndef MLXCEL_TEXT_CHARWISE_H
#define MLXCEL_TEXT_CHARWISE_H

#include "text/component_char.h"

void charwise_lowercase(struct str text, struct buf *out);
/* Leaves out the characters of a set. */
void charwise_drop(struct str text, enum component_set set, struct buf *out);
/* BertNormalizer's clean_text: without control characters, all white space as U+0020. */
void charwise_clean(struct str text, struct buf *out);
/* BertNormalizer's handle_chinese_chars: a space on both sides of every ideograph. */
void charwise_space_ideographs(struct str text, struct buf *out);
/* Nmt: without control characters, some white space and invisible characters as U+0020. */
void charwise_nmt(struct str text, struct buf *out);
bool charwise_nmt_drops(uint32_t cp);

#endif
