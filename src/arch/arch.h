/* The model families: each is a function that reads config.json into a description, and one row of the registry.
 *
 * A family function says only its difference from a parent: it calls the parent and changes fields. It runs at load and
 * cannot touch tensors. Faults are collected in the config view, so the functions read straight through.
 */
#ifndef MLXCEL_ARCH_ARCH_H
#define MLXCEL_ARCH_ARCH_H

#include <stddef.h>

#include "base/arena.h"
#include "formats/config.h"
#include "model/desc.h"

struct family {
    const char *model_type;
    const char *parent; /* whose description it changes, or NULL */
    const char *summary;
    const char *blocks; /* of its models, as model_blocks tells them; tests compare */
    void (*describe)(struct model_desc *m, struct config *c, struct arena *a);
};

/* All families, sorted by model_type. */
const struct family *arch_families(size_t *n);

/* Fills *m from config.json's model_type and fields; arrays are allocated in *a. Every fault of the config comes in one
 * error. An unknown model_type is refused with near names. */
int arch_describe(struct model_desc *m, struct config *c, struct arena *a, struct error *e);

#endif
