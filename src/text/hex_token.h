/* Tokens "<0xHH>" that stand for one byte of a character without a token. */
#ifndef MLXCEL_TEXT_HEX_TOKEN_H
#define MLXCEL_TEXT_HEX_TOKEN_H

#include "text/vocab.h"

int hex_token_byte(struct str token); /* -1: another text */
/* The token of each byte, -1 if there is none. */
void hex_token_ids(const struct vocab *v, int32_t ids[256]);

#endif
