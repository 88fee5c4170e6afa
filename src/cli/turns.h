/* Reading the user's turns: from a terminal with editing and a history (libedit), else line by line from stdin.
 *
 * A turn is a line. A line that ends in a backslash goes on in the next one; a line that begins with three double
 * quotes opens a block that ends with a line that ends in them.
 */
#ifndef MLXCEL_CLI_TURNS_H
#define MLXCEL_CLI_TURNS_H

#include "base/buf.h"
#include "base/error.h"

enum turn {
    TURN_TEXT,
    TURN_END,
    TURN_INTERRUPTED, /* Ctrl-C with nothing typed */
    TURN_DROPPED      /* Ctrl-C with something typed, which is gone */
};

struct turns;

/* history: the file that keeps the lines of earlier sessions, or NULL; used on a terminal only. */
int  turns_new(struct turns **out, const char *history, struct error *e);
void turns_free(struct turns *t); /* NULL is fine */
bool turns_interactive(const struct turns *t);

/* Reads the next turn into text, which it clears first. ERR_IO, ERR_LIMIT, ERR_NOMEM. */
int turns_next(struct turns *t, struct buf *text, enum turn *what, struct error *e);

#endif
