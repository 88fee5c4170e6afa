/* Two-stage lookup in the generated table; contracts in unicode.h. */
#include "text/unicode.h"

#include "text/unicode_table.inc"

#define BLOCK 128u

uint8_t unicode_class(uint32_t cp)
{
    return cp < UNICODE_END ? blocks[block_of[cp / BLOCK]][cp % BLOCK] : UNICODE_CN;
}

uint32_t unicode_run_end(uint32_t cp)
{
    uint8_t class = unicode_class(cp);
    uint32_t end = cp + 1;
    while (end < UNICODE_END) {
        /* Where the whole block before is of this class, an equal block is skipped unread. */
        bool whole = end % BLOCK == 0 && end - cp >= BLOCK && block_of[end / BLOCK] == block_of[end / BLOCK - 1];
        if (!whole && unicode_class(end) != class)
            break;
        end += whole ? BLOCK : 1;
    }
    return end;
}
