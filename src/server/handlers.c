/* The small handlers of routes.def. */
#include <string.h>

#include "server/lora.h"
#include "server/prompts.h"
#include "server/routes.h"
#include "server/server_int.h"

void route_index(struct http *h)
{
    http_reply_text(h, "text/plain; charset=utf-8",
                    "mlxcel serves a model: POST /v1/chat/completions, POST /v1/completions, GET /v1/models\n");
}

/* Only asked when the model is ready (routes_dispatch). */
void route_health(struct http *h)
{
    http_reply_json(h, 200, json_pack("{s:s}", "status", "ok"));
}

void route_unsupported(struct http *h)
{
    char message[128];
    snprintf(message, sizeof message, "%s is not supported", h->route->path);
    http_reply_fault(h, 501, "not_supported_error", message);
}

static json_t *model_value(const struct server *s)
{
    json_t *meta = json_pack("{s:i, s:i, s:i, s:I, s:I}", "n_vocab", s->info.n_vocab, "n_ctx", s->info.context,
                             "n_ctx_train", s->info.context_model, "n_params", (json_int_t)s->info.n_parameter, "size",
                             (json_int_t)s->info.weights_bytes);
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:n, s:o}", "id", server_model_id(s), "object", "model", "created",
                     (json_int_t)s->started, "owned_by", "mlxcel", "root", server_model_id(s), "parent", "meta", meta);
}

void route_models(struct http *h)
{
    json_t *models = json_pack("[o]", model_value(h->server));
    lora_append_models(h->server, models);
    http_reply_json(h, 200, json_pack("{s:s, s:o}", "object", "list", "data", models));
}

/* An id may contain slashes. */
void route_model(struct http *h)
{
    struct error e;
    const char  *id = h->path + strlen(h->route->path);
    if (!strcmp(id, server_model_id(h->server))) {
        http_reply_json(h, 200, model_value(h->server));
        return;
    }
    json_t *adapter = lora_model(h->server, id);
    if (adapter) {
        http_reply_json(h, 200, adapter);
        return;
    }
    error_set(&e, ERR_NOT_FOUND, "model", "the model \"%s\" does not exist; GET /v1/models names those that are served",
              id);
    http_reply_error(h, &e);
}

void route_props(struct http *h)
{
    struct server *s = h->server;
    http_reply_json(h, 200,
                    json_pack("{s:{s:i}, s:i, s:s, s:s, s:b, s:s}", "default_generation_settings", "n_ctx",
                              s->info.context, "total_slots", s->info.parallel, "model_path", s->info.path,
                              "model_alias", server_model_id(s), "has_chat_template", (int)s->info.has_template,
                              "build_info", mlxcel_version()));
}

/* Reads a field that must be true or false when it is there. */
static int read_flag(const json_t *body, const char *name, bool *value, struct error *e)
{
    const json_t *v = json_object_get(body, name);
    if (v && !json_is_null(v) && !json_is_boolean(v))
        return error_set(e, ERR_INVALID, name, "%s must be true or false", name);
    if (json_is_boolean(v))
        *value = json_is_true(v);
    return 0;
}

static int tokenize(const struct mlxcel *m, const json_t *body, int32_t **ids, size_t *n, bool *pieces, struct error *e)
{
    struct mlxcel_error why;
    const json_t       *content = json_object_get(body, "content");
    bool                add = false, parse = true;
    int                 err = read_flag(body, "add_special", &add, e);
    if (!err)
        err = read_flag(body, "parse_special", &parse, e);
    if (!err)
        err = read_flag(body, "with_pieces", pieces, e);
    if (err)
        return err;
    if (!json_is_string(content))
        return error_set(e, ERR_INVALID, "content", "content must be a string");
    unsigned flags = (add ? MLXCEL_ADD_SPECIAL : 0u) | (parse ? MLXCEL_PARSE_SPECIAL : 0u);
    err = mlxcel_tokenize(m, json_string_value(content), json_string_length(content), flags, ids, n, &why);
    return err ? error_import(e, &why) : 0;
}

/* {"id", "piece"}; piece is a string, or, where the token is a part of a character, a list of bytes. */
static json_t *token_with_piece(const struct mlxcel *m, int32_t id)
{
    char   *bytes = NULL;
    size_t  n = 0;
    json_t *piece = NULL;
    if (!mlxcel_token_bytes(m, id, &bytes, &n))
        piece = json_stringn(bytes, n); /* NULL unless it is UTF-8 */
    if (!piece && (piece = json_array()) != NULL)
        for (size_t i = 0; i < n; i++)
            json_array_append_new(piece, json_integer((unsigned char)bytes[i]));
    mlxcel_free(bytes);
    return json_pack("{s:i, s:o}", "id", (int)id, "piece", piece);
}

void route_tokenize(struct http *h)
{
    struct error e;
    int32_t     *ids = NULL;
    size_t       n = 0;
    bool         pieces = false;
    json_t      *body = http_body_object(h);
    if (!body)
        return;
    if (tokenize(h->server->model, body, &ids, &n, &pieces, &e))
        http_reply_error(h, &e);
    else {
        json_t *list = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(list, pieces ? token_with_piece(h->server->model, ids[i]) : json_integer(ids[i]));
        http_reply_json(h, 200, json_pack("{s:o}", "tokens", list));
    }
    mlxcel_free(ids);
    json_decref(body);
}

void route_detokenize(struct http *h)
{
    struct error        e;
    struct mlxcel_error err;
    struct prompts      p = {0};
    char               *text = NULL;
    size_t              n = 0;
    json_t             *body = http_body_object(h), *tokens = json_object_get(body, "tokens");
    if (!body)
        return;
    int code = 0;
    if (!json_is_array(tokens) || (json_array_size(tokens) && !json_is_integer(json_array_get(tokens, 0))))
        code = error_set(&e, ERR_INVALID, "tokens", "tokens must be a list of token ids");
    else if (json_array_size(tokens))
        code = prompts_read(&p, tokens, true, h->server->model, &e);
    if (!code &&
        mlxcel_detokenize(h->server->model, p.n ? p.ids[0] : NULL, p.n ? p.n_ids[0] : 0, false, &text, &n, &err))
        code = error_import(&e, &err);
    if (code)
        http_reply_error(h, &e);
    else
        http_reply_json(h, 200, json_pack("{s:s%}", "content", text, n));
    mlxcel_free(text);
    prompts_deinit(&p);
    json_decref(body);
}

void route_apply_template(struct http *h)
{
    struct error          e;
    struct request_params params;
    char                 *text = NULL;
    json_t               *body = http_body_object(h);
    if (!body)
        return;
    int err = params_read(&params, body, API_TEMPLATE, h->server->model, h->server->info.n_vocab, &e);
    if (!err)
        err = prompts_chat_text(&text, body, &params, h->server->model, &e);
    if (err)
        http_reply_error(h, &e);
    else
        http_reply_json(h, 200, json_pack("{s:s}", "prompt", text));
    params_deinit(&params);
    mlxcel_free(text);
    json_decref(body);
}
