/* From options to the public API: opening a model as --model, -c and the machine's options say, faults, resolving
 * names. */
#ifndef MLXCEL_CLI_API_H
#define MLXCEL_CLI_API_H

#include <limits.h>

#include "cli/options.h"
#include "mlxcel.h"
#include "text/tokenizer.h"

/* Copies an API's fault into *e; returns its code, which is one of enum error_code. */
int api_fault(const struct mlxcel_error *fault, struct error *e);

/* What the options say of threads, precision, cache, level, context, chunk, adapters and log; the caller adds the rest. ERR_USAGE:
 * they contradict each other. */
int api_options(const struct options *o, struct mlxcel_options *out, struct error *e);
/* An enum mlxcel_cache_type by its name. */
int api_cache_type(const char *name);
/* The same with the chat template's options. ERR_USAGE: --chat-template-kwargs is not a JSON object. */
int api_chat_options(const struct options *o, struct mlxcel_options *out, struct error *e);
/* mlxcel_open with its fault in *e. */
int api_open(struct mlxcel **out, const char *model, const struct mlxcel_options *options, struct error *e);
/* The directory of a model, for commands that need not find a whole model in it: any directory counts as a path. */
int api_directory(const char *model, char dir[PATH_MAX], struct error *e);
/* The tokenizer of o->model alone, no weights; its warnings go to stderr. */
int api_tokenizer(const struct options *o, struct tokenizer **out, struct error *e);

#endif
