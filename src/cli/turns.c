/* See turns.h. Prompts go to stderr: stdout carries only the answers. */
#include "cli/turns.h"

#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/input.h"
#include "cli/interrupt.h"

#define HISTORY_LINES 1000
#define LINE_BYTES_MAX ((size_t)64 << 20)
#define QUOTES "\"\"\""
#define QUOTES_LEN 3

struct turns {
    bool        interactive;
    bool        more; /* within a turn of several lines */
    EditLine   *edit;
    History    *history;
    const char *history_file;
    struct buf  line; /* of stdin */
};

static char *prompt(EditLine *edit)
{
    static char   first[] = ">>> ", more[] = "... ";
    struct turns *t = NULL;
    el_get(edit, EL_CLIENTDATA, &t);
    return t->more ? more : first;
}

/* The editor's reader of a character: 1, 0 at the end, -1 with errno. Its own would miss a Ctrl-C that comes between a look
 * at the flag and read(2). */
static int read_char(EditLine *edit, wchar_t *c)
{
    struct pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {interrupt_fd(), POLLIN, 0}};
    mbstate_t     state;
    char          byte;
    size_t        n = (size_t)-2;
    (void)edit;
    memset(&state, 0, sizeof state);
    while (n == (size_t)-2) { /* a character of several bytes */
        int ready = interrupt_pending() ? 1 : poll(fds, 2, -1);
        if (interrupt_pending()) {
            errno = EINTR;
            return -1;
        }
        if (ready < 0 && errno != EINTR)
            return -1;
        if (ready <= 0 || !fds[0].revents)
            continue;
        ssize_t k = read(STDIN_FILENO, &byte, 1);
        if (k <= 0)
            return (int)k;
        n = mbrtowc(c, &byte, 1, &state);
    }
    if (n == (size_t)-1)
        *c = 0xfffd; /* no character */
    return 1;
}

static int open_editor(struct turns *t, struct error *e)
{
    HistEvent ev;
    t->edit = el_init("mlxcel", stdin, stderr, stderr);
    t->history = history_init();
    if (!t->edit || !t->history)
        return error_nomem(e, "the line editor");
    el_set(t->edit, EL_CLIENTDATA, t);
    el_set(t->edit, EL_PROMPT, prompt);
    el_set(t->edit, EL_GETCFN, read_char);
    el_set(t->edit, EL_EDITOR, "emacs");
    el_set(t->edit, EL_HIST, history, t->history);
    el_source(t->edit, NULL); /* the user's ~/.editrc */
    history(t->history, &ev, H_SETSIZE, HISTORY_LINES);
    history(t->history, &ev, H_SETUNIQUE, 1);
    if (t->history_file)
        history(t->history, &ev, H_LOAD, t->history_file);
    return 0;
}

int turns_new(struct turns **out, const char *history_file, struct error *e)
{
    struct turns *t = calloc(1, sizeof *t);
    int           rc;
    if (!t)
        return error_nomem(e, "the line reader");
    buf_init(&t->line, LINE_BYTES_MAX);
    t->interactive = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    t->history_file = history_file;
    rc = t->interactive ? open_editor(t, e) : 0;
    if (rc) {
        t->history_file = NULL;
        turns_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

void turns_free(struct turns *t)
{
    HistEvent ev;
    if (!t)
        return;
    if (t->history && t->history_file)
        history(t->history, &ev, H_SAVE, t->history_file);
    if (t->history)
        history_end(t->history);
    if (t->edit)
        el_end(t->edit);
    buf_deinit(&t->line);
    free(t);
}

bool turns_interactive(const struct turns *t)
{
    return t->interactive;
}

/* The next line of the terminal. */
static int edit_line(struct turns *t, struct str *line, bool *end, struct error *e)
{
    int         count = 0;
    const char *p;
    el_set(t->edit, EL_PREP_TERM, 1); /* before the prompt, so that what is typed as it appears is not lost */
    errno = 0;
    p = el_gets(t->edit, &count);
    if (!p && errno && !interrupt_pending())
        return error_errno(e, errno, "read", "the terminal");
    *end = !p || count < 1;
    if (!*end)
        *line = (struct str){p, (size_t)count - (p[count - 1] == '\n')};
    return 0;
}

/* Whether the line that a Ctrl-C ended has text. */
static bool was_typed(struct turns *t)
{
    const LineInfo *line = t->interactive ? el_line(t->edit) : NULL;
    return line && line->lastchar > line->buffer;
}

/* The next line without its newline. *what: TURN_TEXT when there is one. */
static int read_line(struct turns *t, struct str *line, enum turn *what, struct error *e)
{
    bool end = true;
    int  rc = t->interactive ? edit_line(t, line, &end, e) : input_line(&t->line, &end, e);
    if (!t->interactive)
        *line = buf_str(&t->line);
    if (interrupt_ending())
        return error_set(e, ERR_CANCELLED, NULL, "interrupted");
    if (interrupt_take())
        *what = t->more || was_typed(t) ? TURN_DROPPED : TURN_INTERRUPTED;
    else if (rc)
        return rc;
    else
        *what = end ? TURN_END : TURN_TEXT;
    return 0;
}

/* A block between quotes: open, and without a line yet. */
struct block {
    bool open, empty;
};

static bool has_quotes_at(struct str s, size_t at)
{
    return s.n >= at + QUOTES_LEN && memcmp(s.p + at, QUOTES, QUOTES_LEN) == 0;
}

/* Appends a line inside a block; the newline before closing quotes that stand alone is none of the text. True when the
 * block goes on. */
static bool add_block_line(struct buf *text, struct str line, bool opening)
{
    bool closing = line.n >= QUOTES_LEN && has_quotes_at(line, line.n - QUOTES_LEN);
    if (closing)
        line.n -= QUOTES_LEN;
    if (!opening && (line.n || !closing))
        buf_putc(text, '\n');
    buf_put(text, line.p, line.n);
    return !closing;
}

/* Appends a line to the turn; true when the turn goes on. */
static bool add_line(struct buf *text, struct str line, bool first, struct block *block)
{
    bool more, opening;
    if (first && has_quotes_at(line, 0)) {
        block->open = true;
        line.p += QUOTES_LEN;
        line.n -= QUOTES_LEN;
        block->empty = line.n == 0;
        if (block->empty)
            return true;
    } else {
        first = false;
    }
    if (block->open) {
        opening = first || block->empty;
        block->empty = false;
        return add_block_line(text, line, opening);
    }
    more = line.n && line.p[line.n - 1] == '\\';
    buf_put(text, line.p, line.n - more);
    if (more)
        buf_putc(text, '\n');
    return more;
}

static void add_history(struct turns *t, const struct buf *text)
{
    HistEvent ev;
    if (t->interactive && text->n)
        history(t->history, &ev, H_ENTER, buf_cstr(text));
}

int turns_next(struct turns *t, struct buf *text, enum turn *what, struct error *e)
{
    struct str   line = {0};
    struct block block = {0};
    bool         first = true, more = true;
    int          rc = 0;
    buf_clear(text);
    while (more) {
        t->more = !first;
        rc = read_line(t, &line, what, e);
        if (rc || *what == TURN_INTERRUPTED || *what == TURN_DROPPED)
            return rc;
        if (*what == TURN_END) {
            *what = first ? TURN_END : TURN_TEXT;
            break;
        }
        more = add_line(text, line, first, &block);
        first = false;
    }
    if (text->failed)
        return text->full ? error_set(e, ERR_LIMIT, NULL, "a turn is longer than %zu bytes", text->max)
                          : error_nomem(e, "the turn");
    add_history(t, text);
    return 0;
}
