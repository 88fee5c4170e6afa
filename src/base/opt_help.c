/* The option table as text: help for a terminal and a Markdown reference; contracts in opt.h. */
#include "base/opt.h"

#include <string.h>

#define COLUMNS 100

void opt_wrap(struct buf *out, const char *text, int indent)
{
    int column = 0;
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (column && column + 1 + (int)word > COLUMNS) {
            buf_putc(out, '\n');
            column = 0;
        }
        if (column)
            buf_putc(out, ' ');
        else
            buf_printf(out, "%*s", indent, "");
        column += (column ? 1 : indent) + (int)word;
        buf_put(out, text, word);
        text += word;
        if (*text == '\n') {
            buf_putc(out, '\n');
            column = 0;
        }
        text += *text != '\0';
    }
    buf_putc(out, '\n');
}

static bool seen_section(const struct opt_view *view, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if ((view->v[k].commands & view->command) && strcmp(view->v[k].section, view->v[i].section) == 0)
            return true;
    return false;
}

/* Calls print for the rows of the command, section by section, in the order in which sections first appear. */
static void each_section(const struct opt_view *view, struct buf *out, void (*head)(struct buf *, const char *),
                         void (*print)(struct buf *, const struct opt *))
{
    for (size_t i = 0; i < view->n; i++) {
        if (!(view->v[i].commands & view->command) || seen_section(view, i))
            continue;
        head(out, view->v[i].section);
        for (size_t k = i; k < view->n; k++)
            if ((view->v[k].commands & view->command) && strcmp(view->v[k].section, view->v[i].section) == 0)
                print(out, &view->v[k]);
    }
}

static void help_head(struct buf *out, const char *section)
{
    buf_printf(out, "\n%s:\n", section);
}

static void help_row(struct buf *out, const struct opt *o)
{
    struct buf text;
    buf_init(&text, 1 << 16);
    buf_printf(out, "  %s%s%s\n", o->names, *o->meta ? " " : "", o->meta);
    buf_printf(&text, "%s.", o->help);
    if (o->fallback == OPT_REQUIRED)
        buf_puts(&text, " Required.");
    else if (o->fallback)
        buf_printf(&text, " Default: %s.", o->fallback);
    if (*o->env)
        buf_printf(&text, " Environment: %s.", o->env);
    opt_wrap(out, buf_cstr(&text), 6);
    out->failed |= text.failed;
    buf_deinit(&text);
}

void opt_help(const struct opt_view *view, struct buf *out)
{
    each_section(view, out, help_head, help_row);
}

/* Text inside a table's cell: '|' would end it. */
static void cell(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            buf_putc(out, '\\');
        buf_putc(out, *text);
    }
}

static void markdown_head(struct buf *out, const char *section)
{
    buf_printf(out, "\n%s:\n\n| option | meaning | default | environment |\n| --- | --- | --- | --- |\n", section);
}

static void markdown_row(struct buf *out, const struct opt *o)
{
    buf_puts(out, "| `");
    cell(out, o->names);
    if (*o->meta) {
        buf_putc(out, ' ');
        cell(out, o->meta);
    }
    buf_puts(out, "` | ");
    cell(out, o->help);
    buf_printf(out, " | %s | %s |\n",
               o->fallback == OPT_REQUIRED ? "required"
               : o->fallback               ? o->fallback
                                           : "",
               o->env);
}

void opt_markdown(const struct opt_view *view, struct buf *out)
{
    each_section(view, out, markdown_head, markdown_row);
}
