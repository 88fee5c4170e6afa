/* Placeholder: every function says that templates are not built. */
#include "chat/template.h"

static int none(struct error *e)
{
    return error_set(e, ERR_NOT_FOUND, NULL, "chat templates are not supported yet");
}

int chat_template_load(struct chat_template **out, const char *dir, struct error *e)
{
    (void)out;
    (void)dir;
    return none(e);
}

int chat_template_from_source(struct chat_template **out, struct str source, const char *name, struct error *e)
{
    (void)out;
    (void)source;
    (void)name;
    return none(e);
}

void chat_template_free(struct chat_template *t)
{
    (void)t;
}

int chat_template_render(const struct chat_template *t, const json_t *request, int64_t now, struct buf *out, struct error *e)
{
    (void)t;
    (void)request;
    (void)now;
    (void)out;
    return none(e);
}

int chat_template_adapt(const struct chat_template *t, json_t *request, struct error *e)
{
    (void)t;
    (void)request;
    return none(e);
}
