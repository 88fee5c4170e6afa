/* The handlers of routes.def: generation for three APIs over one path, and the small ones. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "server/format.h"
#include "server/prompts.h"
#include "server/routes.h"

#define TEXT_MAX ((size_t)64 << 20)

/* ---- generation ---- */

static void reply_free(void *ctx)
{
    struct reply *r = ctx;
    int           n = r->job ? job_choices(r->job) : 0;
    for (int i = 0; r->choice && i < n; i++) {
        buf_deinit(&r->choice[i].text);
        json_decref(r->choice[i].logprobs);
        json_decref(r->choice[i].tokens);
        free(r->choice[i].stop_string);
    }
    free(r->choice);
    job_event_free(r->last);
    job_finish(r->job);
    params_deinit(&r->params);
    free(r);
}

/* Adds an event's numbers to the reply; takes it over. */
static void account(struct reply *r, struct job_event *ev)
{
    struct choice_state *c = &r->choice[ev->choice];
    uint32_t             unused = 0;
    for (size_t i = 0; i < ev->text_n; i++) /* characters, not bytes */
        unused += ((unsigned char)ev->text[i] & 0xc0) != 0x80;
    c->offset += unused;
    if (!ev->finish) {
        job_event_free(ev);
        return;
    }
    c->finish = ev->finish;
    c->n_answer = ev->n_answer;
    if (ev->stop_string)
        c->stop_string = strdup(ev->stop_string);
    if (ev->choice % r->params.n == 0) {
        r->n_prompt_total += ev->n_prompt;
        r->n_cached_total += ev->n_cached;
    }
    r->n_answer_total += ev->n_answer;
    job_event_free(r->last);
    r->last = ev;
}

static void put_event(struct buf *out, json_t *v)
{
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (text)
        buf_printf(out, "data: %s\n\n", text);
    else if (v)
        out->failed = true;
    free(text);
    json_decref(v);
}

/* The end of a stream that cannot be finished: an error event, then the usual end mark. */
static void put_failure(struct reply *r, struct buf *out, const struct mlxcel_error *why)
{
    const char *message = why ? why->message : "the server is shutting down";
    put_event(out, http_error_value(why ? 500 : 503, why ? "server_error" : "unavailable_error", message, NULL));
    if (r->api != API_NATIVE)
        buf_puts(out, "data: [DONE]\n\n");
}

static bool stream_next(void *ctx, struct buf *out)
{
    struct reply *r = ctx;
    while (!out->n) {
        struct job_event *ev = job_next(r->job);
        if (!ev) {
            if (job_aborted(r->job)) {
                put_failure(r, out, NULL);
                return false;
            }
            if (r->params.include_usage && r->api != API_NATIVE)
                put_event(out, format_usage_chunk(r));
            if (r->api != API_NATIVE)
                buf_puts(out, "data: [DONE]\n\n");
            return false;
        }
        if (ev->error) {
            put_failure(r, out, ev->error);
            job_event_free(ev);
            return false;
        }
        if (!r->choice[ev->choice].begun) {
            r->choice[ev->choice].begun = true;
            put_event(out, format_first_chunk(r, ev->choice));
        }
        put_event(out, format_chunk(r, ev));
        account(r, ev);
    }
    return true;
}

/* Appends an event's log-probabilities to the choice's. */
static void keep_logprobs(const struct reply *r, struct choice_state *c, const struct job_event *ev)
{
    json_t     *l = format_logprobs(r, ev), *list;
    const char *key;
    if (!l)
        return;
    if (r->api != API_COMPLETIONS) {
        if (!c->logprobs)
            c->logprobs = json_array();
        json_array_append_new(c->logprobs, l);
        return;
    }
    if (!c->logprobs) {
        c->logprobs = l;
        return;
    }
    json_object_foreach (l, key, list)
        json_array_extend(json_object_get(c->logprobs, key), list);
    json_decref(l);
}

/* Collects the whole answer; 0, or replies with the error. */
static bool collect(struct http *h, struct reply *r)
{
    struct job_event *ev;
    while ((ev = job_next(r->job)) != NULL) {
        struct choice_state *c = &r->choice[ev->choice];
        if (ev->error) {
            http_reply_public_error(h, ev->error);
            job_event_free(ev);
            return false;
        }
        keep_logprobs(r, c, ev);
        buf_put(&c->text, ev->text, ev->text_n);
        if (r->params.return_tokens && ev->token >= 0) {
            if (!c->tokens)
                c->tokens = json_array();
            json_array_append_new(c->tokens, json_integer(ev->token));
        }
        account(r, ev);
    }
    if (job_aborted(r->job))
        http_reply_fault(h, 503, "unavailable_error", "the server is shutting down");
    return !job_aborted(r->job);
}

static void make_id(struct reply *r)
{
    unsigned char random[12] = {0};
    size_t        o = (size_t)snprintf(r->id, sizeof r->id, r->api == API_CHAT ? "chatcmpl-" : "cmpl-");
    if (getrandom(random, sizeof random, 0) < 0)
        memset(random, 0, sizeof random);
    for (size_t i = 0; i < sizeof random; i++)
        o += (size_t)snprintf(r->id + o, sizeof r->id - o, "%02x", random[i]);
    r->created = (int64_t)time(NULL);
}

