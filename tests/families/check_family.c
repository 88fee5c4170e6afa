/* What the order law (docs/order-law.md) promises a model's users and `mlxcel logits` cannot show, over any checkpoint:
 *
 *     check_family DIR
 *
 * A sequence has the same answer, to the last bit of its log-probabilities, alone, in a batch of mixed lengths, after an
 * interruption (its cache kept, or thrown away and computed again), and behind a prompt whose cache it takes over whole,
 * longer, or up to where the two part. Everything goes through the public interface. tests/families drives it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlxcel.h"

enum { SEQS = 5, ANSWER = 20, TOP = 8, PROMPT_MAX = 160, CONTEXT = 256 };

struct answer {
    int32_t            token[ANSWER];
    struct mlxcel_prob prob[ANSWER], top[ANSWER][TOP];
    int                n, n_top, finish, n_cached;
    /* The sequence is cancelled at its token `stop_at`, if that is not 0. */
    struct mlxcel *m;
    int            stop_at;
};

struct prompt {
    int32_t id[PROMPT_MAX];
    size_t  n;
};

static const char *what = "opening"; /* is being tried, for messages */

static void fail(const char *why)
{
    fprintf(stderr, "check_family: %s: %s\n", what, why);
    exit(1);
}

static struct mlxcel *open_model(const char *dir, int precision, int parallel, int chunk, bool prefix_cache)
{
    struct mlxcel        *m;
    struct mlxcel_error   e = {0};
    struct mlxcel_options o = {.threads = 1,
                               .precision = precision,
                               .parallel = parallel,
                               .chunk = chunk,
                               .context = CONTEXT * parallel,
                               .no_prefix_cache = !prefix_cache,
                               .weights_only = true};
    if (mlxcel_open(&m, dir, &o, &e))
        fail(e.message);
    return m;
}

static void collect(void *ctx, const struct mlxcel_event *ev)
{
    struct answer *a = ctx;
    if (ev->error)
        fail(ev->error->message);
    if (ev->token >= 0) {
        a->token[a->n] = ev->token;
        a->prob[a->n] = ev->prob;
        memcpy(a->top[a->n], ev->top, (size_t)ev->n_top * sizeof *ev->top);
        a->n_top = ev->n_top;
        a->n++;
        if (a->stop_at && a->n == a->stop_at)
            mlxcel_cancel(a->m, ev->id);
    }
    a->n_cached = ev->n_cached;
    a->finish = ev->finish;
}

static void submit(struct mlxcel *m, const struct prompt *p, int max_tokens, struct answer *a)
{
    struct mlxcel_error  e = {0};
    struct mlxcel_params params;
    mlxcel_params_greedy(&params);
    params.max_tokens = max_tokens;
    params.n_probs = TOP;
    params.ignore_eos = true;
    *a = (struct answer){.m = m, .stop_at = a->stop_at};
    if (mlxcel_submit(m, p->id, p->n, &params, collect, a, NULL, &e))
        fail(e.message);
}

static void run(struct mlxcel *m, int steps)
{
    struct mlxcel_error e = {0};
    int                 active = 1;
    while (active && steps-- > 0)
        if (mlxcel_step(m, &active, &e))
            fail(e.message);
}

static void answer(struct mlxcel *m, const struct prompt *p, int max_tokens, struct answer *a)
{
    submit(m, p, max_tokens, a);
    run(m, 10000);
}

/* Tokens [0, n) of `found` are those of `wanted` from `from` on. */
static void same(const struct answer *found, const struct answer *wanted, int from)
{
    size_t n = (size_t)(wanted->n - from);
    if (found->finish != MLXCEL_LENGTH || found->n != (int)n || found->n_top != wanted->n_top)
        fail("the answer has another length");
    if (memcmp(found->token, wanted->token + from, n * sizeof *found->token))
        fail("other tokens");
    if (memcmp(found->prob, wanted->prob + from, n * sizeof *found->prob) ||
        memcmp(found->top, wanted->top + from, n * sizeof *found->top))
        fail("the same tokens, other log-probabilities");
}

