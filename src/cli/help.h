/* Help texts, made from commands.def and options.def. */
#ifndef MLXCEL_CLI_HELP_H
#define MLXCEL_CLI_HELP_H

#include "cli/command.h"

/* Prints the help of a command, or of the program when c is NULL, on stdout. */
int help_print(const struct command *c, struct error *e);

#endif
