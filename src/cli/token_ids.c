/* See token_ids.h. JSON goes through the pull reader: a tree would take many times the memory of the text. */
#include "cli/token_ids.h"

#include <errno.h>
#include <stdlib.h>

#include "base/json.h"

static int push(struct ids *ids, long long id, const char *name, struct error *e)
{
    if (id < 0 || id > INT32_MAX)
        return error_set(e, ERR_INVALID, name, "%s: id %lld at position %zu is outside 0..%d", name, id, ids->n,
                         INT32_MAX);
    return ids_push(ids, (int32_t)id) ? 0 : error_nomem(e, "the token ids");
}

static int push_all(struct ids *ids, struct json *j, const char *name, struct error *e)
{
    enum json_token t = json_next(j);
    int             rc = 0;
    if (t != JSON_ARRAY && t != JSON_ERROR)
        return error_set(e, ERR_INVALID, name, "%s: a JSON array of integers is needed, not %s", name,
                         json_token_name(t));
    while (!rc && t != JSON_ERROR && (t = json_next(j)) != JSON_ARRAY_END) {
        if (t == JSON_INT)
            rc = push(ids, j->i, name, e);
        else if (t != JSON_ERROR)
            rc = error_set(e, ERR_INVALID, name,
                           "%s: the value at position %zu is %s, an integer from 0 to %d is needed", name, ids->n,
                           json_token_name(t), INT32_MAX);
    }
    if (!rc && (t == JSON_ERROR || json_next(j) != JSON_EOF))
        rc = json_fault(j, e, name);
    return rc;
}

int token_ids_from_json(struct ids *ids, struct str text, const char *name, struct error *e)
{
    struct json j;
    int         rc;
    json_init(&j, text.p, text.n);
    rc = push_all(ids, &j, name, e);
    json_deinit(&j);
    return rc;
}

int token_ids_from_text(struct ids *ids, const char *text, const char *name, struct error *e)
{
    int rc = 0;
    while (!rc) {
        char     *end;
        long long id;
        errno = 0;
        id = strtoll(text, &end, 10);
        if (end == text)
            return error_set(e, ERR_INVALID, name, "%s: \"%.40s\" is not a list of ids separated by commas", name,
                             text);
        if (errno)
            return error_set(e, ERR_INVALID, name, "%s: id %.*s is outside 0..%d", name,
                             (int)(end - text < 40 ? end - text : 40), text, INT32_MAX);
        rc = push(ids, id, name, e);
        text = end + strspn(end, " ");
        if (!*text)
            break;
        if (*text != ',' && !rc)
            return error_set(e, ERR_INVALID, name, "%s: \"%.40s\" does not begin with a comma", name, text);
        text++;
    }
    return rc;
}
