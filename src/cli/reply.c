/* See reply.h. */
#include "cli/reply.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/num.h"
#include "cli/api.h"
#include "cli/interrupt.h"
#include "cli/output.h"

#define TEXT_MAX ((size_t)256 << 20)

void reply_init(struct reply *a, bool stream)
{
    *a = (struct reply){.stream = stream};
    buf_init(&a->text, TEXT_MAX);
}

void reply_deinit(struct reply *a)
{
    free(a->stop);
    buf_deinit(&a->text);
}

/* "15043+1.5", "15043-inf" */
static bool parse_bias(const char *text, struct mlxcel_logit_bias *bias)
{
    size_t  digits = strspn(text, "0123456789");
    char    id_text[12];
    int64_t id;
    double  value;
    if (!digits || digits >= sizeof id_text || (text[digits] != '+' && text[digits] != '-'))
        return false;
    memcpy(id_text, text, digits);
    id_text[digits] = '\0';
    if (!num_parse_i64(id_text, &id) || id > INT32_MAX)
        return false;
    if (strcmp(text + digits, "-inf") == 0)
        value = -INFINITY;
    else if (!num_parse_f64(text + digits, &value))
        return false;
    *bias = (struct mlxcel_logit_bias){(int32_t)id, (float)value};
    return true;
}

static int parse_biases(const struct options *o, struct mlxcel_params *p, struct error *e)
{
    struct mlxcel_logit_bias *v = arena_calloc(o->arena, o->logit_bias.n + 1, sizeof *v);
    if (!v)
        return error_nomem(e, "--logit-bias");
    for (size_t i = 0; i < o->logit_bias.n; i++)
        if (!parse_bias(o->logit_bias.v[i], &v[i]))
            return error_set(
                e, ERR_USAGE, NULL,
                "--logit-bias takes a token id, + or -, and a number, as in 15043+1 or 15043-inf, not \"%.200s\"",
                o->logit_bias.v[i]);
    p->logit_bias = v;
    p->n_logit_bias = o->logit_bias.n;
    return 0;
}

static uint64_t fresh_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)(clock_now() * 1e9);
    return seed;
}

int reply_params(const struct options *o, struct mlxcel_params *p, struct error *e)
{
    mlxcel_params_greedy(p);
    p->temperature = (float)o->temp;
    p->top_k = (int)o->top_k;
    p->top_p =
        o->top_p > 0 ? (float)o->top_p : 1e-6f; /* 0: the most likely token alone; in mlxcel_params it is "off" */
    p->min_p = (float)o->min_p;
    p->repetition_penalty = (float)o->repeat_penalty;
    p->presence_penalty = (float)o->presence_penalty;
    p->frequency_penalty = (float)o->frequency_penalty;
    p->penalty_window = (int)o->repeat_last_n;
    p->seed = o->seed < 0 ? fresh_seed() : (uint64_t)o->seed;
    p->max_tokens = (int)o->max_tokens;
    p->ignore_eos = o->ignore_eos;
    p->stop = o->stop.v;
    p->n_stop = o->stop.n;
    return parse_biases(o, p, e);
}

static void on_event(void *ctx, const struct mlxcel_event *event)
{
    struct reply *a = ctx;
    if (event->token >= 0 && a->first_seconds == 0)
        a->first_seconds = clock_now() - a->began;
    buf_put(&a->text, event->text, event->text_n);
    if (a->stream && event->text_n) {
        out_write(event->text, event->text_n);
        out_flush();
    }
    a->n_prompt = event->n_prompt;
    a->n_cached = event->n_cached;
    a->n_answer = event->n_answer;
    a->prompt_seconds = event->prompt_seconds;
    a->answer_seconds = event->answer_seconds;
    a->finish = event->finish;
    if (event->finish && event->stop_string)
        a->stop = strdup(event->stop_string);
    if (event->finish == MLXCEL_FAILED && event->error)
        a->fault = *event->error;
}

int reply_run(struct reply *a, struct mlxcel *m, const int32_t *prompt, size_t n, const struct mlxcel_params *p,
              struct error *e)
{
    struct mlxcel_error fault = {0};
    bool                held = interrupt_hold(true);
    int64_t             id;
    int                 rc, active;
    a->began = clock_now();
    rc = mlxcel_submit(m, prompt, n, p, on_event, a, &id, &fault);
    while (!rc && !a->finish) {
        rc = mlxcel_step(m, &active, &fault);
        if (interrupt_pending() || out_failed())
            mlxcel_cancel(m, id);
    }
    interrupt_hold(held);
    if (rc)
        return api_fault(&fault, e);
    if (a->finish == MLXCEL_FAILED)
        return api_fault(&a->fault, e);
    return a->text.failed ? error_nomem(e, "the answer") : 0;
}

static double rate(int n, double seconds)
{
    return n > 0 && seconds > 0 ? n / seconds : 0;
}

double reply_prompt_rate(const struct reply *a)
{
    return rate(a->n_prompt - a->n_cached, a->prompt_seconds);
}

double reply_decode_rate(const struct reply *a)
{
    return rate(a->n_answer - 1, a->answer_seconds); /* the time begins with the first token */
}

const char *reply_finish_name(const struct reply *a)
{
    switch (a->finish) {
    case MLXCEL_STOP:
        return "stop";
    case MLXCEL_LENGTH:
        return "length";
    default:
        return "cancelled";
    }
}

void reply_statistics(const struct reply *a, const struct mlxcel *m)
{
    struct mlxcel_info info;
    mlxcel_get_info(m, &info);
    fprintf(stderr, "\nload:   %8.3f s\n", info.load_seconds);
    fprintf(stderr, "prompt: %8d tokens, %.1f tok/s, first token after %.3f s", a->n_prompt, reply_prompt_rate(a),
            a->first_seconds);
    fprintf(stderr, a->n_cached ? ", %d from the cache\n" : "\n", a->n_cached);
    fprintf(stderr, "answer: %8d tokens, %.1f tok/s, %s\n", a->n_answer, reply_decode_rate(a), reply_finish_name(a));
    fprintf(stderr, "memory: %8.1f MB at the peak\n", (double)process_peak_rss() / 1e6);
}

int reply_finish(const struct reply *a, const struct mlxcel *m, struct error *e)
{
    if (a->finish == MLXCEL_CANCELLED)
        return error_set(e, ERR_CANCELLED, NULL, "interrupted");
    if (a->stream && out_is_terminal())
        out_puts("\n");
    out_flush();
    if (!out_failed())
        reply_statistics(a, m);
    return 0;
}
