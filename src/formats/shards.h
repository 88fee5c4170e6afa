/* Which files of a directory hold a checkpoint's weights; the rules are checkpoint.h's. */
#ifndef MLXCEL_FORMATS_SHARDS_H
#define MLXCEL_FORMATS_SHARDS_H

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"

#define SHARDS_INDEX "model.safetensors.index.json"
#define SHARDS_MAX 10000

struct shards {
    const char **names; /* base names, sorted, each once; at least one */
    size_t       n, cap;
    const char **absent; /* that the index names but the directory does not hold, sorted */
    size_t       n_absent;
    struct arena texts;
};

/* ERR_NOT_FOUND when the directory holds neither an index nor any model*.safetensors. On failure nothing to deinit. */
int  shards_find(struct shards *s, const char *dir, const struct log *log, struct error *e);
void shards_deinit(struct shards *s);

/* The file names of an index's weight_map, sorted, each once. `name` is for messages. */
int shards_parse_index(struct shards *s, const char *p, size_t n, const char *name, struct error *e);

#endif
