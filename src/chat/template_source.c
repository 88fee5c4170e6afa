/* Collecting a model's templates and choosing one. Contracts in template_source.h.
 *
 * The order of places and the meaning of names are transformers'; a text instead of a name, and built-in names, are
 * llama.cpp's.
 */
#include "chat/template_source.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/num.h"
#include "base/utf8.h"

#define EXTRA_DIR "additional_chat_templates"
#define EXTRA_MAX 64 /* templates that are read from it */

static const struct builtin {
    const char *name, *source;
} builtins[] = {
#define BUILTIN(name, source) {name, source},
#include "chat/builtin.def"
#undef BUILTIN
};

/* --- collecting -------------------------------------------------------------------------------------------------- */

static int add_source(json_t *named, const char *name, struct str source, const char *file, struct error *e)
{
    if (utf8_valid_prefix(source.p, source.n) < source.n)
        return error_set(e, ERR_FORMAT, NULL, "%s: the template is not valid UTF-8", file);
    json_t *entry = json_pack("{s:s%, s:s}", "source", source.p, source.n, "file", file);
    return !entry || json_object_set_new(named, name, entry) ? error_nomem(e, "a chat template") : 0;
}

/* A missing file adds nothing. */
static int add_file(json_t *named, const char *name, const char *dir, const char *file, struct error *e)
{
    char         path[PATH_MAX];
    struct error why = {0};
    struct buf   b;
    int          n = snprintf(path, sizeof path, "%s/%s", dir, file);
    if (n < 0 || n >= PATH_MAX)
        return error_set(e, ERR_NOT_FOUND, NULL, "%s: the path is too long", file);
    buf_init(&b, JINJA_SOURCE_MAX);
    int rc = file_read(&b, path, &why);
    if (!rc)
        rc = add_source(named, name, buf_str(&b), file, e);
    else if (rc == ERR_NOT_FOUND)
        rc = 0;
    else
        error_set(e, rc, NULL, "%s", why.msg);
    buf_deinit(&b);
    return rc;
}

/* `before` templates were known before the folder was read. */
static int add_extra(json_t *named, size_t before, const char *dir, const char *file, struct error *e)
{
    char   name[NAME_MAX + 1], path[PATH_MAX];
    size_t n = strlen(file);
    if (n <= 6 || n > NAME_MAX || strcmp(file + n - 6, ".jinja") != 0)
        return 0;
    if (json_object_size(named) - before >= EXTRA_MAX)
        return error_set(e, ERR_LIMIT, NULL, EXTRA_DIR " holds more than %d templates", EXTRA_MAX);
    snprintf(name, sizeof name, "%.*s", (int)(n - 6), file);
    snprintf(path, sizeof path, EXTRA_DIR "/%s", file);
    return add_file(named, name, dir, path, e);
}

static int add_extras(json_t *named, const char *dir, struct error *e)
{
    char           path[PATH_MAX];
    struct dirent *entry;
    int            rc = 0, n = snprintf(path, sizeof path, "%s/" EXTRA_DIR, dir);
    size_t         before = json_object_size(named);
    DIR           *d = n > 0 && n < PATH_MAX ? opendir(path) : NULL;
    if (!d)
        return errno == ENOMEM ? error_nomem(e, EXTRA_DIR) : 0;
    while (!rc && (entry = readdir(d)))
        rc = add_extra(named, before, dir, entry->d_name, e);
    closedir(d);
    return rc;
}

/* [{"name": "default", "template": "..."}, ...] */
static int add_list(json_t *named, const json_t *list, const char *file, struct error *e)
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
        if ((rc = add_source(named, name, (struct str){json_string_value(text), json_string_length(text)}, file, e)))
            return rc;
    }
    return 0;
}

static int add_field(json_t *named, const json_t *config, const char *file, struct error *e)
{
    const json_t *v = json_object_get(config, "chat_template");
    if (!v || json_is_null(v))
        return 0;
    if (json_is_string(v))
        return add_source(named, "default", (struct str){json_string_value(v), json_string_length(v)}, file, e);
    if (json_is_array(v))
        return add_list(named, v, file, e);
    return error_set(e, ERR_FORMAT, "chat_template", "%s: chat_template: a string or a list is needed", file);
}

