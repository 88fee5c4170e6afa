/* The adapters that an opened model has: ids, names, default scales, and the sets that sequences run with.
 *
 * All functions may be called from any thread. Loading reads and checks files beside everything else and only then
 * takes the lock, so that neither the engine nor requests wait for it. What is chosen is an immutable set
 * (adapt/adapt.h) that holds its adapters: unloading takes an adapter off the list, and the last set frees it.
 */
#ifndef MLXCEL_API_REGISTRY_H
#define MLXCEL_API_REGISTRY_H

#include "adapt/adapt.h"
#include "cpu/cpu.h"
#include "mlxcel.h"

struct registry;

/* m is borrowed. Parameters that adapters replace are packed as `backend`, which computes with m, packs its own. */
int  registry_new(struct registry **out, const struct model *m, const struct backend *backend, struct error *e);
void registry_free(struct registry *r); /* after all sets but the registry's own */

/* As mlxcel_lora_load says. */
int registry_load(struct registry *r, const struct mlxcel_lora_source *source, const struct log *log, int *id,
                  struct error *e);
/* Loads all or, with the faults of all of them in one report, fails. A source to fuse is only listed: the weights have
 * it already. */
int registry_load_all(struct registry *r, const struct mlxcel_lora_source *source, size_t n, const struct log *log,
                      struct error *e);
int registry_unload(struct registry *r, int id, struct error *e);
int registry_set_scales(struct registry *r, const struct mlxcel_lora *v, size_t n, struct error *e);
int registry_list(struct registry *r, struct mlxcel_lora_info **list, size_t *n, struct error *e);
/* The set of v[0, n), or with v = NULL of the default scales; *set, which may be NULL (the base alone), is the
 * caller's. */
int    registry_choose(struct registry *r, const struct mlxcel_lora *v, size_t n, struct adapter_set **set,
                       struct error *e);
size_t registry_bytes(struct registry *r); /* memory of the adapters on the list */

#endif
