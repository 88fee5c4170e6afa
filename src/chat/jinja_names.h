/* Between the parser and jinja_names.c. */
#ifndef MLXCEL_CHAT_JINJA_NAMES_H
#define MLXCEL_CHAT_JINJA_NAMES_H

#include "chat/jinja_ast.h"

/* Marks every NODE_NAME below body that cannot mean a variable of the caller as `hidden`. False: out of memory. */
bool jinja_hide_names(struct arena *arena, struct node *body);

#endif
