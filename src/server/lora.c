/* See lora.h. /lora-adapters is llama-server's route, /v1/load_lora_adapter and /v1/unload_lora_adapter are vLLM's. */
#include "server/lora.h"

#include <float.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/routes.h"

/* ---- requests ---- */

static int read_entry(const json_t *entry, size_t i, const char *field, struct mlxcel_lora *v, struct error *e)
{
    const json_t *id = json_object_get(entry, "id"), *scale = json_object_get(entry, "scale");
    double        d = json_number_value(scale);
    if (!json_is_integer(id) || !json_is_number(scale))
        return error_set(e, ERR_INVALID, field, "%s[%zu] must be an object with an id and a scale, two numbers", field,
                         i);
    if (json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
        return error_set(e, ERR_INVALID, field, "%s[%zu]: there is no adapter with the id %lld", field, i,
                         (long long)json_integer_value(id));
    if (d < -(double)FLT_MAX || d > (double)FLT_MAX)
        return error_set(e, ERR_INVALID, field, "%s[%zu]: a scale of %g is out of range", field, i, d);
    *v = (struct mlxcel_lora){(int)json_integer_value(id), (float)d};
    return 0;
}

int lora_read_list(const json_t *list, const char *field, struct mlxcel_lora **v, size_t *n, struct error *e)
{
    int err = 0;
    *v = NULL;
    *n = json_array_size(list);
    if (!json_is_array(list))
        return error_set(e, ERR_INVALID, field, "%s must be a list of objects with an id and a scale", field);
    *v = malloc((*n + 1) * sizeof **v);
    if (!*v)
        return error_nomem(e, "the request");
    for (size_t i = 0; i < *n && !err; i++)
        err = read_entry(json_array_get(list, i), i, field, &(*v)[i], e);
    return err;
}

static int list_adapters(struct server *s, struct mlxcel_lora_info **list, size_t *n, struct error *e)
{
    struct mlxcel_error why;
    return mlxcel_lora_list(s->model, list, n, &why) ? error_import(e, &why) : 0;
}

/* The place of a name in the list; n when it has none. */
static size_t place_of(const struct mlxcel_lora_info *list, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && strcmp(list[i].name, name) != 0)
        i++;
    return i;
}

/* Names of adapters that were unloaded: as long as none is loaded by such a name, a request for it must not be answered by
 * the base. */
static bool is_gone(struct server *s, const char *name)
{
    pthread_mutex_lock(&s->gone_lock);
    bool gone = json_object_get(s->gone, name) != NULL;
    pthread_mutex_unlock(&s->gone_lock);
    return gone;
}

static void set_gone(struct server *s, const char *name)
{
    pthread_mutex_lock(&s->gone_lock);
    json_object_set_new(s->gone, name, json_true());
    pthread_mutex_unlock(&s->gone_lock);
}

/* Adapter i of the list, and what is fused, which cannot be left out. */
static int take_adapter(const struct mlxcel_lora_info *list, size_t n, size_t i, struct request_params *p,
                        struct error *e)
{
    if (p->sampling.lora)
        return error_set(e, ERR_INVALID, "lora", "lora and a model that is an adapter exclude each other");
    p->lora = malloc(n * sizeof *p->lora);
    p->model = strdup(list[i].name);
    if (!p->lora || !p->model)
        return error_nomem(e, "the request");
    for (size_t k = 0; k < n; k++)
        if (k == i || list[k].fused)
            p->lora[p->sampling.n_lora++] =
                (struct mlxcel_lora){list[k].id, list[k].fused ? list[k].scale : list[k].load_scale};
    p->sampling.lora = p->lora;
    p->lora_found = true;
    return 0;
}

int lora_choose_model(struct server *s, const json_t *body, struct request_params *p, struct error *e)
{
    const char              *name = json_string_value(json_object_get(body, "model"));
    struct mlxcel_lora_info *list = NULL;
    size_t                   n, i;
    if (!name || !strcmp(name, server_model_id(s)))
        return 0;
    int err = list_adapters(s, &list, &n, e);
    if (!err) {
        i = place_of(list, n, name);
        if (i < n)
            err = list[i].fused ? 0 : take_adapter(list, n, i, p, e);
        else if (is_gone(s, name))
            err = error_set(e, ERR_NOT_FOUND, "model", "The model `%s` does not exist.", name);
    }
    mlxcel_free(list);
    return err;
}

