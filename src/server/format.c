/* See format.h. Field names follow OpenAI's API reference and llama-server's. */
#include "server/format.h"

#include <string.h>

#include "base/utf8.h"

static const char *model_name(const struct reply *r)
{
    return r->params.model ? r->params.model : server_model_id(r->server);
}

static const char *finish_name(int finish)
{
    return finish == MLXCEL_STOP ? "stop" : finish == MLXCEL_LENGTH ? "length" : "error";
}

/* A token's text; bytes that are no character of their own become U+FFFD. */
static json_t *token_text(const struct mlxcel *m, int32_t token, json_t **bytes)
{
    char      *raw = NULL;
    size_t     n = 0;
    uint32_t   cp;
    char       out[4];
    struct buf b;
    buf_init(&b, 1 << 20);
    mlxcel_token_bytes(m, token, &raw, &n);
    if (bytes)
        *bytes = json_array();
    for (size_t i = 0; i < n;) {
        int len = utf8_decode(raw + i, n - i, &cp);
        if (len <= 0) {
            buf_put(&b, out, (size_t)utf8_encode(0xfffd, out));
            len = len < 0 ? -len : (int)(n - i);
        } else
            buf_put(&b, raw + i, (size_t)len);
        for (int k = 0; bytes && k < len; k++)
            json_array_append_new(*bytes, json_integer((unsigned char)raw[i + (size_t)k]));
        i += (size_t)len;
    }
    json_t *text = json_stringn(buf_cstr(&b), b.n);
    buf_deinit(&b);
    mlxcel_free(raw);
    return text;
}

static json_t *prob_entry(const struct mlxcel *m, const struct mlxcel_prob *p, bool with_id)
{
    json_t *bytes, *text = token_text(m, p->token, &bytes);
    json_t *e = json_pack("{s:o, s:f, s:o}", "token", text, "logprob", (double)p->logprob, "bytes", bytes);
    if (with_id)
        json_object_set_new(e, "id", json_integer(p->token));
    return e;
}

static json_t *chat_logprobs(const struct reply *r, const struct job_event *ev)
{
    bool    native = r->api == API_NATIVE;
    json_t *e = prob_entry(r->server->model, &ev->prob, native), *top = json_array();
    for (int i = 0; i < ev->n_top; i++)
        json_array_append_new(top, prob_entry(r->server->model, &ev->top[i], native));
    json_object_set_new(e, "top_logprobs", top);
    return e;
}

/* The four arrays of the older API, with one entry each. */
static json_t *legacy_logprobs(const struct reply *r, const struct job_event *ev)
{
    const struct mlxcel *m = r->server->model;
    json_t              *top = json_object();
    for (int i = 0; i < ev->n_top; i++) {
        json_t *text = token_text(m, ev->top[i].token, NULL);
        json_object_set_new(top, json_string_value(text), json_real((double)ev->top[i].logprob));
        json_decref(text);
    }
    return json_pack("{s:[o], s:[f], s:[o], s:[I]}", "tokens", token_text(m, ev->token, NULL), "token_logprobs",
                     (double)ev->prob.logprob, "top_logprobs", top, "text_offset",
                     (json_int_t)r->choice[ev->choice].offset);
}

json_t *format_logprobs(const struct reply *r, const struct job_event *ev)
{
    if (!r->params.logprobs || ev->token < 0)
        return NULL;
    return r->api == API_COMPLETIONS ? legacy_logprobs(r, ev) : chat_logprobs(r, ev);
}

static json_t *usage(const struct reply *r)
{
    return json_pack("{s:i, s:i, s:i, s:{s:i}}", "prompt_tokens", r->n_prompt_total, "completion_tokens",
                     r->n_answer_total, "total_tokens", r->n_prompt_total + r->n_answer_total, "prompt_tokens_details",
                     "cached_tokens", r->n_cached_total);
}

static double per_second(int n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

static json_t *timings(const struct job_event *ev)
{
    int n = ev->n_prompt - ev->n_cached;
    return json_pack("{s:i, s:i, s:f, s:f, s:i, s:f, s:f}", "cache_n", ev->n_cached, "prompt_n", n, "prompt_ms",
                     ev->prompt_seconds * 1e3, "prompt_per_second", per_second(n, ev->prompt_seconds), "predicted_n",
                     ev->n_answer, "predicted_ms", ev->answer_seconds * 1e3, "predicted_per_second",
                     per_second(ev->n_answer, ev->answer_seconds));
}

/* The object around choices. */
static json_t *envelope(const struct reply *r, const char *object, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", r->id, "object", object, "created", (json_int_t)r->created,
                     "model", model_name(r), "system_fingerprint", mlxcel_version(), "choices", choices);
}

static const char *object_name(const struct reply *r, bool chunk)
{
    return r->api == API_COMPLETIONS ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
}

/* {"content": [...]} of chat, the arrays of completions as they are; null without. */
static json_t *wrap_logprobs(const struct reply *r, json_t *l)
{
    if (!r->params.logprobs)
        return json_null();
    if (r->api == API_COMPLETIONS)
        return l ? l : json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs", "text_offset");
    return json_pack("{s:o}", "content", l ? l : json_array());
}

