/* `run`: chat with a model, or one answer with -p. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/api.h"
#include "cli/conversation.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/turns.h"
#include "hub/store.h"

#define TURN_MAX ((size_t)64 << 20)

static const char slash_help[] =
    "  /clear         forget the conversation\n"
    "  /system TEXT   set the system message; without TEXT: none\n"
    "  /bye           leave, as /exit, /quit and the end of input (Ctrl-D) do\n"
    "  /?             this help\n"
    "A line that ends in \\ goes on in the next one; \"\"\" begins and ends a block of lines.\n"
    "Ctrl-C stops the answer, or drops what is typed.\n";

/* $XDG_STATE_HOME/mlxcel/history, by default below ~/.local/state; false when there is no place for it. */
static bool history_path(char path[PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int         n;
    if (state && *state == '/')
        n = snprintf(path, PATH_MAX, "%s/mlxcel/history", state);
    else if (home && *home == '/')
        n = snprintf(path, PATH_MAX, "%s/.local/state/mlxcel/history", home);
    else
        return false;
    if (n >= PATH_MAX)
        return false;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool ok = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!ok)
            return false;
    }
    return true;
}

struct repl {
    struct conversation conversation;
    struct turns       *turns;
    bool                verbose;
    bool                left; /* /bye */
};

static bool is_command(const char *text, const char *name, const char **rest)
{
    size_t n = strlen(name);
    if (strncmp(text, name, n) != 0 || (text[n] && text[n] != ' '))
        return false;
    *rest = text + n + strspn(text + n, " ");
    return true;
}

static int slash_command(struct repl *r, const char *text, struct error *e)
{
    const char *rest;
    if (is_command(text, "/bye", &rest) || is_command(text, "/exit", &rest) || is_command(text, "/quit", &rest))
        r->left = true;
    else if (is_command(text, "/clear", &rest))
        conversation_clear(&r->conversation);
    else if (is_command(text, "/system", &rest))
        return conversation_system(&r->conversation, rest, e);
    else if (is_command(text, "/?", &rest) || is_command(text, "/help", &rest))
        fputs(slash_help, stderr);
    else
        err_note("unknown command %s; /? lists them", text);
    return 0;
}

static int answer_turn(struct repl *r, struct str text, struct error *e)
{
    struct reply a;
    int          rc;
    reply_init(&a, true);
    rc = conversation_turn(&r->conversation, text, &a, e);
    if (!rc)
        out_puts("\n");
    out_flush();
    if (!rc && r->verbose)
        reply_statistics(&a, r->conversation.m);
    reply_deinit(&a);
    return rc;
}

/* One turn of the user. On a terminal a fault is told, and the conversation goes on. */
static int take_turn(struct repl *r, const struct buf *text, struct error *e)
{
    int rc = 0;
    if (text->n && text->p[0] == '/')
        rc = slash_command(r, text->p, e);
    else if (text->n)
        rc = answer_turn(r, buf_str(text), e);
    if (rc && turns_interactive(r->turns)) {
        err_fault(e->msg, NULL);
        rc = 0;
    }
    return rc;
}

static int converse(struct repl *r, struct error *e)
{
    struct buf text;
    enum turn  what = TURN_TEXT;
    bool       stopped = false; /* the last thing was Ctrl-C at an empty prompt: another one leaves */
    int        rc = 0;
    buf_init(&text, TURN_MAX);
    if (turns_interactive(r->turns))
        err_note("%s, %d tokens of context; /? for help", r->conversation.info.name, r->conversation.info.context);
    while (!rc && what != TURN_END && !r->left && !out_failed()) {
        rc = turns_next(r->turns, &text, &what, e);
        if (!rc && what == TURN_INTERRUPTED) {
            fputs("\n", stderr);
            if (stopped)
                rc = error_set(e, ERR_CANCELLED, NULL, "interrupted");
            else if (turns_interactive(r->turns))
                err_note("press Ctrl-C again, or Ctrl-D, to leave");
            stopped = true;
        } else if (!rc && what == TURN_DROPPED) {
            fputs("\n", stderr);
            stopped = false;
        } else if (!rc && what == TURN_TEXT) {
            stopped = false;
            rc = take_turn(r, &text, e);
        }
    }
    if (what == TURN_END && turns_interactive(r->turns))
        fputs("\n", stderr);
    buf_deinit(&text);
    return rc;
}

static int interactive(struct repl *r, struct error *e)
{
    char path[PATH_MAX];
    int  rc = turns_new(&r->turns, history_path(path) ? path : NULL, e);
    if (rc)
        return rc;
    interrupt_hold(true);
    rc = converse(r, e);
    interrupt_hold(false);
    turns_free(r->turns);
    return rc;
}

static int one_shot(struct repl *r, const char *text, struct error *e)
{
    struct reply a;
    int          rc;
    reply_init(&a, true);
    rc = conversation_turn(&r->conversation, str_of(text), &a, e);
    if (!rc)
        rc = reply_finish(&a, r->conversation.m, e);
    reply_deinit(&a);
    return rc;
}

int cmd_run(const struct options *o, struct error *e)
{
    struct mlxcel_options options;
    struct mlxcel_params  params;
    struct mlxcel        *m = NULL;
    struct repl           r = {.verbose = o->verbose};
    const char           *model = o->model ? o->model : STORE_DEFAULT_MODEL;
    int                   rc = api_chat_options(o, &options, e);
    if (!rc)
        rc = reply_params(o, &params, e);
    if (!rc)
        rc = api_open(&m, model, &options, e);
    if (rc == ERR_NOT_FOUND && strpbrk(model, " \t\n"))
        rc = error_set(e, ERR_USAGE, NULL, "there is no model \"%s\"; a prompt is given with -p", model);
    if (!rc)
        rc = conversation_init(&r.conversation, m, &params, o->system, e);
    if (!rc)
        rc = o->prompt ? one_shot(&r, o->prompt, e) : interactive(&r, e);
    conversation_deinit(&r.conversation);
    mlxcel_close(m);
    return rc;
}
