/* The table of commands; see commands.def. */
#include "cli/command.h"

#include <string.h>

#include "base/opt.h"

const struct command commands[CMD_COUNT] = {
#define COMMAND(name, max_args, usage, summary, notes, examples)                                                       \
    {#name, max_args, usage, summary, notes, examples, cmd_##name},
#include "cli/commands.def"
#undef COMMAND
};

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < CMD_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

int command_unknown(const char *name, struct error *e)
{
    const char *names[CMD_COUNT], *near;
    for (size_t i = 0; i < CMD_COUNT; i++)
        names[i] = commands[i].name;
    near = opt_nearest(name, names, CMD_COUNT);
    if (near)
        return error_set(e, ERR_USAGE, NULL, "unknown command %s; did you mean %s?", name, near);
    return error_set(e, ERR_USAGE, NULL, "unknown command %s", name);
}
