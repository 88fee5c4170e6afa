/* The engine: alone = in a batch, a seed gives the same tokens everywhere, prefix hits, cancelling, limits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "run/engine.h"
#include "support/fixture.h"

#define MODEL "tests/data/arch/qwen2-tied-bf16"
#define ANSWER 24
#define SEQS 9

struct bench {
    struct fixture f;
    struct engine *g;
};

static void bench_open(struct bench *b, int parallel, int chunk, int context, bool no_prefix, const int32_t *eos)
{
    struct error          e = {0};
    struct engine_options o = {.context = context,
                               .parallel = parallel,
                               .chunk = chunk,
                               .page_tokens = 64,
                               .no_prefix_cache = no_prefix,
                               .eos = eos,
                               .n_eos = eos ? 1 : 0};
    fixture_open(&b->f, MODEL, 2, -1, PRECISION_DEFAULT, 64);
    if (engine_new(&b->g, b->f.model, NULL, &o, &e))
        fail_msg("%s", e.msg);
}

static void bench_close(struct bench *b)
{
    engine_free(b->g);
    fixture_close(&b->f);
}

struct result {
    int32_t        token[256];
    float          logprob[256];
    int            n, finish, n_cached, events;
    char           error[256];
    struct engine *cancel_in; /* cancels itself at its second token */
};

static void collect(void *ctx, const struct mlxcel_event *ev)
{
    struct result *r = ctx;
    r->events++;
    assert_int_equal(r->finish, 0); /* nothing comes after the last event */
    if (ev->token >= 0) {
        r->logprob[r->n] = ev->prob.logprob;
        r->token[r->n++] = ev->token;
    }
    r->finish = ev->finish;
    r->n_cached = ev->n_cached;
    if (ev->error)
        snprintf(r->error, sizeof r->error, "%s", ev->error->message);
    if (r->cancel_in && r->n == 2)
        engine_cancel(r->cancel_in, ev->id);
}

static void prompt_of(int i, int32_t *out, int *n)
{
    *n = 1 + 11 * i;
    for (int k = 0; k < *n; k++)
        out[k] = (k * 37 + i * 101 + k * k) % 120;
}

static struct mlxcel_params params_of(int i)
{
    struct mlxcel_params p;
    if (i % 2)
        mlxcel_params_chat(&p);
    else
        mlxcel_params_greedy(&p);
    p.seed = 7 + (uint64_t)i;
    p.max_tokens = ANSWER;
    p.n_probs = 0;
    return p;
}

static void run_all(struct engine *g)
{
    int active = 1;
    for (int i = 0; active && i < 5000; i++)
        assert_int_equal(engine_step(g, &active, NULL), 0);
    assert_int_equal(active, 0);
}

static void submit(struct engine *g, int i, struct result *r)
{
    int32_t              prompt[256];
    int                  n;
    struct error         e = {0};
    struct mlxcel_params p = params_of(i);
    prompt_of(i, prompt, &n);
    if (engine_submit(g, prompt, (size_t)n, &p, NULL, collect, r, NULL, &e))
        fail_msg("%s", e.msg);
}

static void assert_same(const struct result *a, const struct result *b, const char *what)
{
    if (a->n != b->n || memcmp(a->token, b->token, (size_t)a->n * 4) ||
        memcmp(a->logprob, b->logprob, (size_t)a->n * 4))
        fail_msg("%s: tokens or logprobs differ", what);
    assert_int_equal(a->finish, b->finish);
}

static void test_alone_is_batched(void **state)
{
    static struct result alone[SEQS], batched[SEQS];
    struct bench         b;
    (void)state;
    for (int i = 0; i < SEQS; i++) {
        bench_open(&b, 1, 512, 256, true, NULL);
        submit(b.g, i, &alone[i]);
        run_all(b.g);
        bench_close(&b);
        assert_int_equal(alone[i].n, ANSWER);
        assert_int_equal(alone[i].finish, MLXCEL_LENGTH);
    }
    for (int parallel = 2; parallel <= SEQS; parallel += 3) {
        memset(batched, 0, sizeof batched);
        bench_open(&b, parallel, 3 + parallel, 256, true, NULL);
        for (int i = 0; i < SEQS; i++)
            submit(b.g, i, &batched[i]);
        run_all(b.g);
        bench_close(&b);
        for (int i = 0; i < SEQS; i++)
            assert_same(&batched[i], &alone[i], "batched");
    }
}