int template_collect(json_t *named, const char *dir, const json_t *config, struct error *e)
{
    json_t *processor = NULL;
    int     rc = add_file(named, "default", dir, "chat_template.jinja", e);
    if (!rc)
        rc = add_extras(named, dir, e);
    if (rc || json_object_size(named))
        return rc;
    rc = template_load_json(&processor, dir, "chat_template.json", e);
    if (!rc)
        rc = add_field(named, processor, "chat_template.json", e);
    json_decref(processor);
    if (rc || json_object_size(named))
        return rc;
    return add_field(named, config, "tokenizer_config.json", e);
}

/* --- choosing ---------------------------------------------------------------------------------------------------- */

static int parse_entry(struct jinja **j, const json_t *entry, struct error *e)
{
    const json_t *source = json_object_get(entry, "source");
    return entry ? jinja_parse(j, (struct str){json_string_value(source), json_string_length(source)},
                               json_string_value(json_object_get(entry, "file")), e)
                 : 0;
}

static int order_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "a, b, c", sorted, at most 20. */
static void list_names(const json_t *named, char *out, size_t size)
{
    const char *names[EXTRA_MAX], *name;
    size_t      n = 0, at = 0;
    json_t     *v;
    json_object_foreach((json_t *)named, name, v) if (n < EXTRA_MAX) names[n++] = name;
    qsort(names, n, sizeof *names, order_names);
    *out = '\0';
    for (size_t i = 0; i < MIN(n, 20) && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? ", " : "", names[i]);
}

static int refuse_name(const json_t *named, const char *name, const char *where, struct error *e)
{
    char own[1000], known[200] = "";
    for (size_t i = 0, at = 0; i < ARRAY_LEN(builtins) && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", builtins[i].name);
    list_names(named, own, sizeof own);
    if (access(name, F_OK) == 0)
        return error_set(e, ERR_NOT_FOUND, "chat_template",
                         "no chat template is named \"%s\", but a file is; --chat-template-file reads it", name);
    return error_set(e, ERR_NOT_FOUND, "chat_template",
                     "no chat template is named \"%s\"; built-in ones: %s%s%s%s%s; a template's text needs Jinja marks",
                     name, known, *own ? "; those of " : "", *own && where ? where : "", *own ? ": " : "", own);
}

static bool has_marks(const char *text)
{
    return strstr(text, "{{") || strstr(text, "{%") || strstr(text, "{#");
}

/* `choice` is the name of one of the model's templates, of a built-in one, or a text. */
static int choose_named(struct chat_template *t, const json_t *named, const char *choice, const char *where,
                        struct error *e)
{
    const json_t *entry = json_object_get(named, choice);
    if (entry)
        return parse_entry(&t->main, entry, e);
    if (has_marks(choice))
        return jinja_parse(&t->main, str_of(choice), "chat_template", e);
    for (size_t i = 0; i < ARRAY_LEN(builtins); i++)
        if (!strcmp(builtins[i].name, choice))
            return jinja_parse(&t->main, str_of(builtins[i].source), choice, e);
    return refuse_name(named, choice, where, e);
}

static int choose_file(struct chat_template *t, const char *path, struct error *e)
{
    struct buf  b;
    const char *base = strrchr(path, '/');
    int         rc;
    buf_init(&b, JINJA_SOURCE_MAX);
    rc = file_read(&b, path, e);
    if (!rc)
        rc = jinja_parse(&t->main, buf_str(&b), base ? base + 1 : path, e);
    buf_deinit(&b);
    return rc;
}

int template_choose(struct chat_template *t, const json_t *named, const struct chat_template_choice *choice,
                    const char *where, struct error *e)
{
    char names[1000];
    int  rc;
    if (choice && choice->name && choice->file)
        return error_set(e, ERR_USAGE, "chat_template",
                         "a chat template and a chat template's file exclude each other");
    if (choice && choice->name)
        return choose_named(t, named, choice->name, where, e);
    if (choice && choice->file)
        return choose_file(t, choice->file, e);
    if ((rc = parse_entry(&t->main, json_object_get(named, "default"), e)) ||
        (rc = parse_entry(&t->tool_use, json_object_get(named, "tool_use"), e)))
        return rc;
    if (t->main || t->tool_use)
        return 0;
    if (!json_object_size(named))
        return error_set(
            e, ERR_NOT_FOUND, NULL,
            "%s has no chat template: there is no chat_template.jinja, and no chat_template in chat_template.json "
            "or tokenizer_config.json",
            where);
    list_names(named, names, sizeof names);
    return error_set(e, ERR_FORMAT, "chat_template",
                     "%s: none of its chat templates is named \"default\"; choose one of %s by --chat-template", where,
                     names);
}
