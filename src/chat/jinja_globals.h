/* Globals with a file of their own. */
#ifndef MLXCEL_CHAT_JINJA_GLOBALS_H
#define MLXCEL_CHAT_JINJA_GLOBALS_H

#include "chat/jinja_rows.h"

struct value global_lipsum(struct jinja_run *r, struct value self, const struct jinja_call *c);

#endif
