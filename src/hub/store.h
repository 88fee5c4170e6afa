/* Where models are: from a name to a directory.
 *
 *     a path                 DIR, anything that begins with / or . or names an existing directory with a config.json
 *     our store              $MLXCEL_CACHE_DIR, else ~/.cache/mlxcel:       <store>/[<owner>/]<name>/config.json
 *     Hugging Face's cache   $HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub; only read:
 *                            models--<owner>--<name>/refs/main holds a revision, snapshots/<revision>/config.json
 *
 * Names come from users and requests and are hostile: they cannot lead out of the store.
 */
#ifndef MLXCEL_HUB_STORE_H
#define MLXCEL_HUB_STORE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* What `mlxcel run` uses when no model is named; `make demo` puts it into the store. */
#define STORE_DEFAULT_MODEL "mlxcel/SmolLM2-135M-Instruct-4bit"

struct store_roots {
    char own[PATH_MAX], hugging_face[PATH_MAX]; /* "" when there is no place for it: no variable, no HOME */
};

/* The one place that reads the environment for it. ERR_LIMIT when a variable is too long for a path. */
int store_roots_from_env(struct store_roots *r, struct error *e);

/* Whether a name may be looked up: one or two components ("owner/name"), not empty, not beginning with a dot, without
 * control characters, backslashes and invalid UTF-8, at most 96 bytes each. */
bool store_name_ok(const char *name);

/* The directory of a model, to be freed. ERR_NOT_FOUND: the message says where it looked and which names are near;
 * ERR_INVALID: neither a path nor a name, or a path to a file. Whether the directory holds a sound model is not
 * checked. */
int store_resolve(const struct store_roots *r, const char *model, char **path, struct error *e);

struct store_entry {
    char   *name, *path, *model_type; /* model_type: of config.json, "" if it has none */
    int64_t bytes;                    /* of the directory's files */
};
struct store_list {
    struct store_entry *v; /* sorted by name, then path */
    size_t              n, cap;
};

/* All models of the store and of Hugging Face's cache: directories with a config.json and a safetensors file. A root
 * that does not exist is empty; what cannot be read is passed over. On failure there is nothing to deinit. */
int  store_list(const struct store_roots *r, struct store_list *l, struct error *e);
void store_list_deinit(struct store_list *l);

/* The model in `repository`, a directory models--owner--name of Hugging Face's cache: snapshots/<the revision of
 * refs/main> in out. False when there is none. Shared by the two files of this module. */
bool store_hugging_face_snapshot(const char *repository, char out[PATH_MAX]);

#endif
