/* Adapters of the command line: --lora, --lora-scaled, --adapter and what changes them. */
#ifndef MLXCEL_CLI_ADAPTERS_H
#define MLXCEL_CLI_ADAPTERS_H

#include "cli/options.h"
#include "mlxcel.h"

/* Sets out->lora to what the options name, in the order of their ids: those of --lora, of --lora-scaled, of --adapter.
 * The list lives as long as the options. ERR_USAGE: a path or scale is missing; ERR_NOMEM. */
int adapters_options(const struct options *o, struct mlxcel_options *out, struct error *e);

/* The path of PATH[:SCALE], as long as the options live; *scale stays where none is given. NULL: ERR_NOMEM. */
const char *adapters_split(const struct options *o, const char *text, float *scale, struct error *e);

#endif
