/* What the files of the template module share. */
#ifndef MLXCEL_CHAT_TEMPLATE_INT_H
#define MLXCEL_CHAT_TEMPLATE_INT_H

#include <stdbool.h>

#include "chat/jinja.h"
#include "chat/template.h"

/* What a template can read; see template_probe.c. */
struct template_traits {
    bool        system;           /* a system message's text comes out */
    bool        text;             /* content may be a string */
    bool        parts;            /* content may be a list of parts */
    bool        null_content;     /* tool calls come out only where the content is none */
    bool        object_arguments; /* a tool call's arguments should be an object, not a JSON string */
    bool        calls;            /* tool calls come out */
    bool        results;          /* the content of tool messages comes out */
    bool        repeats;          /* two messages of one role may follow each other */
    const char *reasoning;        /* the member of an assistant's message that reasoning is read from, or NULL */
};

struct chat_template {
    struct jinja          *main;     /* NULL: there is only tool_use */
    struct jinja          *tool_use; /* for requests with tools, or NULL */
    json_t                *special;  /* token name -> text */
    struct template_traits traits;
};

/* Fills t->traits by rendering small conversations. A template that fails them all is taken to read the usual forms;
 * only ERR_NOMEM is a fault. */
int template_probe(struct chat_template *t, struct error *e);
/* As chat_template_render, with limits and without continue_final_message. */
int template_render(const struct chat_template *t, const json_t *request, int64_t now,
                    const struct jinja_limits *limits, struct buf *out, struct error *e);

#endif
