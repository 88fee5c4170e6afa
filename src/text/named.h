/* The special tokens that tokenizer_config.json and special_tokens_map.json name. */
#ifndef MLXCEL_TEXT_NAMED_H
#define MLXCEL_TEXT_NAMED_H

enum {
#define NAMED(id, key) NAMED_##id,
#include "text/named.def"
#undef NAMED
    NAMED_COUNT
};

extern const char *const named_keys[NAMED_COUNT]; /* "bos_token", ... */

#endif