static int start(struct http *h, struct reply *r, json_t *body, struct error *e)
{
    struct server      *s = h->server;
    struct prompts      p = {0};
    struct mlxcel_error err;
    int                 code = params_read(&r->params, body, r->api, s->model, s->info.n_vocab, e);
    if (!code)
        code = r->api == API_CHAT ? prompts_render_chat(&p, body, s->model, e)
                                  : prompts_read(&p, json_object_get(body, "prompt"), s->model, e);
    if (!code && p.n * r->params.n > JOB_CHOICES_MAX)
        code = error_set(e, ERR_INVALID, "n", "%d prompts of %d choices are more than %d at once", p.n, r->params.n,
                         JOB_CHOICES_MAX);
    if (!code) {
        r->n_prompts = p.n;
        r->choice = calloc((size_t)(p.n * r->params.n), sizeof *r->choice);
        code = r->choice ? 0 : error_nomem(e, "the request");
    }
    for (int i = 0; !code && i < p.n * r->params.n; i++)
        buf_init(&r->choice[i].text, TEXT_MAX);
    if (!code && job_start(&r->job, s, &r->params, (const int32_t *const *)p.ids, p.n_ids, p.n, http_socket(h), &err))
        code = error_import(e, &err);
    prompts_deinit(&p);
    return code;
}

static void generate(struct http *h, enum api api)
{
    struct error  e;
    json_t       *body = http_body_object(h);
    struct reply *r = body ? calloc(1, sizeof *r) : NULL;
    if (!r) {
        if (body)
            http_reply_json(h, 500, NULL);
        json_decref(body);
        return;
    }
    r->server = h->server;
    r->api = api;
    make_id(r);
    int code = start(h, r, body, &e);
    json_decref(body); /* stop strings were copied by the engine */
    if (code) {
        http_reply_error(h, &e);
        reply_free(r);
        return;
    }
    if (r->params.stream) {
        http_stream(h, stream_next, reply_free, r);
        return;
    }
    if (collect(h, r))
        http_reply_json(h, 200, format_whole(r));
    reply_free(r);
}

void route_chat(struct http *h)
{
    generate(h, API_CHAT);
}

void route_completions(struct http *h)
{
    generate(h, API_COMPLETIONS);
}

void route_native(struct http *h)
{
    generate(h, API_NATIVE);
}

/* ---- the small ones ---- */

void route_health(struct http *h)
{
    struct server *s = h->server;
    int            state = atomic_load(&s->state);
    if (state == SERVER_READY)
        http_reply_json(h, 200, json_pack("{s:s}", "status", "ok"));
    else
        http_reply_fault(h, 503, "unavailable_error", state == SERVER_FAILED ? s->load_error.message : "Loading model");
}

void route_models(struct http *h)
{
    struct server *s = h->server;
    json_t *meta = json_pack("{s:i, s:i, s:i, s:I, s:I}", "n_vocab", s->info.n_vocab, "n_ctx", s->info.context, "n_ctx_train",
                             s->info.context_model, "n_params", (json_int_t)s->info.n_parameter, "size",
                             (json_int_t)s->info.weights_bytes);
    http_reply_json(h, 200, json_pack("{s:s, s:[{s:s, s:s, s:I, s:s, s:o}]}", "object", "list", "data", "id",
                                      server_model_id(s), "object", "model", "created", (json_int_t)s->started, "owned_by",
                                      "mlxcel", "meta", meta));
}

void route_props(struct http *h)
{
    struct server *s = h->server;
    http_reply_json(h, 200, json_pack("{s:{s:i}, s:i, s:s, s:s, s:b}", "default_generation_settings", "n_ctx", s->info.context,
                                      "total_slots", s->info.parallel, "model_path", s->info.path, "model_alias",
                                      server_model_id(s), "has_chat_template", (int)s->info.has_template));
}

void route_tokenize(struct http *h)
{
    struct error        e;
    struct mlxcel_error err;
    int32_t            *ids = NULL;
    size_t              n = 0;
    json_t             *body = http_body_object(h), *list = json_array();
    const json_t       *content = json_object_get(body, "content");
    if (!body) {
        json_decref(list);
        return;
    }
    unsigned flags = MLXCEL_PARSE_SPECIAL;
    if (json_is_true(json_object_get(body, "add_special")))
        flags |= MLXCEL_ADD_SPECIAL;
    int code = 0;
    if (!json_is_string(content))
        code = error_set(&e, ERR_INVALID, "content", "content must be a string");
    else if (mlxcel_tokenize(h->server->model, json_string_value(content), json_string_length(content), flags, &ids, &n, &err))
        code = error_import(&e, &err);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(ids[i]));
    mlxcel_free(ids);
    json_decref(body);
    if (code) {
        json_decref(list);
        http_reply_error(h, &e);
    } else
        http_reply_json(h, 200, json_pack("{s:o}", "tokens", list));
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
        code = prompts_read(&p, tokens, h->server->model, &e);
    if (!code && mlxcel_detokenize(h->server->model, p.n ? p.ids[0] : NULL, p.n ? p.n_ids[0] : 0, false, &text, &n, &err))
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
    struct error e;
    char        *text = NULL;
    json_t      *body = http_body_object(h);
    if (!body)
        return;
    if (prompts_chat_text(&text, body, h->server->model, &e))
        http_reply_error(h, &e);
    else
        http_reply_json(h, 200, json_pack("{s:s}", "prompt", text));
    mlxcel_free(text);
    json_decref(body);
}
