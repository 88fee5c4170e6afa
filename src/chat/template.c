/* Rendering a request; contracts in template.h.
 *
 * continue_final_message: a mark is put behind the last message's content, and the text is cut where the mark comes
 * out. That finds the place whatever the template adds after the content. Where the template strips its content the
 * blank at the mark's end is gone, too, and then the white space before it is stripped, as the template would have done
 * without the mark.
 */
#include "chat/template.h"

#include <stdlib.h>

#include "chat/jinja_text.h"
#include "chat/template_int.h"

#define MARK STR("CONTINUE_FINAL_MESSAGE_TAG ") /* the word that transformers uses */

static int check_objects(const json_t *request, const char *key, bool needed, struct error *e)
{
    const json_t *list = json_object_get(request, key), *item;
    size_t        i;
    if (!list && needed)
        return error_set(e, ERR_INVALID, key, "%s: missing, a list of objects is needed", key);
    if (!list || (json_is_null(list) && !needed))
        return 0;
    if (!json_is_array(list))
        return error_set(e, ERR_INVALID, key, "%s: a list of objects is needed", key);
    json_array_foreach(list, i, item) if (!json_is_object(item)) return error_set(
        e, ERR_INVALID, key, "%s[%zu]: an object is needed", key, i);
    return 0;
}

static int get_flag(const json_t *request, const char *key, bool *out, struct error *e)
{
    const json_t *v = json_object_get(request, key);
    if (v && !json_is_boolean(v) && !json_is_null(v))
        return error_set(e, ERR_INVALID, key, "%s: true or false is needed", key);
    *out = json_is_true(v);
    return 0;
}

int template_render(const struct chat_template *t, const json_t *request, int64_t now,
                    const struct jinja_limits *limits, struct buf *out, struct error *e)
{
    json_t             *vars = json_copy(t->special);
    const json_t       *tools = json_object_get(request, "tools");
    const struct jinja *j = t->tool_use && tools && !json_is_null(tools) ? t->tool_use : t->main;
    int                 rc;
    if (!j)
        rc = error_set(e, ERR_INVALID, "tools",
                       "the model has chat templates, but none named \"default\"; its \"tool_use\" needs tools");
    else if (!vars || json_object_set_new(vars, "tools", json_null()) ||
             json_object_set_new(vars, "documents", json_null()) ||
             json_object_set_new(vars, "add_generation_prompt", json_false()) ||
             json_object_update(vars, (json_t *)request)) /* only counts references */
        rc = error_nomem(e, "the template's variables");
    else {
        json_object_del(vars, "continue_final_message");
        rc = jinja_render(j, vars, now, limits, out, e);
    }
    json_decref(vars);
    return rc;
}

/* --- continuing the last message --------------------------------------------------------------------------------- */

/* The text that the mark goes behind: the content, or the last part's that has some. *holder[*key] is where it stands.
 */
static const json_t *final_text(json_t *message, json_t **holder, const char **key)
{
    json_t *content = json_object_get(message, "content");
    *holder = message;
    *key = "content";
    for (size_t i = json_array_size(content); i-- > 0;) {
        *holder = json_array_get(content, i);
        *key = "text";
        if (json_object_get(*holder, "text"))
            break;
    }
    return json_object_get(*holder, *key);
}

/* A copy of request with the mark behind the last message's text, which *text is a copy of. */
static int mark_final(const json_t *request, json_t **out, struct buf *text, struct error *e)
{
    json_t     *copy = json_copy((json_t *)request), *messages = json_copy(json_object_get(request, "messages"));
    size_t      n = json_array_size(messages);
    json_t     *last = json_deep_copy(json_array_get(messages, n - 1)), *holder = NULL, *marked;
    const char *key = NULL;
    *out = copy;
    if (!copy || !messages || !last || json_array_set_new(messages, n - 1, last) ||
        json_object_set_new(copy, "messages", messages)) {
        return error_nomem(e, "a copy of the messages");
    }
    const json_t *content = final_text(last, &holder, &key);
    if (!json_is_string(content))
        return error_set(e, ERR_INVALID, "continue_final_message",
                         "continue_final_message is set but the final message has no text to continue");
    buf_put(text, json_string_value(content), json_string_length(content));
    size_t length = text->n;
    buf_put(text, MARK.p, MARK.n);
    marked = text->failed ? NULL : json_stringn(text->p, text->n);
    if (!marked || json_object_set_new(holder, key, marked))
        return error_nomem(e, "a copy of the messages");
    text->n = length;
    return 0;
}

static void cut(struct buf *out, size_t n)
{
    out->n = n;
    if (out->p)
        out->p[n] = '\0';
}

/* Cuts out, whose rendering begins at `start`, at the mark. */
static int cut_at_mark(struct buf *out, size_t start, struct str content, struct error *e)
{
    struct str text = {buf_cstr(out) + start, out->n - start};
    long       at = text_rfind(text, text_strip(MARK, NULL, TEXT_RIGHT));
    if (at < 0 || text_find(text, text_strip(content, NULL, TEXT_BOTH)) < 0)
        return error_set(
            e, ERR_INVALID, "continue_final_message",
            "continue_final_message is set but the chat template does not show the final message as it is");
    bool kept = text_starts(text_slice(text, (size_t)at, text.n), MARK);
    text.n = (size_t)at;
    cut(out, start + (kept ? text : text_strip(text, NULL, TEXT_RIGHT)).n);
    return 0;
}

static int render_continued(const struct chat_template *t, const json_t *request, int64_t now, struct buf *out,
                            struct error *e)
{
    json_t    *marked = NULL;
    struct buf content;
    size_t     start = out->n;
    int        rc;
    buf_init(&content, SIZE_MAX / 2);
    if (!json_array_size(json_object_get(request, "messages")))
        rc = error_set(e, ERR_INVALID, "messages", "continue_final_message is set but there are no messages");
    else
        rc = mark_final(request, &marked, &content, e);
    if (!rc)
        rc = template_render(t, marked, now, NULL, out, e);
    if (!rc)
        rc = cut_at_mark(out, start, buf_str(&content), e);
    if (rc)
        cut(out, start);
    buf_deinit(&content);
    json_decref(marked);
    return rc;
}

int chat_template_render(const struct chat_template *t, const json_t *request, int64_t now, struct buf *out,
                         struct error *e)
{
    bool prompt, continued;
    int  rc;
    if (!json_is_object(request))
        return error_set(e, ERR_INVALID, NULL, "the request: an object is needed");
    if ((rc = check_objects(request, "messages", true, e)) || (rc = check_objects(request, "tools", false, e)) ||
        (rc = check_objects(request, "documents", false, e)) ||
        (rc = get_flag(request, "add_generation_prompt", &prompt, e)) ||
        (rc = get_flag(request, "continue_final_message", &continued, e)))
        return rc;
    if (prompt && continued)
        return error_set(e, ERR_INVALID, "continue_final_message",
                         "continue_final_message and add_generation_prompt cannot both be set");
    return continued ? render_continued(t, request, now, out, e) : template_render(t, request, now, NULL, out, e);
}

void chat_template_free(struct chat_template *t)
{
    if (!t)
        return;
    jinja_free(t->main);
    jinja_free(t->tool_use);
    json_decref(t->special);
    free(t);
}
