/* Adapters over HTTP: the list of those that are loaded, default scales, loading and unloading, and what a request
 * chooses. */
#ifndef MLXCEL_SERVER_LORA_H
#define MLXCEL_SERVER_LORA_H

#include <jansson.h>
#include <pthread.h>

#include "server/params.h"
#include "server/server_int.h"

/* Reads [{"id", "scale"}, ...] into *v (the caller's). ERR_INVALID naming `field`, ERR_NOMEM. */
int lora_read_list(const json_t *list, const char *field, struct mlxcel_lora **v, size_t *n, struct error *e);

/* Sets what a request runs with when its `model` is the name of an adapter: that adapter alone, with the scale it was
 * loaded with. ERR_NOT_FOUND: an adapter of that name was unloaded; ERR_INVALID: the request has a list of its own,
 * too. */
int lora_choose_model(struct server *s, const json_t *body, struct request_params *p, struct error *e);

/* Holds on to the default scales of this moment, for all answers to a request that chooses nothing. */
int lora_pin(struct server *s, struct request_params *p, struct error *e);

/* Forgets what those two found, so that it can be chosen again, if one of it has been unloaded since; false: none has. */
bool lora_forget_stale(struct server *s, struct request_params *p);

/* The entries of /v1/models for all adapters are appended to `models`; of one, NULL when there is none of that name. */
void    lora_append_models(struct server *s, json_t *models);
json_t *lora_model(struct server *s, const char *name);

#endif
