/* `help` and --help: the program's commands, one command's options, and the whole as docs/cli.md. */
#include "cli/help.h"

#include "cli/options.h"
#include "cli/output.h"

#define HELP_MAX ((size_t)1 << 20)

static const char conventions[] =
    "stdout carries only the result; progress, statistics, warnings and errors go to stderr. Exit status: 0 done, 1 a "
    "fault, "
    "2 wrong usage, 130 interrupted. A fault is one line `mlxcel: error: ...`, a warning a line `mlxcel: warning: "
    "...`. "
    "An option on the command line beats the environment; of two variables the first named counts. `--name VALUE` and "
    "`--name=VALUE` are the same; `--` ends the options. Output files appear whole, by rename, or not at all; an "
    "existing "
    "one is refused without --force. Models are looked for as a path, in the store ($MLXCEL_CACHE_DIR or "
    "~/.cache/mlxcel), "
    "then in the Hugging Face cache ($HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub; read only), which "
    "`hf download OWNER/NAME` fills. In the examples ./SmolLM2-135M-4bit stands for any model's directory or name.";

static void indented_lines(struct buf *b, const char *lines)
{
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        buf_printf(b, "  %.*s\n", (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

static void program_help(struct buf *b)
{
    buf_puts(b, "usage: mlxcel COMMAND [options]\n\nRuns MLX-format language models.\n\nCommands:\n");
    for (size_t i = 0; i < CMD_COUNT; i++)
        buf_printf(b, "  %-11s %s\n", commands[i].name, commands[i].summary);
    buf_putc(b, '\n');
    opt_wrap(b, conventions, 0);
    buf_puts(b, "\nExamples:\n");
    indented_lines(b, "mlxcel run\n"
                      "mlxcel generate -m ./SmolLM2-135M-4bit -p \"The capital of France is\"\n"
                      "mlxcel help generate");
}

static void command_help(struct buf *b, const struct command *c)
{
    struct opt_view view = options_view(c);
    buf_printf(b, "usage: mlxcel %s%s%s\n\n%s.\n", c->name, *c->usage ? " " : "", c->usage, c->summary);
    if (*c->notes) {
        buf_putc(b, '\n');
        opt_wrap(b, c->notes, 0);
    }
    opt_help(&view, b);
    buf_puts(b, "\nExamples:\n");
    indented_lines(b, c->examples);
}

static void command_markdown(struct buf *b, const struct command *c)
{
    struct opt_view view = options_view(c);
    buf_printf(b, "\n## %s\n\n%s.\n\n```\nmlxcel %s%s%s\n```\n", c->name, c->summary, c->name, *c->usage ? " " : "",
               c->usage);
    if (*c->notes) {
        buf_putc(b, '\n');
        opt_wrap(b, c->notes, 0);
    }
    opt_markdown(&view, b);
    buf_printf(b, "\nExamples:\n\n```\n%s\n```\n", c->examples);
}

static void markdown(struct buf *b)
{
    buf_puts(
        b,
        "# Command line\n\nMade by `make docs` from `src/cli/commands.def` and `src/cli/options.def`; edit those.\n\n");
    opt_wrap(b, conventions, 0);
    for (size_t i = 0; i < CMD_COUNT; i++)
        command_markdown(b, &commands[i]);
}

static int print(void (*make)(struct buf *, const struct command *), const struct command *c, struct error *e)
{
    struct buf b;
    int        rc;
    buf_init(&b, HELP_MAX);
    make(&b, c);
    rc = out_buf(&b, e);
    buf_deinit(&b);
    return rc;
}

static void make_markdown(struct buf *b, const struct command *c)
{
    (void)c;
    markdown(b);
}

static void make_help(struct buf *b, const struct command *c)
{
    if (c)
        command_help(b, c);
    else
        program_help(b);
}

int help_print(const struct command *c, struct error *e)
{
    return print(make_help, c, e);
}

int cmd_help(const struct options *o, struct error *e)
{
    const struct command *c = NULL;
    if (o->markdown)
        return print(make_markdown, NULL, e);
    if (o->args.n) {
        c = command_find(o->args.v[0]);
        if (!c)
            return command_unknown(o->args.v[0], e);
    }
    return help_print(c, e);
}
