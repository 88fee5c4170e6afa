/* The option table; see options.def. */
#include "cli/options.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>

#include "base/num.h"

#define C(command) (UINT64_C(1) << (command))

static const struct opt rows[] = {
#define OPTION(kind, member, names, meta, fallback, min, max, section, commands, env, help)                            \
    {OPT_##kind, names, meta, fallback, min, max, env, section, commands, help, offsetof(struct options, member)},
#define OPTION_ALSO OPTION
#include "cli/options.def"
#undef OPTION
#undef OPTION_ALSO
};

struct opt_view options_view(const struct command *c)
{
    return (struct opt_view){rows,
                             ARRAY_LEN(rows),
                             C(c - commands),
                             c->name,
                             .exclusive = "--chat-template, --chat-template-file",
                             .bare = c == &commands[CMD_run] ? "--model" : NULL};
}
