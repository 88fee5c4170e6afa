/* Finding a model's template and the texts of its special tokens. Contracts in template.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/num.h"
#include "base/pyjson.h"
#include "chat/template_int.h"

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

static int join_path(char path[PATH_MAX], const char *dir, const char *file, struct error *e)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", dir, file);
    return n > 0 && n < PATH_MAX ? 0 : error_set(e, ERR_NOT_FOUND, NULL, "%s: the path is too long", file);
}

/* A missing file leaves *out NULL. */
static int load_json(json_t **out, const char *dir, const char *file, struct error *e)
{
    char         path[PATH_MAX];
    struct error why = {0};
    int          rc = join_path(path, dir, file, e);
    if (rc)
        return rc;
    rc = pyjson_load(out, path, CONFIG_MAX, &why);
    if (rc == ERR_NOT_FOUND)
        return 0;
    if (!rc && !json_is_object(*out))
        return error_set(e, ERR_FORMAT, NULL, "%s: an object is needed", file);
    return rc ? error_set(e, why.code, NULL, "%s", why.msg) : 0;
}

/* A missing file leaves *j NULL. */
static int load_source(struct jinja **j, const char *dir, const char *file, struct error *e)
{
    char         path[PATH_MAX];
    struct error why = {0};
    struct buf   b;
    int          rc = join_path(path, dir, file, e);
    if (rc)
        return rc;
    buf_init(&b, JINJA_SOURCE_MAX);
    rc = file_read(&b, path, &why);
    if (!rc)
        rc = jinja_parse(j, buf_str(&b), file, e);
    else if (rc == ERR_NOT_FOUND)
        rc = 0;
    else
        error_set(e, rc, NULL, "%s", why.msg);
    buf_deinit(&b);
    return rc;
}

static int parse_string(struct jinja **j, const json_t *v, const char *file, struct error *e)
{
    return jinja_parse(j, (struct str){json_string_value(v), json_string_length(v)}, file, e);
}

/* [{"name": "default", "template": "..."}, ...] */
static int parse_named(struct chat_template *t, const json_t *list, const char *file, struct error *e)
{
    const json_t *entry;
    size_t        i;
    int           rc = 0;
    json_array_foreach(list, i, entry)
    {
        const char   *name = json_string_value(json_object_get(entry, "name"));
        const json_t *text = json_object_get(entry, "template");
        if (!name || !json_is_string(text))
            return error_set(e, ERR_FORMAT, NULL, "%s: chat_template[%zu]: a name and a template are needed", file, i);
        struct jinja **j = !strcmp(name, "default") ? &t->main : !strcmp(name, "tool_use") ? &t->tool_use : NULL;
        if (j && !*j && (rc = parse_string(j, text, file, e)))
            return rc;
    }
    if (!t->main)
        return error_set(e, ERR_FORMAT, NULL, "%s: chat_template has several templates, none of them named \"default\"",
                         file);
    return 0;
}

static int parse_field(struct chat_template *t, const json_t *config, const char *file, struct error *e)
{
    const json_t *v = json_object_get(config, "chat_template");
    if (!v || json_is_null(v))
        return 0;
    if (json_is_string(v))
        return parse_string(&t->main, v, file, e);
    if (json_is_array(v))
        return parse_named(t, v, file, e);
    return error_set(e, ERR_FORMAT, "chat_template", "%s: chat_template: a string or a list is needed", file);
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
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    json_t                  *extra = json_object_get(config, "extra_special_tokens"), *v;
    const char              *name;
    int                      rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(names) && !rc; i++)
        rc = add_token(special, names[i], json_object_get(config, names[i]), e);
    json_object_foreach(extra, name, v) if (!rc) rc = add_token(special, name, v, e);
    return rc;
}

static int load_all(struct chat_template *t, const char *dir, json_t *config, json_t *map, json_t *processor,
                    struct error *e)
{
    int rc = add_tokens(t->special, config, e);
    if (!rc)
        rc = add_tokens(t->special, map, e);
    if (!rc && !(rc = load_source(&t->main, dir, "chat_template.jinja", e)) && t->main)
        rc = load_source(&t->tool_use, dir, "additional_chat_templates/tool_use.jinja", e);
    if (!rc && !t->main)
        rc = parse_field(t, processor, "chat_template.json", e);
    if (!rc && !t->main)
        rc = parse_field(t, config, "tokenizer_config.json", e);
    if (!rc && !t->main)
        rc = error_set(
            e, ERR_NOT_FOUND, NULL,
            "%s has no chat template: there is no chat_template.jinja, and no chat_template in chat_template.json "
            "or tokenizer_config.json",
            dir);
    return rc;
}

int chat_template_load(struct chat_template **out, const char *dir, struct error *e)
{
    struct chat_template *t = NULL;
    json_t               *config = NULL, *map = NULL, *processor = NULL;
    int                   rc = new_template(&t, e);
    if (!rc && !(rc = load_json(&config, dir, "tokenizer_config.json", e)) &&
        !(rc = load_json(&map, dir, "special_tokens_map.json", e)) &&
        !(rc = load_json(&processor, dir, "chat_template.json", e)))
        rc = load_all(t, dir, config, map, processor, e);
    json_decref(config);
    json_decref(map);
    json_decref(processor);
    if (!rc)
        rc = template_probe(t, e);
    if (!rc)
        *out = t;
    else
        chat_template_free(t);
    return rc;
}

int chat_template_from_source(struct chat_template **out, struct str source, const char *name, struct error *e)
{
    struct chat_template *t = NULL;
    int                   rc = new_template(&t, e);
    if (!rc && !(rc = jinja_parse(&t->main, source, name, e)))
        rc = template_probe(t, e);
    if (!rc)
        *out = t;
    else
        chat_template_free(t);
    return rc;
}
