/* Text functions of mlxcel.h: tokenizer and chat template of an opened model. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/api.h"
#include "base/pyjson.h"
#include "chat/template_plain.h"
#include "text/detok.h"

#define TEXT_MAX ((size_t)256 << 20)

static int need_tokenizer(const struct mlxcel *m, struct error *e)
{
    return m->tokenizer ? 0 : error_set(e, ERR_UNSUPPORTED, NULL, "%s was opened without its tokenizer", m->name);
}

/* Hands the buffer's memory out. */
static int give(struct buf *b, int code, char **text, size_t *n, struct error *e)
{
    if (!code && (!buf_reserve(b, 0) || b->failed))
        code = b->full ? error_set(e, ERR_LIMIT, NULL, "the text is longer than 256 MiB") : error_nomem(e, "a text");
    if (code) {
        buf_deinit(b);
        return code;
    }
    b->p[b->n] = '\0';
    *text = b->p;
    if (n)
        *n = b->n;
    return 0;
}

int mlxcel_tokenize(const struct mlxcel *m, const char *text, size_t n, unsigned flags, int32_t **ids, size_t *n_ids,
                    struct mlxcel_error *err)
{
    struct error e = {0};
    struct ids   list = {0};
    _Static_assert((int)MLXCEL_ADD_SPECIAL == (int)TOKENIZE_ADD_SPECIAL &&
                       (int)MLXCEL_PARSE_SPECIAL == (int)TOKENIZE_PARSE_SPECIAL,
                   "public and internal flags agree");
    int code = need_tokenizer(m, &e);
    if (!code)
        code = tokenizer_encode(m->tokenizer, (struct str){text, n}, flags, &list, &e);
    if (code) {
        ids_deinit(&list);
        return api_result(code, &e, err);
    }
    *ids = list.v;
    *n_ids = list.n;
    return 0;
}

int mlxcel_detokenize(const struct mlxcel *m, const int32_t *ids, size_t n, bool skip_special, char **text,
                      size_t *text_n, struct mlxcel_error *err)
{
    struct error e = {0};
    struct buf   b;
    buf_init(&b, TEXT_MAX);
    int code = need_tokenizer(m, &e);
    if (!code)
        code = tokenizer_decode(m->tokenizer, ids, n, skip_special, &b, &e);
    return api_result(give(&b, code, text, text_n, &e), &e, err);
}

int mlxcel_token_bytes(const struct mlxcel *m, int32_t id, char **bytes, size_t *n)
{
    struct error e = {0};
    struct buf   b;
    buf_init(&b, TEXT_MAX);
    int code = need_tokenizer(m, &e);
    if (!code)
        code = tokenizer_token_bytes(m->tokenizer, id, &b);
    return give(&b, code, bytes, n, &e);
}

/* Adds the model's variables that the request does not set. */
static int add_variables(const struct mlxcel *m, json_t *request, struct error *e)
{
    if (!m->variables || !json_is_object(request)) /* what is no object is refused later */
        return 0;
    json_t *copy = json_deep_copy(m->variables); /* threads share the original */
    int     rc = copy && !json_object_update_missing(request, copy) ? 0 : error_nomem(e, "a chat request");
    json_decref(copy);
    return rc;
}

/* The JSON of a chat request, with the model's variables, adapted if asked for; NULL after a fault. */
static json_t *read_request(const struct mlxcel *m, const char *request, bool adapt, struct error *e)
{
    json_t *req = NULL;
    if (!m->chat) {
        error_set(e, ERR_NOT_FOUND, NULL, "%s has no chat template", m->name);
        return NULL;
    }
    if (pyjson_parse_with(&req, str_of(request), 0, "the chat request", e)) {
        e->code = e->code == ERR_FORMAT ? ERR_INVALID : e->code;
        return NULL;
    }
    if (add_variables(m, req, e) || (adapt && chat_template_adapt(m->chat, req, e))) {
        json_decref(req);
        return NULL;
    }
    return req;
}

int mlxcel_render_chat(const struct mlxcel *m, const char *request, bool adapt, char **text, struct mlxcel_error *err)
{
    struct error e = {0};
    struct buf   b;
    json_t      *req = read_request(m, request, adapt, &e);
    if (!req)
        return api_result(e.code, &e, err);
    buf_init(&b, TEXT_MAX);
    int code = chat_template_render(m->chat, req, (int64_t)time(NULL), &b, &e);
    json_decref(req);
    return api_result(give(&b, code, text, NULL, &e), &e, err);
}

int mlxcel_tokenize_chat(const struct mlxcel *m, const char *request, unsigned flags, int32_t **ids, size_t *n_ids,
                         struct mlxcel_error *err)
{
    struct error       e = {0};
    struct ids         list = {0};
    struct plain_spans plain = {0};
    struct buf         text;
    json_t            *req = need_tokenizer(m, &e) ? NULL : read_request(m, request, true, &e);
    bool               parse = flags & MLXCEL_PARSE_SPECIAL;
    if (!req)
        return api_result(e.code, &e, err);
    buf_init(&text, TEXT_MAX);
    int code = parse ? chat_template_render(m->chat, req, (int64_t)time(NULL), &text, &e)
                     : chat_template_render_plain(m->chat, m->tokenizer, req, (int64_t)time(NULL), &text, &plain, &e);
    if (!code)
        code = tokenizer_encode_plain(m->tokenizer, buf_str(&text), parse ? NULL : &plain, TOKENIZE_PARSE_SPECIAL,
                                      &list, &e);
    json_decref(req);
    buf_deinit(&text);
    plain_spans_deinit(&plain);
    if (code) {
        ids_deinit(&list);
        return api_result(code, &e, err);
    }
    *ids = list.v;
    *n_ids = list.n;
    return 0;
}
