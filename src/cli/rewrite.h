/* What `convert`, `quantize`, `dequantize` and `fuse` share: options to a form, progress, Ctrl-C. */
#ifndef MLXCEL_CLI_REWRITE_H
#define MLXCEL_CLI_REWRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"

enum rewrite_what { REWRITE_LAYOUT, REWRITE_QUANTIZE, REWRITE_DEQUANTIZE };

/* Rewrites `source`, a model directory or a GGUF file, into o->out. Ctrl-C, SIGTERM and SIGHUP stop it, and nothing stays
 * behind: ERR_CANCELLED. */
int rewrite_model(const struct options *o, const char *source, enum rewrite_what what, struct error *e);

/* A bar on a terminal. False when Ctrl-C came. ctx is not used. */
bool rewrite_show_progress(void *ctx, size_t done, size_t total);

#endif
