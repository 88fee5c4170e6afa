/* Generation: one path for the three APIs, whole or streamed; how they differ is in params.c, prompts.c and format.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "server/format.h"
#include "server/lora.h"
#include "server/prompts.h"
#include "server/routes.h"

#define TEXT_MAX ((size_t)64 << 20)

static void reply_free(void *ctx)
{
    struct reply *r = ctx;
    for (int i = 0; i < r->n_choice; i++) {
        buf_deinit(&r->choice[i].text);
        json_decref(r->choice[i].logprobs);
        json_decref(r->choice[i].tokens);
        job_event_free(r->choice[i].end);
    }
    free(r->choice);
    job_finish(r->job);
    params_deinit(&r->params);
    free(r);
}

/* Counts an event's characters and keeps the last event of a choice; takes it over. */
static void account(struct reply *r, struct job_event *ev)
{
    struct choice_state *c = &r->choice[ev->choice];
    for (size_t i = 0; i < ev->text_n; i++)
        c->offset += ((unsigned char)ev->text[i] & 0xc0) != 0x80;
    if (!ev->finish) {
        job_event_free(ev);
        return;
    }
    c->end = ev;
    if (ev->choice % r->params.n == 0) { /* a prompt counts once, however many answers it has */
        r->n_prompt_total += ev->n_prompt;
        r->n_cached_total += ev->n_cached;
    }
    r->n_answer_total += ev->n_answer;
}

/* ---- streams ---- */

static void put_event(struct buf *out, json_t *v)
{
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (text)
        buf_printf(out, "data: %s\n\n", text);
    else
        out->failed = true;
    free(text);
    json_decref(v);
}

static void put_end(struct reply *r, struct buf *out)
{
    if (r->api != API_NATIVE)
        buf_puts(out, "data: [DONE]\n\n");
}

/* The end of a stream that cannot be finished: an error event, then the usual end mark. */
static bool put_failure(struct reply *r, struct buf *out, const struct error *e)
{
    put_event(out, http_error_value(e));
    put_end(r, out);
    return false;
}

static bool stream_next(void *ctx, struct buf *out)
{
    struct reply *r = ctx;
    struct error  e;
    while (!out->n && !out->failed) {
        struct job_event *ev = job_next(r->job);
        if (!ev) {
            if (job_failure(r->job, &e))
                return put_failure(r, out, &e);
            if (r->params.include_usage && r->api != API_NATIVE)
                put_event(out, format_usage_chunk(r));
            put_end(r, out);
            return false;
        }
        if (ev->error) {
            error_import(&e, ev->error);
            job_event_free(ev);
            return put_failure(r, out, &e);
        }
        if (!r->choice[ev->choice].begun && r->api == API_CHAT)
            put_event(out, format_first_chunk(r, ev->choice));
        r->choice[ev->choice].begun = true;
        if (format_has_chunk(r, ev))
            put_event(out, format_chunk(r, ev));
        account(r, ev);
    }
    return true;
}

/* ---- whole answers ---- */

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
    json_object_foreach(l, key, list) json_array_extend(json_object_get(c->logprobs, key), list);
    json_decref(l);
}

static void keep_token(struct choice_state *c, int32_t token)
{
    if (!c->tokens)
        c->tokens = json_array();
    json_array_append_new(c->tokens, json_integer(token));
}

/* Collects the whole answer. */
static int collect(struct reply *r, struct error *e)
{
    struct job_event *ev;
    while ((ev = job_next(r->job)) != NULL) {
        struct choice_state *c = &r->choice[ev->choice];
        if (ev->error) {
            error_import(e, ev->error);
            job_event_free(ev);
            return e->code;
        }
        keep_logprobs(r, c, ev);
        buf_put(&c->text, ev->text, ev->text_n);
        if (r->params.return_tokens && ev->token >= 0)
            keep_token(c, ev->token);
        bool failed = c->text.failed;
        account(r, ev);
        if (failed)
            return error_nomem(e, "the answer");
    }
    return job_failure(r->job, e);
}

/* ---- requests ---- */

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

static int make_choices(struct reply *r, int n_prompt, struct error *e)
{
    int n = n_prompt * r->params.n;
    if (n > JOB_CHOICES_MAX)
        return error_set(e, ERR_INVALID, "n", "%d prompts of %d choices are more than %d at once", n_prompt,
                         r->params.n, JOB_CHOICES_MAX);
    r->choice = calloc((size_t)n, sizeof *r->choice);
    if (!r->choice)
        return error_nomem(e, "the request");
    r->n_choice = n;
    for (int i = 0; i < n; i++)
        buf_init(&r->choice[i].text, TEXT_MAX);
    return 0;
}

static int start(struct http *h, struct reply *r, json_t *body, struct error *e)
{
    struct server *s = h->server;
    struct prompts p = {0};
    int            err = params_read(&r->params, body, r->api, s->model, s->info.n_vocab, e);
    if (!err)
        err = lora_choose_model(s, body, &r->params, e);
    if (r->api == API_CHAT && s->o.plain_chats)
        r->params.parse_special = false;
    if (!err)
        err = r->api == API_CHAT
                  ? prompts_render_chat(&p, body, &r->params, s->model, e)
                  : prompts_read(&p, json_object_get(body, "prompt"), r->params.parse_special, s->model, e);
    if (!err)
        err = make_choices(r, p.n, e);
    while (!err) { /* again where an adapter is unloaded between its choice and the start */
        err = r->n_choice > 1 ? lora_pin(s, &r->params, e) : 0;
        if (!err)
            err = job_start(&r->job, s, &r->params, (const int32_t *const *)p.ids, p.n_ids, p.n, http_socket(h), e);
        if (err != ERR_INVALID || !lora_forget_stale(s, &r->params))
            break;
        err = lora_choose_model(s, body, &r->params, e);
    }
    if (err == ERR_CONTEXT && r->api == API_CHAT)
        snprintf(e->param, sizeof e->param, "messages");
    prompts_deinit(&p);
    return err;
}

static void generate(struct http *h, enum api api)
{
    struct error  e;
    json_t       *body = http_body_object(h);
    struct reply *r;
    if (!body)
        return;
    r = calloc(1, sizeof *r);
    if (!r) {
        json_decref(body);
        http_reply_json(h, 500, NULL);
        return;
    }
    r->server = h->server;
    r->api = api;
    make_id(r);
    int err = start(h, r, body, &e);
    json_decref(body); /* the engine has its own copies */
    if (!err && r->params.stream) {
        http_stream(h, stream_next, reply_free, r);
        return;
    }
    if (!err)
        err = collect(r, &e);
    if (err)
        http_reply_error(h, &e);
    else
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
