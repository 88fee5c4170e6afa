/* Ctrl-C. By default it ends the program at once with status 130; while a command holds it, it only sets a flag, so
 * that an answer can be stopped and a file be finished. A second Ctrl-C while the first is not yet taken ends the
 * program. */
#ifndef MLXCEL_CLI_INTERRUPT_H
#define MLXCEL_CLI_INTERRUPT_H

#include <stdbool.h>

#define INTERRUPT_STATUS 130

void interrupt_init(void);
bool interrupt_hold(bool hold); /* also forgets a Ctrl-C that came before; returns what was set */
bool interrupt_pending(void);
/* A descriptor that can be read while a Ctrl-C is pending, for poll beside another: no signal can fall between a look at
 * the flag and the wait. */
int  interrupt_fd(void);
bool interrupt_take(void); /* whether one came; forgets it */

#endif
