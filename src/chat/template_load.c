/* Finding a model's template and the texts of its special tokens. Contracts in template.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/pyjson.h"
#include "chat/template_source.h"
#include "text/named.h"

#define CONFIG_MAX ((size_t)64 << 20) /* bytes of tokenizer_config.json, which may list every added token */

static int new_template(struct chat_template **out, struct error *e)
{
    struct chat_template *t = calloc(1, sizeof *t);
    if (t && (t->special = json_object())) {
        *out = t;
        return 0;
    }
    free(t);
    return error_nomem(e, "the chat template");
}

int template_load_json(json_t **out, const char *dir, const char *file, struct error *e)
{
    char         path[PATH_MAX];
    struct error why = {0};
    int          n = snprintf(path, PATH_MAX, "%s/%s", dir, file), rc;
    if (n < 0 || n >= PATH_MAX)
        return error_set(e, ERR_NOT_FOUND, NULL, "%s: the path is too long", file);
    rc = pyjson_load(out, path, CONFIG_MAX, &why);
    if (rc == ERR_NOT_FOUND)
        return 0;
    if (!rc && !json_is_object(*out))
        return error_set(e, ERR_FORMAT, NULL, "%s: an object is needed", file);
    return rc ? error_set(e, why.code, NULL, "%s", why.msg) : 0;
}

/* --- special tokens ---------------------------------------------------------------------------------------------- */

/* A token's text: a string, or an object with one as its content. */
static const json_t *token_text(const json_t *v)
{
    const json_t *content = json_object_get(v, "content");
    return json_is_string(v) ? v : json_is_string(content) ? content : NULL;
}

static int add_token(json_t *special, const char *name, const json_t *v, struct error *e)
{
    const json_t *text = token_text(v);
    if (!text || json_object_get(special, name))
        return 0;
    return json_object_set(special, name, (json_t *)text) ? error_nomem(e, "special tokens") : 0;
}

static int add_tokens(json_t *special, json_t *config, struct error *e)
{
    json_t     *extra = json_object_get(config, "extra_special_tokens"), *v;
    const char *name;
    int         rc = 0;
    for (size_t i = 0; i < NAMED_COUNT && !rc; i++)
        rc = add_token(special, named_keys[i], json_object_get(config, named_keys[i]), e);
    json_object_foreach(extra, name, v) if (!rc) rc = add_token(special, name, v, e);
    return rc;
}

static int load_directory(struct chat_template *t, json_t *named, const char *dir, struct error *e)
{
    json_t *config = NULL, *map = NULL;
    int     rc = template_load_json(&config, dir, "tokenizer_config.json", e);
    if (!rc)
        rc = template_load_json(&map, dir, "special_tokens_map.json", e);
    if (!rc)
        rc = add_tokens(t->special, config, e);
    if (!rc)
        rc = add_tokens(t->special, map, e);
    if (!rc)
        rc = template_collect(named, dir, config, e);
    json_decref(config);
    json_decref(map);
    return rc;
}

/* Finishes loading: hands t out, or frees it. */
static int finish(struct chat_template *t, int rc, struct chat_template **out, struct error *e)
{
    if (!rc)
        rc = template_probe(t, e);
    if (!rc)
        *out = t;
    else
        chat_template_free(t);
    return rc;
}

int chat_template_load(struct chat_template **out, const char *dir, const struct chat_template_choice *choice,
                       struct error *e)
{
    struct chat_template *t = NULL;
    json_t               *named = json_object();
    int                   rc = named ? new_template(&t, e) : error_nomem(e, "the chat template");
    if (!rc && dir)
        rc = load_directory(t, named, dir, e);
    if (!rc)
        rc = template_choose(t, named, choice, dir, e);
    json_decref(named);
    return finish(t, rc, out, e);
}

int chat_template_from_source(struct chat_template **out, struct str source, const char *name, struct error *e)
{
    struct chat_template *t = NULL;
    int                   rc = new_template(&t, e);
    if (!rc)
        rc = jinja_parse(&t->main, source, name, e);
    return finish(t, rc, out, e);
}