int lora_pin(struct server *s, struct request_params *p, struct error *e)
{
    struct mlxcel_lora_info *list = NULL;
    size_t                   n = 0;
    if (p->sampling.lora)
        return 0;
    int err = list_adapters(s, &list, &n, e);
    if (!err && !(p->lora = malloc((n + 1) * sizeof *p->lora)))
        err = error_nomem(e, "the request");
    for (size_t k = 0; k < n && !err; k++)
        if (list[k].scale != 0)
            p->lora[p->sampling.n_lora++] = (struct mlxcel_lora){list[k].id, list[k].scale};
    p->sampling.lora = p->lora;
    p->lora_found = true;
    mlxcel_free(list);
    return err;
}

static bool is_loaded(const struct mlxcel_lora_info *list, size_t n, int id)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].id == id)
            return true;
    return false;
}

bool lora_forget_stale(struct server *s, struct request_params *p)
{
    struct mlxcel_lora_info *list = NULL;
    size_t                   n = 0, there = 0;
    if (!p->lora_found || mlxcel_lora_list(s->model, &list, &n, NULL))
        return false;
    while (there < p->sampling.n_lora && is_loaded(list, n, p->lora[there].id))
        there++;
    mlxcel_free(list);
    if (there == p->sampling.n_lora)
        return false;
    free(p->lora);
    free(p->model);
    p->lora = NULL;
    p->model = NULL;
    p->sampling.lora = NULL;
    p->sampling.n_lora = 0;
    return true;
}

/* ---- models ---- */

static json_t *text_value(const char *text)
{
    json_t *v = json_string(text);
    return v ? v : json_string("(not UTF-8)");
}

static json_t *model_of(const struct server *s, const struct mlxcel_lora_info *a)
{
    return json_pack("{s:o, s:s, s:I, s:s, s:o, s:s}", "id", text_value(a->name), "object", "model", "created",
                     (json_int_t)s->started, "owned_by", "mlxcel", "root", text_value(a->path), "parent",
                     server_model_id(s));
}

void lora_append_models(struct server *s, json_t *models)
{
    struct mlxcel_lora_info *list = NULL;
    size_t                   n = 0;
    mlxcel_lora_list(s->model, &list, &n, NULL);
    for (size_t i = 0; list && i < n; i++)
        json_array_append_new(models, model_of(s, &list[i]));
    mlxcel_free(list);
}

json_t *lora_model(struct server *s, const char *name)
{
    struct mlxcel_lora_info *list = NULL;
    size_t                   n = 0;
    mlxcel_lora_list(s->model, &list, &n, NULL);
    size_t  i = list ? place_of(list, n, name) : n;
    json_t *v = i < n ? model_of(s, &list[i]) : NULL;
    mlxcel_free(list);
    return v;
}

/* ---- /lora-adapters ---- */

static json_t *adapter_value(const struct mlxcel_lora_info *a)
{
    json_t *v = json_pack("{s:i, s:o, s:f, s:s, s:s, s:o, s:b}", "id", a->id, "path", text_value(a->path), "scale",
                          (double)a->scale, "task_name", "", "prompt_prefix", "", "name", text_value(a->name), "fused",
                          (int)a->fused);
    if (!a->fused)
        json_object_update_new(v, json_pack("{s:s, s:s, s:i, s:i, s:I, s:I}", "format", a->format, "kind", a->kind,
                                            "rank", a->rank_max, "modules", a->n_module, "parameters",
                                            (json_int_t)a->n_parameter, "bytes", (json_int_t)a->bytes));
    return v;
}

void route_lora_list(struct http *h)
{
    struct error             e;
    struct mlxcel_lora_info *list = NULL;
    size_t                   n;
    if (list_adapters(h->server, &list, &n, &e)) {
        http_reply_error(h, &e);
        return;
    }
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(all, adapter_value(&list[i]));
    mlxcel_free(list);
    http_reply_json(h, 200, all);
}

void route_lora_set(struct http *h)
{
    struct error        e;
    struct mlxcel_error why;
    struct mlxcel_lora *v = NULL;
    size_t              n;
    json_t             *body = http_body_array(h);
    if (!body)
        return;
    int err = lora_read_list(body, "lora", &v, &n, &e);
    if (!err && mlxcel_lora_set_scales(h->server->model, v, n, &why))
        err = error_import(&e, &why);
    if (err)
        http_reply_error(h, &e);
    else
        http_reply_json(h, 200, json_pack("{s:b}", "success", 1));
    free(v);
    json_decref(body);
}

/* ---- loading and unloading ---- */

static bool is_loopback(const char *host)
{
    return !host || !strncmp(host, "127.", 4) || !strcmp(host, "::1") || !strcmp(host, "localhost");
}

