/* The values of all options, made from options.def: `o->threads` is what --threads or its environment gave. */
#ifndef MLXCEL_CLI_OPTIONS_H
#define MLXCEL_CLI_OPTIONS_H

#include "base/opt.h"
#include "cli/command.h"

#define OPTION_TYPE_FLAG bool
#define OPTION_TYPE_STOP bool
#define OPTION_TYPE_INT int64_t
#define OPTION_TYPE_REAL double
#define OPTION_TYPE_TEXT const char *
#define OPTION_TYPE_CHOICE const char *
#define OPTION_TYPE_LIST struct opt_list

struct options {
#define OPTION(kind, member, ...) OPTION_TYPE_##kind member;
#define OPTION_ALSO(kind, member, ...)
#include "cli/options.def"
#undef OPTION
#undef OPTION_ALSO
    struct opt_list args;  /* arguments that are no options */
    struct arena   *arena; /* lives as long as the program */
};

/* The rows of a command, for opt_parse and opt_help. */
struct opt_view options_view(const struct command *c);

#endif
