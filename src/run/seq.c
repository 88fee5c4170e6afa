/* Sequences: copying a request, turning drawn tokens into events. Contracts in seq.h. */
#include "run/seq.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "run/engine.h"

#define TEXT_MAX ((size_t)64 << 20)

int seq_new(struct seq **out, const int32_t *prompt, size_t n_prompt, const struct mlxcel_params *params, int64_t n_max,
            int n_vocab, const struct tokenizer *t, struct error *e)
{
    struct seq *s = calloc(1, sizeof *s);
    int         err;
    if (!s)
        return error_nomem(e, "a sequence");
    s->params = *params;
    s->n_prompt = s->n_token = (int64_t)n_prompt;
    s->n_max = n_max;
    if (params->max_tokens >= 0)
        s->n_max = MIN(n_max, s->n_prompt + params->max_tokens);
    buf_init(&s->text, TEXT_MAX);
    err = answer_init(&s->answer, t, params->keep_special, params->stop, params->n_stop, e);
    if (!err)
        err = sampler_new(&s->sampler, params, n_vocab, e);
    if (err)
        goto fail;
    s->tokens = malloc((size_t)s->n_max * sizeof *s->tokens);
    s->stop_ids = malloc((params->n_stop_ids + 1) * sizeof *s->stop_ids);
    if (!s->tokens || !s->stop_ids) {
        err = error_nomem(e, "a sequence's tokens");
        goto fail;
    }
    memcpy(s->tokens, prompt, n_prompt * sizeof *prompt);
    if (params->n_stop_ids)
        memcpy(s->stop_ids, params->stop_ids, params->n_stop_ids * sizeof *s->stop_ids);
    s->n_stop_ids = params->n_stop_ids;
    *out = s;
    return 0;
fail:
    seq_free(s, NULL, NULL);
    return err;
}

void seq_free(struct seq *s, struct page_pool *pool, struct page_pool *states)
{
    if (!s)
        return;
    if (pool)
        page_table_deinit(&s->pages, pool);
    if (s->state)
        page_unref(states, s->state);
    adapter_set_unref(s->adapters);
    sampler_free(s->sampler);
    answer_deinit(&s->answer);
    buf_deinit(&s->text);
    free(s->stop_ids);
    free(s->tokens);
    free(s);
}

static void deliver(struct seq *s, struct mlxcel_event *ev, double now)
{
    ev->id = s->id;
    ev->text = buf_cstr(&s->text);
    ev->text_n = s->text.n;
    ev->n_prompt = (int)s->n_prompt;
    ev->n_cached = (int)s->n_cached;
    ev->n_answer = (int)(s->n_token - s->n_prompt);
    if (s->admitted) {
        ev->prompt_seconds = (s->first > 0 ? s->first : now) - s->start;
        ev->answer_seconds = s->first > 0 ? now - s->first : 0;
    }
    if (s->on_event)
        s->on_event(s->ctx, ev);
    buf_clear(&s->text);
}

static bool is_stop_id(const struct seq *s, int32_t id)
{
    for (size_t i = 0; i < s->n_stop_ids; i++)
        if (s->stop_ids[i] == id)
            return true;
    return false;
}

/* The text that token `id` makes printable; the finish it causes. */
static int add_text(struct seq *s, int32_t id, bool ends, const char **hit)
{
    int err = ends ? 0 : answer_push(&s->answer, id, &s->text, hit);
    if (err)
        return MLXCEL_FAILED;
    if (*hit)
        return MLXCEL_STOP;
    if (!ends && s->n_token < s->n_max)
        return MLXCEL_RUNNING;
    if (answer_finish(&s->answer, &s->text, hit))
        return MLXCEL_FAILED;
    return ends || *hit ? MLXCEL_STOP : MLXCEL_LENGTH;
}

int seq_accept(struct seq *s, const struct sample *drawn, bool eos, double now)
{
    struct mlxcel_event ev = {.token = drawn->token, .prob = drawn->prob, .top = drawn->top, .n_top = drawn->n_top};
    struct mlxcel_error oom = {.code = MLXCEL_ENOMEM, .message = "out of memory for the answer's text"};
    if (s->first == 0)
        s->first = now;
    s->tokens[s->n_token++] = drawn->token;
    bool ends = (eos && !s->params.ignore_eos) || is_stop_id(s, drawn->token);
    ev.finish = add_text(s, drawn->token, ends, &ev.stop_string);
    if (ev.finish == MLXCEL_FAILED)
        ev.error = &oom;
    int finish = ev.finish;
    deliver(s, &ev, now);
    return finish;
}

void seq_end(struct seq *s, int finish, const struct error *error, double now)
{
    struct mlxcel_event ev = {.token = -1, .finish = finish};
    struct mlxcel_error pub;
    const char         *hit = NULL;
    if (error) {
        error_export(error, &pub);
        ev.error = &pub;
    }
    if (finish != MLXCEL_FAILED)
        answer_finish(&s->answer, &s->text, &hit);
    deliver(s, &ev, now);
}

int error_export(const struct error *from, struct mlxcel_error *to)
{
    _Static_assert(
        (int)ERR_USAGE == MLXCEL_EUSAGE && (int)ERR_INVALID == MLXCEL_EINVALID && (int)ERR_CONTEXT == MLXCEL_ECONTEXT &&
            (int)ERR_UNSUPPORTED == MLXCEL_EUNSUPPORTED && (int)ERR_NOT_FOUND == MLXCEL_ENOTFOUND &&
            (int)ERR_FORMAT == MLXCEL_EFORMAT && (int)ERR_MISFIT == MLXCEL_EMISFIT && (int)ERR_IO == MLXCEL_EIO &&
            (int)ERR_NOMEM == MLXCEL_ENOMEM && (int)ERR_LIMIT == MLXCEL_ELIMIT && (int)ERR_BUSY == MLXCEL_EBUSY &&
            (int)ERR_CANCELLED == MLXCEL_ECANCELLED && (int)ERR_INTERNAL == MLXCEL_EINTERNAL,
        "public and internal codes agree");
    if (to) {
        to->code = from->code;
        memcpy(to->param, from->param, sizeof to->param);
        memcpy(to->message, from->msg, sizeof to->message);
    }
    return from->code;
}