/* Who names a path makes this machine read it: that needs the key, or else a program of this machine; not a page of
 * some web site in a browser of this machine, whose requests tell their origin. */
static bool may_load(struct http *h)
{
    const struct server_options *o = &h->server->o;
    if (o->lora_runtime || o->api_key)
        return true;
    if (is_loopback(o->host) && !MHD_lookup_connection_value(h->connection, MHD_HEADER_KIND, "Origin"))
        return true;
    http_reply_fault(h, 403, "permission_error",
                     "adapters can be loaded and unloaded here only when the server was started with --api-key or "
                     "--lora-runtime");
    return false;
}

/* A text that must be there and not be empty, or NULL. */
static const char *text_field(const json_t *body, const char *name)
{
    const char *text = json_string_value(json_object_get(body, name));
    return text && *text ? text : NULL;
}

static int check_free(struct server *s, const char *name, struct error *e)
{
    json_t *taken = lora_model(s, name);
    json_decref(taken);
    if (taken)
        return error_set(e, ERR_INVALID, "lora_name",
                         "The lora adapter '%s' has already been loaded. If you want to load the adapter in place, set "
                         "'load_inplace' to True.",
                         name);
    return 0;
}

static int load_adapter(struct server *s, const json_t *body, const char *name, struct error *e)
{
    const json_t             *in_place = json_object_get(body, "load_inplace");
    struct mlxcel_error       why;
    struct mlxcel_lora_source source = {
        .path = text_field(body, "lora_path"), .name = name, .idle = true, .replace = json_is_true(in_place)};
    int err = 0;
    if (!name || !source.path)
        return error_set(e, ERR_INVALID, name ? "lora_path" : "lora_name",
                         "Both 'lora_name' and 'lora_path' must be provided.");
    if (in_place && !json_is_null(in_place) && !json_is_boolean(in_place))
        return error_set(e, ERR_INVALID, "load_inplace", "load_inplace must be true or false");
    if (!strcmp(name, server_model_id(s)))
        return error_set(e, ERR_INVALID, "lora_name", "The lora adapter name '%s' is that of the model itself.", name);
    if (!source.replace)
        err = check_free(s, name, e);
    if (!err && mlxcel_lora_load(s->model, &source, NULL, &why)) {
        err = error_import(e, &why);
        if (err != ERR_NOT_FOUND && err != ERR_NOMEM)
            e->code = ERR_INVALID; /* what the request named is at fault, not the server */
        if (strcmp(e->param, "lora_name") != 0)
            snprintf(e->param, sizeof e->param, "lora_path");
    }
    return err;
}

static int unload_adapter(struct server *s, const json_t *body, const char *name, struct error *e)
{
    struct mlxcel_lora_info *list = NULL;
    struct mlxcel_error      why;
    size_t                   n, i;
    (void)body;
    if (!name)
        return error_set(e, ERR_INVALID, "lora_name", "'lora_name' needs to be provided to unload a LoRA adapter.");
    int err = list_adapters(s, &list, &n, e);
    if (err)
        return err;
    i = place_of(list, n, name);
    if (i == n)
        err = error_set(e, ERR_NOT_FOUND, "lora_name", "The lora adapter '%s' cannot be found.", name);
    else {
        set_gone(s, name); /* before it is, so that no request for it can slip through to the base */
        if (mlxcel_lora_unload(s->model, list[i].id, &why))
            err = error_import(e, &why);
    }
    mlxcel_free(list);
    return err;
}

static void reply_done(struct http *h, int err, const struct error *e, const char *name, const char *done)
{
    struct buf text;
    if (err) {
        http_reply_error(h, e);
        return;
    }
    buf_init(&text, 4096);
    buf_printf(&text, "Success: LoRA adapter '%s' %s successfully.", name, done);
    http_reply_text(h, "text/plain; charset=utf-8", buf_cstr(&text));
    buf_deinit(&text);
}

static void change(struct http *h, int (*act)(struct server *s, const json_t *body, const char *name, struct error *e),
                   const char  *done)
{
    struct error e;
    json_t      *body = may_load(h) ? http_body_object(h) : NULL;
    if (!body)
        return;
    const char *name = text_field(body, "lora_name");
    int         err = act(h->server, body, name, &e);
    reply_done(h, err, &e, name, done);
    json_decref(body);
}

void route_lora_load(struct http *h)
{
    change(h, load_adapter, "added");
}

void route_lora_unload(struct http *h)
{
    change(h, unload_adapter, "removed");
}
