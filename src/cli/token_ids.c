/* See token_ids.h. */
#include "cli/token_ids.h"

#include <errno.h>
#include <stdlib.h>

static int push(struct ids *ids, long long id, const char *name, struct error *e)
{
    if (id < 0 || id > INT32_MAX)
        return error_set(e, ERR_INVALID, name, "%s: id %lld at position %zu is outside 0..%d", name, id, ids->n,
                         INT32_MAX);
    return ids_push(ids, (int32_t)id) ? 0 : error_nomem(e, "the token ids");
}

int token_ids_from_json(struct ids *ids, const json_t *value, const char *name, struct error *e)
{
    size_t  i;
    json_t *item;
    int     rc = 0;
    if (!json_is_array(value))
        return error_set(e, ERR_INVALID, name, "%s: a JSON array of integers is needed", name);
    json_array_foreach(value, i, item)
    {
        if (!json_is_integer(item))
            return error_set(e, ERR_INVALID, name, "%s: the value at position %zu is not an integer", name, i);
        rc = push(ids, json_integer_value(item), name, e);
        if (rc)
            break;
    }
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

json_t *token_ids_to_json(const struct ids *ids)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < ids->n; i++) {
        if (json_array_append_new(array, json_integer(ids->v[i]))) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}