static json_t *native_facts(const struct reply *r, const struct job_event *ev)
{
    return json_pack("{s:s, s:s, s:s, s:b, s:o}", "model", model_name(r), "stop_type",
                     ev->stop_string               ? "word"
                     : ev->finish == MLXCEL_LENGTH ? "limit"
                                                   : "eos",
                     "stopping_word", ev->stop_string ? ev->stop_string : "", "truncated", 0, "timings", timings(ev));
}

static json_t *native_chunk(const struct reply *r, const struct job_event *ev)
{
    json_t *c = json_pack("{s:i, s:s%, s:b, s:[], s:i, s:i, s:i}", "index", ev->choice, "content", ev->text, ev->text_n,
                          "stop", ev->finish != MLXCEL_RUNNING, "tokens", "tokens_predicted", ev->n_answer,
                          "tokens_evaluated", ev->n_prompt, "tokens_cached", ev->n_cached);
    json_t *l = format_logprobs(r, ev);
    if (ev->token >= 0)
        json_array_append_new(json_object_get(c, "tokens"), json_integer(ev->token));
    if (l)
        json_object_set_new(c, "completion_probabilities", json_pack("[o]", l));
    if (ev->finish) {
        json_t *facts = native_facts(r, ev);
        json_object_update(c, facts);
        json_decref(facts);
    }
    return c;
}

/* A chunk of a stream: OpenAI's have a null usage when the usage comes at the end. */
static json_t *chunk(const struct reply *r, json_t *choice)
{
    json_t *c = envelope(r, object_name(r, true), json_pack("[o]", choice));
    if (r->params.include_usage)
        json_object_set_new(c, "usage", json_null());
    return c;
}

json_t *format_first_chunk(const struct reply *r, int choice)
{
    return chunk(r, json_pack("{s:i, s:{s:s, s:s}, s:n, s:n}", "index", choice, "delta", "role", "assistant", "content",
                              "", "logprobs", "finish_reason"));
}

bool format_has_chunk(const struct reply *r, const struct job_event *ev)
{
    return r->api == API_NATIVE || ev->text_n || ev->finish || (r->params.logprobs && ev->token >= 0);
}

json_t *format_chunk(const struct reply *r, const struct job_event *ev)
{
    if (r->api == API_NATIVE)
        return native_chunk(r, ev);
    json_t *l = format_logprobs(r, ev);
    json_t *c = json_pack("{s:i}", "index", ev->choice);
    if (r->api == API_COMPLETIONS)
        json_object_set_new(c, "text", json_stringn(ev->text, ev->text_n));
    else
        json_object_set_new(c, "delta",
                            ev->text_n ? json_pack("{s:s%}", "content", ev->text, ev->text_n) : json_object());
    json_object_set_new(c, "logprobs",
                        l && r->api == API_CHAT ? json_pack("{s:[o]}", "content", l)
                        : l                     ? l
                                                : json_null());
    json_object_set_new(c, "finish_reason", ev->finish ? json_string(finish_name(ev->finish)) : json_null());
    json_t *whole = chunk(r, c);
    if (ev->finish)
        json_object_set_new(whole, "timings", timings(ev));
    return whole;
}

json_t *format_usage_chunk(const struct reply *r)
{
    json_t *v = envelope(r, object_name(r, true), json_array());
    json_object_set_new(v, "usage", usage(r));
    return v;
}

static json_t *native_choice(const struct reply *r, int i)
{
    const struct choice_state *c = &r->choice[i];
    json_t *v = json_pack("{s:i, s:s%, s:b, s:i, s:i, s:i}", "index", i, "content", buf_cstr(&c->text), c->text.n,
                          "stop", 1, "tokens_predicted", c->end->n_answer, "tokens_evaluated", c->end->n_prompt,
                          "tokens_cached", c->end->n_cached);
    json_t *facts = native_facts(r, c->end);
    json_object_update(v, facts);
    json_decref(facts);
    json_object_set_new(v, "tokens", c->tokens ? json_incref(c->tokens) : json_array());
    if (c->logprobs)
        json_object_set(v, "completion_probabilities", c->logprobs);
    return v;
}

static json_t *native_whole(const struct reply *r)
{
    if (r->n_choice == 1)
        return native_choice(r, 0);
    json_t *all = json_array();
    for (int i = 0; i < r->n_choice; i++)
        json_array_append_new(all, native_choice(r, i));
    return all;
}

static json_t *whole_choice(const struct reply *r, int i)
{
    const struct choice_state *c = &r->choice[i];
    json_t *v = json_pack("{s:i, s:s, s:o}", "index", i, "finish_reason", finish_name(c->end->finish), "logprobs",
                          wrap_logprobs(r, json_incref(c->logprobs)));
    json_t *text = json_stringn(buf_cstr(&c->text), c->text.n);
    if (r->api == API_CHAT)
        json_object_set_new(v, "message", json_pack("{s:s, s:o}", "role", "assistant", "content", text));
    else
        json_object_set_new(v, "text", text);
    return v;
}

json_t *format_whole(const struct reply *r)
{
    if (r->api == API_NATIVE)
        return native_whole(r);
    json_t *choices = json_array();
    for (int i = 0; i < r->n_choice; i++)
        json_array_append_new(choices, whole_choice(r, i));
    json_t *whole = envelope(r, object_name(r, false), choices);
    json_object_set_new(whole, "usage", usage(r));
    json_object_set_new(whole, "timings", timings(r->choice[0].end));
    return whole;
}
