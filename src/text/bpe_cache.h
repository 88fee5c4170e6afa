/* What short pieces became, so that the next time costs one look: a table of fixed size, one place for each piece, which
 * the piece that comes last takes. Any number of threads may read and write it at once.
 *
 * Texts consist of few different pieces. The table starts empty, so a load costs nothing, and memory is touched only
 * where pieces come.
 */
#ifndef MLXCEL_TEXT_BPE_CACHE_H
#define MLXCEL_TEXT_BPE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define BPE_CACHE_TEXT_MAX 32 /* bytes of a piece */
#define BPE_CACHE_IDS_MAX 9   /* tokens of a piece */

struct bpe_cache;
struct bpe_cache *bpe_cache_new(void);                 /* NULL when out of memory */
void              bpe_cache_free(struct bpe_cache *c); /* NULL is fine */

/* A piece in the form in which it is compared, and its place. */
struct bpe_key {
    uint64_t word[BPE_CACHE_TEXT_MAX / 8];
    uint32_t kind; /* length and mode */
    uint32_t place;
};
/* Of a piece of 1 to BPE_CACHE_TEXT_MAX bytes. mode, below 256, tells apart equal texts that are encoded differently. */
struct bpe_key bpe_key_of(struct str piece, unsigned mode);

/* Writes the piece's ids and returns their number (which may be 0); -1 if it is not there. */
int bpe_cache_get(const struct bpe_cache *c, const struct bpe_key *key, int32_t ids[BPE_CACHE_IDS_MAX]);
/* Records a piece; more than BPE_CACHE_IDS_MAX ids, or one from 2^21 on, are not kept. */
void bpe_cache_put(struct bpe_cache *c, const struct bpe_key *key, const int32_t *ids, size_t n);

#endif
