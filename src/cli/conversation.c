/* See conversation.h. */
#include "cli/conversation.h"

#include "base/num.h"
#include "cli/output.h"
#include "cli/prompt.h"

#define ANSWER_SHARE 8 /* one part in so many of the context is kept free for the answer */

static bool has_system(const struct conversation *c)
{
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, 0), "role"));
    return role && strcmp(role, "system") == 0;
}

int conversation_init(struct conversation *c, struct mlxcel *m, const struct mlxcel_params *params, const char *system,
                      struct error *e)
{
    *c = (struct conversation){.m = m, .params = *params};
    mlxcel_get_info(m, &c->info);
    if (!c->info.has_template)
        return error_set(e, ERR_NOT_FOUND, NULL, "%s has no chat template; mlxcel generate --raw can continue a text",
                         c->info.path);
    c->messages = json_array();
    if (!c->messages)
        return error_nomem(e, "the conversation");
    return system ? conversation_system(c, system, e) : 0;
}

void conversation_deinit(struct conversation *c)
{
    json_decref(c->messages);
    *c = (struct conversation){0};
}

int conversation_system(struct conversation *c, const char *text, struct error *e)
{
    json_t *message = NULL;
    if (*text) {
        message = prompt_message("system", str_of(text), e);
        if (!message)
            return e->code;
    }
    if (has_system(c))
        json_array_remove(c->messages, 0);
    if (message && json_array_insert_new(c->messages, 0, message))
        return error_nomem(e, "the conversation");
    return 0;
}

void conversation_clear(struct conversation *c)
{
    while (json_array_size(c->messages) > has_system(c))
        json_array_remove(c->messages, json_array_size(c->messages) - 1);
}

/* Drops the oldest turn, question and answer; false when only the newest question is left. */
static bool drop_turn(struct conversation *c)
{
    size_t first = has_system(c);
    if (json_array_size(c->messages) < first + 3)
        return false;
    json_array_remove(c->messages, first);
    json_array_remove(c->messages, first);
    return true;
}

/* Tokens that the answer should find free. */
static int room_for_answer(const struct conversation *c)
{
    int room = MAX(1, c->info.context / ANSWER_SHARE);
    return c->params.max_tokens > 0 ? MIN(room, c->params.max_tokens) : room;
}

/* Renders the conversation, without its oldest turns as far as the context asks for it. */
static int make_prompt(struct conversation *c, struct prompt *p, struct error *e)
{
    int dropped = 0, rc;
    for (;;) {
        rc = prompt_from_messages(p, c->m, c->messages, e);
        if (rc || p->n + (size_t)room_for_answer(c) <= (size_t)c->info.context || !drop_turn(c))
            break;
        prompt_deinit(p);
        dropped++;
    }
    if (dropped)
        err_note("the context of %d tokens is full: dropped the oldest %d turn%s", c->info.context, dropped,
                 dropped == 1 ? "" : "s");
    return rc;
}

int conversation_turn(struct conversation *c, struct str text, struct reply *a, struct error *e)
{
    struct prompt p = {0};
    int           rc = prompt_add(c->messages, "user", text, e);
    if (rc)
        return rc;
    rc = make_prompt(c, &p, e);
    if (!rc)
        rc = reply_run(a, c->m, p.ids, p.n, &c->params, e);
    if (!rc && a->finish == MLXCEL_LENGTH && a->n_prompt + a->n_answer >= c->info.context)
        err_note("the context of %d tokens is full: the answer ends here", c->info.context);
    if (!rc)
        rc = prompt_add(c->messages, "assistant", buf_str(&a->text), e);
    if (rc)
        json_array_remove(c->messages, json_array_size(c->messages) - 1);
    prompt_deinit(&p);
    return rc;
}