static void test_prefix_hit_changes_nothing(void **state)
{
    struct result cold = {0}, warm = {0}, off = {0};
    struct bench  b;
    int32_t       prompt[256];
    int           n;
    (void)state;
    prompt_of(8, prompt, &n);
    bench_open(&b, 2, 64, 256, false, NULL);
    submit(b.g, 8, &cold);
    run_all(b.g);
    assert_int_equal(cold.n_cached, 0);
    submit(b.g, 8, &warm);
    run_all(b.g);
    assert_int_equal(warm.n_cached, n - 1);
    assert_same(&warm, &cold, "prefix hit");
    struct mlxcel_params p = params_of(8);
    p.no_cache_prompt = true;
    assert_int_equal(engine_submit(b.g, prompt, (size_t)n, &p, NULL, collect, &off, NULL, NULL), 0);
    run_all(b.g);
    assert_int_equal(off.n_cached, 0);
    assert_same(&off, &cold, "cache off");
    bench_close(&b);
}

/* Far more cached text than pages: old entries must leave, running sequences must not fail. */
static void test_pages_run_out(void **state)
{
    struct bench b;
    (void)state;
    bench_open(&b, 2, 64, 130, false, NULL);
    for (int round = 0; round < 6; round++)
        for (int i = 0; i < SEQS; i++) {
            struct result r = {0};
            submit(b.g, i, &r);
            run_all(b.g);
            assert_int_equal(r.finish, MLXCEL_LENGTH);
        }
    bench_close(&b);
}

static void test_context_ends_the_answer(void **state)
{
    struct result        r = {0};
    struct bench         b;
    int32_t              prompt[40] = {0};
    struct mlxcel_params p;
    struct error         e = {0};
    (void)state;
    bench_open(&b, 1, 64, 40, true, NULL);
    mlxcel_params_greedy(&p);
    assert_int_equal(engine_submit(b.g, prompt, 30, &p, NULL, collect, &r, NULL, &e), 0);
    run_all(b.g);
    assert_int_equal(r.n, 10);
    assert_int_equal(r.finish, MLXCEL_LENGTH);
    assert_int_equal(engine_submit(b.g, prompt, 40, &p, NULL, collect, &r, NULL, &e), ERR_CONTEXT);
    assert_non_null(strstr(e.msg, "40 tokens"));
    p.max_tokens = 0;
    memset(&r, 0, sizeof r);
    assert_int_equal(engine_submit(b.g, prompt, 40, &p, NULL, collect, &r, NULL, &e), 0);
    run_all(b.g);
    assert_int_equal(r.n, 0);
    assert_int_equal(r.finish, MLXCEL_LENGTH);
    bench_close(&b);
}

static void test_eos_and_stop_ids(void **state)
{
    struct result        plain = {0}, r = {0};
    struct bench         b;
    struct mlxcel_params p = params_of(4);
    int32_t              prompt[256], third;
    int                  n;
    (void)state;
    prompt_of(4, prompt, &n);
    bench_open(&b, 1, 64, 256, true, NULL);
    submit(b.g, 4, &plain);
    run_all(b.g);
    third = plain.token[2];
    int first = 0;
    while (plain.token[first] != third)
        first++;
    p.stop_ids = &third;
    p.n_stop_ids = 1;
    assert_int_equal(engine_submit(b.g, prompt, (size_t)n, &p, NULL, collect, &r, NULL, NULL), 0);
    run_all(b.g);
    assert_int_equal(r.finish, MLXCEL_STOP);
    assert_int_equal(r.n, first + 1);
    bench_close(&b);
    bench_open(&b, 1, 64, 256, true, &third);
    memset(&r, 0, sizeof r);
    submit(b.g, 4, &r);
    run_all(b.g);
    assert_int_equal(r.finish, MLXCEL_STOP);
    memset(&r, 0, sizeof r);
    p = params_of(4);
    p.ignore_eos = true;
    assert_int_equal(engine_submit(b.g, prompt, (size_t)n, &p, NULL, collect, &r, NULL, NULL), 0);
    run_all(b.g);
    assert_same(&r, &plain, "ignore_eos");
    bench_close(&b);
}

