/* Contracts in hex_token.h. */
#include "text/hex_token.h"

#include <stdio.h>

#include "base/num.h"

int hex_token_byte(struct str token)
{
    if (token.n != 6 || memcmp(token.p, "<0x", 3) != 0 || token.p[5] != '>')
        return -1;
    int high = num_hex_digit(token.p[3]), low = num_hex_digit(token.p[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void hex_token_ids(const struct vocab *v, int32_t ids[256])
{
    for (unsigned b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", b);
        ids[b] = vocab_find(v, str_of(text));
    }
}