static void make_prompts(struct prompt *p, int n_vocab)
{
    static const size_t length[SEQS] = {1, 34, 7, 90, 61};
    uint32_t            x = 1;
    for (int i = 0; i < SEQS; i++) {
        p[i].n = length[i];
        for (size_t k = 0; k < p[i].n; k++) {
            x = x * 1664525u + 1013904223u;
            p[i].id[k] = (int32_t)((x >> 8) % (uint32_t)n_vocab);
        }
    }
}

static void batched(const char *dir, int precision, const struct prompt *p, const struct answer *alone)
{
    struct answer  a[SEQS] = {0};
    struct mlxcel *m = open_model(dir, precision, 3, 11, false);
    what = "in a batch of mixed lengths";
    for (int i = 0; i < SEQS; i++) {
        submit(m, &p[i], ANSWER, &a[i]);
        run(m, i);
    }
    run(m, 10000);
    for (int i = 0; i < SEQS; i++)
        same(&a[i], &alone[i], 0);
    mlxcel_close(m);
}

/* A sequence that was stopped goes on as a prompt with what it had answered. */
static void interrupted(const char *dir, int precision, const struct prompt *p, const struct answer *alone)
{
    for (int keep = 0; keep < 2; keep++) {
        struct mlxcel *m = open_model(dir, precision, 2, 16, keep);
        for (int i = 0; i < SEQS; i++) {
            struct answer first = {.stop_at = 1 + 4 * i}, rest = {0};
            struct prompt longer = p[i];
            what = keep ? "resumed" : "preempted and computed again";
            answer(m, &p[i], ANSWER, &first);
            if (first.n != first.stop_at || first.finish != MLXCEL_CANCELLED)
                fail("was not stopped where it should be");
            memcpy(longer.id + longer.n, first.token, (size_t)first.n * sizeof *longer.id);
            longer.n += (size_t)first.n;
            answer(m, &longer, ANSWER - first.n, &rest);
            same(&rest, &alone[i], first.n);
            if (!keep && rest.n_cached)
                fail("the prefix cache is off, yet it was used");
            if (keep && longer.n > 64 && !rest.n_cached)
                fail("the prefix cache was not used");
        }
        mlxcel_close(m);
    }
}

/* Prompts that begin like an earlier one: the same again, and ones that part from it early and late. */
static void shared(const char *dir, int precision, const struct prompt *p, const struct answer *alone, int n_vocab)
{
    static const size_t part[] = {1, 40, 63, 64, 65, 88};
    struct mlxcel      *cold = open_model(dir, precision, 1, 512, false);
    struct mlxcel      *m = open_model(dir, precision, 1, 512, true);
    struct answer       again = {0}, wanted = {0};
    const int           longest = 3;
    what = "behind the same prompt";
    for (int i = 0; i < 3; i++) {
        answer(m, &p[longest], ANSWER, &again);
        same(&again, &alone[longest], 0);
        if (i && !again.n_cached)
            fail("the prefix cache was not used");
    }
    what = "behind a prompt that begins alike";
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        struct prompt other = p[longest];
        other.id[part[i]] = (other.id[part[i]] + 1) % n_vocab;
        answer(cold, &other, ANSWER, &wanted);
        answer(m, &other, ANSWER, &again);
        same(&again, &wanted, 0);
    }
    mlxcel_close(cold);
    mlxcel_close(m);
}

int main(int argc, char **argv)
{
    static const int     precisions[] = {MLXCEL_PRECISION_DEFAULT, MLXCEL_PRECISION_EXACT};
    static struct prompt prompts[SEQS];
    if (argc != 2) {
        fprintf(stderr, "usage: check_family DIR\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
        struct answer      alone[SEQS] = {0};
        struct mlxcel     *m = open_model(argv[1], precisions[i], 1, 512, false);
        struct mlxcel_info info;
        mlxcel_get_info(m, &info);
        make_prompts(prompts, info.n_vocab);
        what = "alone";
        for (int k = 0; k < SEQS; k++) {
            answer(m, &prompts[k], ANSWER, &alone[k]);
            same(&alone[k], &alone[k], 0);
        }
        mlxcel_close(m);
        batched(argv[1], precisions[i], prompts, alone);
        interrupted(argv[1], precisions[i], prompts, alone);
        shared(argv[1], precisions[i], prompts, alone, info.n_vocab);
    }
    return 0;
}
