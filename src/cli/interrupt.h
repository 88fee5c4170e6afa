/* Signals. Ctrl-C ends the program at once with status 130; while a command holds it, it only sets a flag, so that an
 * answer can be stopped and a file be finished or removed. SIGTERM and SIGHUP do the same, but are never forgotten: they
 * end the program, not only an answer. A second signal while the first is not yet taken ends the program at once.
 *
 * A file that is cut while it is mapped (SIGBUS) ends the program with one error line and status 1, unless interrupt_mend
 * is on: then it reads as zeros from there on, and whoever turned it on must give up what was read.
 */
#ifndef MLXCEL_CLI_INTERRUPT_H
#define MLXCEL_CLI_INTERRUPT_H

#include <stdbool.h>

#define INTERRUPT_STATUS 130 /* 128 + SIGINT, as shells count */

void interrupt_init(void);
bool interrupt_hold(bool hold); /* also forgets a Ctrl-C that came before; returns what was set */
bool interrupt_mend(bool mend); /* whether any page was mended since the last call */
bool interrupt_pending(void);
bool interrupt_ending(void); /* whether SIGTERM or SIGHUP came */
int  interrupt_status(void); /* the exit status of an interrupted program */
/* A descriptor that can be read while a signal is pending, for poll beside another: no signal can fall between a look at
 * the flag and the wait. */
int  interrupt_fd(void);
bool interrupt_take(void); /* whether a Ctrl-C came; forgets it */

#endif