static void test_cancel(void **state)
{
    struct result a = {0}, c = {0}, waiting = {0};
    struct bench  b;
    int64_t       id;
    int32_t       prompt[4] = {1, 2, 3, 4};
    (void)state;
    bench_open(&b, 1, 64, 256, false, NULL);
    a.cancel_in = b.g;
    submit(b.g, 1, &a);
    submit(b.g, 2, &c);
    struct mlxcel_params p = params_of(3);
    assert_int_equal(engine_submit(b.g, prompt, 4, &p, NULL, collect, &waiting, &id, NULL), 0);
    engine_cancel(b.g, id);
    engine_cancel(b.g, 12345);
    run_all(b.g);
    assert_int_equal(a.finish, MLXCEL_CANCELLED);
    assert_int_equal(a.n, 2);
    assert_int_equal(c.finish, MLXCEL_LENGTH);
    assert_int_equal(waiting.finish, MLXCEL_CANCELLED);
    assert_int_equal(waiting.events, 1);
    bench_close(&b);
}

static void refused(struct engine *g, const int32_t *prompt, size_t n, const struct mlxcel_params *p, const char *say)
{
    struct error e = {0};
    assert_int_equal(engine_submit(g, prompt, n, p, NULL, collect, NULL, NULL, &e), ERR_INVALID);
    if (!strstr(e.msg, say))
        fail_msg("\"%s\" does not say \"%s\"", e.msg, say);
}

static void test_refusals(void **state)
{
    struct bench         b;
    struct mlxcel_params p;
    int32_t              bad[] = {3, -1}, far[] = {1 << 30};
    (void)state;
    bench_open(&b, 1, 64, 256, false, NULL);
    mlxcel_params_greedy(&p);
    refused(b.g, bad, 0, &p, "no tokens");
    refused(b.g, bad, 2, &p, "token id -1 at position 1");
    refused(b.g, far, 1, &p, "outside the vocabulary");
    p.temperature = NAN;
    refused(b.g, bad, 1, &p, "temperature");
    p.temperature = 0;
    bench_close(&b);
}

/* The queue is bounded, and what was cancelled leaves it at the next step, also while every slot is taken. */
static void test_queue(void **state)
{
    struct bench         b;
    struct mlxcel_params p;
    struct result        running = {0}, waiting[3] = {0}; /* of the last, of those between, of the first */
    struct error         e = {0};
    int32_t              prompt[] = {3};
    int64_t              first, id;
    int                  active;
    (void)state;
    bench_open(&b, 1, 64, 256, false, NULL);
    mlxcel_params_greedy(&p);
    assert_int_equal(engine_submit(b.g, prompt, 1, &p, NULL, collect, &running, NULL, &e), 0);
    assert_int_equal(engine_step(b.g, &active, &e), 0);
    for (int i = 0; i < 1024; i++)
        assert_int_equal(engine_submit(b.g, prompt, 1, &p, NULL, collect,
                                       &waiting[i == 1023 ? 0
                                                : i       ? 1
                                                          : 2],
                                       i ? &id : &first, &e),
                         0);
    assert_int_equal(engine_submit(b.g, prompt, 1, &p, NULL, NULL, NULL, NULL, &e), ERR_BUSY);
    engine_cancel(b.g, first);
    engine_cancel(b.g, first + 500);
    engine_cancel(b.g, id);
    assert_int_equal(engine_step(b.g, &active, &e), 0);
    assert_int_equal(active, 1 + 1021);
    for (int i = 0; i < 3; i++)
        assert_int_equal(waiting[i].finish, MLXCEL_CANCELLED);
    assert_int_equal(running.n, 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(engine_submit(b.g, prompt, 1, &p, NULL, NULL, NULL, NULL, &e), 0);
    assert_int_equal(engine_submit(b.g, prompt, 1, &p, NULL, NULL, NULL, NULL, &e), ERR_BUSY);
    bench_close(&b); /* with all of them waiting */
}

/* A prompt advances also when answers in progress fill the step. */
static void test_prompt_beside_full_step(void **state)
{
    struct bench  b;
    struct result a = {0}, c = {0};
    int           active;
    (void)state;
    bench_open(&b, 2, 1, 256, false, NULL);
    submit(b.g, 0, &a);
    while (!a.n)
        assert_int_equal(engine_step(b.g, &active, NULL), 0);
    submit(b.g, 1, &c);
    for (int i = 0; i < 12; i++)
        assert_int_equal(engine_step(b.g, &active, NULL), 0);
    assert_int_equal(a.finish, MLXCEL_RUNNING);
    assert_int_equal(c.n, 1);
    run_all(b.g);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_is_batched),
        cmocka_unit_test(test_prefix_hit_changes_nothing),
        cmocka_unit_test(test_pages_run_out),
        cmocka_unit_test(test_context_ends_the_answer),
        cmocka_unit_test(test_eos_and_stop_ids),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_prompt_beside_full_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
