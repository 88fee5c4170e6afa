/* The program `mlxcel`: finds the command, parses its options by the table, runs it, and turns what it returns into the
 * one line on stderr and the exit status that docs/cli.md promises. Commands neither print faults nor exit.
 *
 * Called as `mlxcel-server` it is `mlxcel serve`, as the server of llama.cpp is called.
 */
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"

#define ARENA_MAX ((size_t)64 << 20) /* the option lists of a command line */
#define SERVER_SUFFIX "mlxcel-server"

enum { STATUS_DONE = 0, STATUS_FAULT = 1, STATUS_USAGE = 2 };

/* A descriptor 0, 1 or 2 that the caller closed must not become some file that we open: writes to it would go there. */
static void fill_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* The line editor reads characters of the locale; everything else here is UTF-8 whatever the locale says. */
static void set_locale(void)
{
    setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static const char *lookup(const char *name)
{
    return getenv(name);
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && strcmp(s + n - k, tail) == 0;
}

/* The command that is asked for; moves *argv past its name. NULL: *e set. */
static const struct command *find_command(int *argc, char ***argv, struct error *e)
{
    const struct command *c;
    const char           *name = *argc > 1 ? (*argv)[1] : NULL;
    int                   skip = 2;
    if (*argc > 0 && ends_with((*argv)[0], SERVER_SUFFIX)) {
        bool version = name && (strcmp(name, "-V") == 0 || strcmp(name, "--version") == 0);
        name = version ? "version" : "serve";
        skip = version ? 2 : 1;
    } else if (!name) {
        error_set(e, ERR_USAGE, NULL, "no command given");
        return NULL;
    } else if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0) {
        name = "help";
    } else if (strcmp(name, "-V") == 0 || strcmp(name, "--version") == 0) {
        name = "version";
    }
    c = command_find(name);
    if (!c)
        command_unknown(name, e);
    *argc -= skip;
    *argv += skip;
    return c;
}

static int run(const struct command *c, int argc, char **argv, struct arena *a, struct error *e)
{
    struct options  o = {.arena = a};
    struct opt_view view = options_view(c);
    int             rc = opt_parse(&view, argc, argv, lookup, &o, &o.args, a, e);
    bool            stdin_text = c == &commands[CMD_tokenize] || c == &commands[CMD_detokenize];
    /* A required option is missing: its value may have been given without its name. */
    if (rc == ERR_USAGE && e->param[0] && o.args.n > c->max_args)
        return error_set(e, rc, NULL, "%s needs %s; did you mean %s %s?", c->name, e->param, e->param, o.args.v[0]);
    if (rc)
        return rc;
    if (o.help)
        return help_print(c, e);
    if (o.args.n > c->max_args)
        return error_set(e, ERR_USAGE, NULL, "unexpected argument %s%s", o.args.v[c->max_args],
                         stdin_text ? "; the input is read from stdin" : "");
    return c->run(&o, e);
}

int main(int argc, char **argv)
{
    const struct command *c;
    struct arena          arena;
    struct error          e = {0}, out_fault = {0};
    bool                  gone = false;
    int                   rc, status = STATUS_FAULT;
    fill_standard_descriptors();
    set_locale();
    interrupt_init();
    arena_init(&arena, ARENA_MAX);
    c = find_command(&argc, &argv, &e);
    rc = c ? run(c, argc, argv, &arena, &e) : e.code;
    if (out_finish(&gone, &out_fault) && (!rc || rc == ERR_CANCELLED)) {
        if (!gone)
            err_fault(out_fault.msg, NULL);
    } else if (!rc) {
        status = STATUS_DONE;
    } else if (rc == ERR_CANCELLED) {
        status = interrupt_status();
    } else if (rc == ERR_USAGE) {
        err_fault(e.msg, c && c != &commands[CMD_help] ? c->name : "");
        status = STATUS_USAGE;
    } else {
        err_fault(e.msg, NULL);
    }
    arena_deinit(&arena);
    return status;
}
