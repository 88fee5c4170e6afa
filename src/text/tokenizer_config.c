/* The texts of the named special tokens, from tokenizer_config.json and, for those that it lacks,
 * special_tokens_map.json.
 *
 * Else only the tokens that tokenizer.json lacks concern the tokenizer (tokenizer_missing.c); what is put around a text,
 * tokenizer.json says. */
#include "base/pyjson.h"
#include "text/tokenizer_int.h"

#define FILE_MAX ((size_t)64 << 20)

const char *const named_keys[NAMED_COUNT] = {
#define NAMED(id, key) key,
#include "text/named.def"
#undef NAMED
};

static int read_specials(struct tokenizer *t, const json_t *doc, const char *path, struct error *e)
{
    for (int i = 0; i < NAMED_COUNT; i++) {
        const json_t *v = json_object_get(doc, named_keys[i]);
        if (t->special[i].p || !v || json_is_null(v))
            continue;
        if (json_is_object(v))
            v = json_object_get(v, "content");
        if (!json_is_string(v))
            return error_set(e, ERR_FORMAT, named_keys[i], "%s: %s is neither a string nor an object with \"content\"",
                             path, named_keys[i]);
        size_t      n = json_string_length(v);
        const char *copy = arena_strdup(&t->arena, json_string_value(v), n);
        if (!copy)
            return error_nomem(e, "a tokenizer");
        t->special[i] = (struct str){copy, n};
    }
    return 0;
}

/* A file that is not there is fine. */
static int read_one(struct tokenizer *t, const char *path, json_t **out, struct error *e)
{
    struct error mine = {0};
    json_t      *doc = NULL;
    int          status = pyjson_load(&doc, path, FILE_MAX, &mine);
    if (status == ERR_NOT_FOUND)
        return 0;
    if (!status && !json_is_object(doc))
        status = error_set(&mine, ERR_FORMAT, NULL, "%s: not a JSON object", path);
    if (!status)
        status = read_specials(t, doc, path, &mine);
    if (out && !status)
        *out = doc;
    else
        json_decref(doc);
    if (status && e)
        *e = mine;
    return status;
}

int tokenizer_read_config(struct tokenizer *t, const char *dir, json_t **config, struct error *e)
{
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json"};
    int                      status = 0;
    if (config)
        *config = NULL;
    for (int i = 0; i < 2 && !status; i++) {
        const char *path = arena_printf(&t->arena, "%s/%s", dir, files[i]);
        status = path ? read_one(t, path, i ? NULL : config, e) : error_nomem(e, "a tokenizer");
    }
    return status;
}
