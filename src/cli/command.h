/* The commands: one function each, and what is known of them, made from commands.def. */
#ifndef MLXCEL_CLI_COMMAND_H
#define MLXCEL_CLI_COMMAND_H

#include <stddef.h>

#include "base/error.h"

struct options;

enum command_id {
#define COMMAND(name, max_args, usage, summary, notes, examples) CMD_##name,
#include "cli/commands.def"
#undef COMMAND
    CMD_COUNT
};

/* Does the command's work, results on stdout through output.h. ERR_USAGE: wrong arguments; ERR_CANCELLED: Ctrl-C. */
#define COMMAND(name, max_args, usage, summary, notes, examples)                                                       \
    int cmd_##name(const struct options *o, struct error *e);
#include "cli/commands.def"
#undef COMMAND

struct command {
    const char *name;
    size_t      max_args; /* arguments that are no options */
    const char *usage;    /* what follows "mlxcel NAME" */
    const char *summary;
    const char *notes;
    const char *examples; /* a line each */
    int (*run)(const struct options *o, struct error *e);
};

extern const struct command commands[CMD_COUNT];

const struct command *command_find(const char *name); /* NULL if there is none */
/* ERR_USAGE, naming the nearest one. */
int command_unknown(const char *name, struct error *e);

#endif
