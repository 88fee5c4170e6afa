/* The engine over models whose cache is not only keys and values: recurrent state and its snapshots, latent caches, chosen
 * keys, windows, token context, ropes that depend on the prompt's length. Whatever a sequence takes over from earlier ones,
 * beside whatever others, stopped wherever: its tokens and log-probabilities are those that it has alone from nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "adapt/adapt.h"
#include "run/engine.h"
#include "support/family.h"

enum { PROMPT_MAX = 200, ANSWER_MAX = 12, CONTEXT = 256, SETS = 3, PROMPT = 150, ANSWER = 8 };

static const char *family, *what; /* under test, for messages */
static char       *model_dir, *adapter_dir;

/* ---- engines ---- */

struct rig {
    struct fixture      f;
    struct engine      *g;
    struct adapter     *adapter;
    struct adapter_set *set[SETS]; /* none, the adapter, the adapter at half its scale */
    bool                recurrent;
};

struct setup {
    int  parallel, chunk, context, snapshots;
    bool cold;
};
static const struct setup usual = {3, 40, CONTEXT, 0, false}, alone = {1, 512, CONTEXT, 0, true};
static struct rig         cold; /* computes what is expected */

static void rig_open(struct rig *r, const struct setup *s)
{
    struct error          e = {0};
    struct backend       *prepare = NULL;
    struct cpu_options    cpu = {.threads = 1, .level = -1};
    struct engine_options o = {.context = s->context,
                               .parallel = s->parallel,
                               .chunk = s->chunk,
                               .page_tokens = 64,
                               .no_prefix_cache = s->cold,
                               .snapshots = s->snapshots};
    fixture_open(&r->f, model_dir, 1, -1, PRECISION_DEFAULT, 64);
    r->recurrent = r->f.model->limits.n_state > 0;
    if (engine_new(&r->g, r->f.model, NULL, &o, &e) || cpu_backend_new(&prepare, &cpu, &e) ||
        adapter_load(&r->adapter, adapter_dir, r->f.model, prepare, NULL, &e))
        fail_msg("%s: %s", family, e.msg);
    prepare->free(prepare);
    r->set[0] = NULL;
    for (int i = 1; i < SETS; i++)
        assert_int_equal(adapter_set_new(&r->set[i], &(struct adapter_use){r->adapter, 1 / (float)i}, 1, NULL), 0);
}

static void rig_close(struct rig *r)
{
    engine_free(r->g);
    for (int i = 0; i < SETS; i++)
        adapter_set_unref(r->set[i]);
    adapter_unref(r->adapter);
    fixture_close(&r->f);
}

static void run(struct rig *r, int steps)
{
    int active = 1;
    while (active && steps-- > 0)
        assert_int_equal(engine_step(r->g, &active, NULL), 0);
}

/* ---- requests ---- */

struct request {
    int32_t prompt[PROMPT_MAX];
    int     n, answer, set;
    bool    no_cache;
    int     cancel_at; /* at so many tokens of the answer; 0: never */
};

struct result {
    int32_t        token[ANSWER_MAX];
    float          logprob[ANSWER_MAX];
    int            n, finish, n_cached, cancel_at;
    int64_t        id;
    struct engine *g;
};

static void collect(void *ctx, const struct mlxcel_event *ev)
{
    struct result *r = ctx;
    if (ev->error)
        fail_msg("%s, %s: %s", family, what, ev->error->message);
    if (ev->token >= 0) {
        r->logprob[r->n] = ev->prob.logprob;
        r->token[r->n++] = ev->token;
        if (r->n == r->cancel_at)
            engine_cancel(r->g, ev->id);
    }
    r->finish = ev->finish;
    r->n_cached = ev->n_cached;
}

static void submit(struct rig *r, const struct request *q, struct result *out)
{
    struct error         e = {0};
    struct mlxcel_params p;
    mlxcel_params_chat(&p);
    p.temperature = 1;
    p.seed = (uint64_t)q->n;
    p.max_tokens = q->answer;
    p.n_probs = 0;
    p.no_cache_prompt = q->no_cache;
    *out = (struct result){.cancel_at = q->cancel_at, .g = r->g};
    if (engine_submit(r->g, q->prompt, (size_t)q->n, &p, r->set[q->set], collect, out, &out->id, &e))
        fail_msg("%s, %s: %s", family, what, e.msg);
}

static bool same_answer(const struct request *a, const struct request *b)
{
    return a->n == b->n && a->answer == b->answer && a->set == b->set &&
           !memcmp(a->prompt, b->prompt, (size_t)a->n * sizeof *a->prompt);
}

/* What the request has alone. The last one's is kept: prompts come several times in a row. */
static const struct result *expect(const struct request *q)
{
    static struct request last;
    static struct result  wanted;
    static const char    *whose;
    if (whose == family && same_answer(q, &last))
        return &wanted;
    whose = family;
    last = *q;
    last.cancel_at = 0;
    submit(&cold, &last, &wanted);
    run(&cold, 1000);
    return &wanted;
}

/* The result is what the request has alone, as far as it went. */
static void check(const struct request *q, const struct result *found)
{
    const struct result *wanted = expect(q);
    size_t               bytes = (size_t)found->n * sizeof(float);
    if (found->finish == MLXCEL_LENGTH ? found->n != wanted->n : found->finish != MLXCEL_CANCELLED)
        fail_msg("%s, %s: %d tokens, finish %d", family, what, found->n, found->finish);
    if (memcmp(found->token, wanted->token, bytes) || memcmp(found->logprob, wanted->logprob, bytes))
        fail_msg("%s, %s: %d tokens after %d cached of %d differ", family, what, found->n, found->n_cached, q->n);
}

static void cached(const struct result *found, int needed)
{
    if (found->n_cached != needed)
        fail_msg("%s, %s: %d tokens were cached, not %d", family, what, found->n_cached, needed);
}

/* Runs it to its end and checks it. */
static struct result answer(struct rig *r, const struct request *q)
{
    struct result found;
    submit(r, q, &found);
    run(r, 1000);
    check(q, &found);
    return found;
}

static uint32_t rng_state;

static int rnd(int n)
{
    rng_state = rng_state * 1664525u + 1013904223u;
    return (int)((rng_state >> 8) % (uint32_t)n);
}

/* Appends tokens that the seed decides. */
static void put_tokens(struct request *q, int n, uint32_t seed)
{
    rng_state = seed;
    for (int i = 0; i < n; i++)
        q->prompt[q->n++] = rnd(cold.f.model->desc.n_vocab);
}

static struct request request_of(int n, uint32_t seed)
{
    struct request q = {.answer = ANSWER};
    put_tokens(&q, n, seed);
    return q;
}

static void put_answer(struct request *q, const struct result *r)
{
    memcpy(q->prompt + q->n, r->token, (size_t)r->n * sizeof *r->token);
    q->n += r->n;
}

/* ---- what is taken over ---- */

/* The same prompt again, then the conversation going on behind the answer. */
static void whole_prompt(void)
{
    struct rig     r;
    struct request q = request_of(PROMPT, 1);
    rig_open(&r, &usual);
    what = "a prompt";
    struct result first = answer(&r, &q);
    cached(&first, 0);
    what = "the same prompt";
    struct result again = answer(&r, &q);
    cached(&again, PROMPT - 1);
    what = "the same prompt without the cache";
    q.no_cache = true;
    again = answer(&r, &q);
    cached(&again, 0);
    what = "the next turn";
    q.no_cache = false;
    put_answer(&q, &first);
    put_tokens(&q, 5, 2);
    again = answer(&r, &q);
    cached(&again, PROMPT + ANSWER - 1);
    rig_close(&r);
}

/* Prompts behind a common beginning: the second of a recurrent model leaves the snapshot that the third takes. */
static void common_beginning(void)
{
    struct rig r;
    rig_open(&r, &usual);
    for (uint32_t i = 0; i < 4; i++) {
        struct request q = request_of(90, 3);
        what = "a common beginning";
        put_tokens(&q, 30, 10 + i);
        q.prompt[90] = (int32_t)i; /* they part here, not later by chance */
        struct result found = answer(&r, &q);
        cached(&found, i > (uint32_t)r.recurrent ? 90 : 0);
    }
    rig_close(&r);
}

/* Beginnings for which there is no room any more are computed again, and those that there is room for are not. */
static void evicted(void)
{
    const struct setup small = {2, 40, 192, 4, false};
    struct rig         r;
    rig_open(&r, &small);
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 6; i++) {
            struct request q = request_of(120, 20 + i);
            what = "evicted";
            struct result found = answer(&r, &q);
            cached(&found, 0);
            what = "not evicted";
            found = answer(&r, &q);
            cached(&found, 119);
        }
    rig_close(&r);
}

/* What a sequence computed before it was stopped serves the same prompt. */
static void cancelled(void)
{
    struct rig     r;
    struct request q = request_of(PROMPT, 4), longer = q;
    struct result  found;
    rig_open(&r, &usual);
    what = "stopped in its prompt";
    submit(&r, &q, &found);
    run(&r, 2);
    engine_cancel(r.g, found.id);
    run(&r, 1);
    assert_int_equal(found.finish, MLXCEL_CANCELLED);
    what = "after a stop in the prompt";
    q.cancel_at = 5;
    found = answer(&r, &q);
    cached(&found, 2 * usual.chunk);
    assert_int_equal(found.n, 5);
    what = "going on after a stop in the answer";
    put_answer(&longer, &found);
    found = answer(&r, &longer);
    cached(&found, PROMPT + 5 - 1);
    what = "after a stop in the answer";
    q.cancel_at = 0;
    found = answer(&r, &q);
    cached(&found, PROMPT - 1);
    rig_close(&r);
}

/* In one step: rows behind a prefix, behind none, with the adapter, with it at another scale. No set sees another's prefix. */
static void beside_others(void)
{
    const struct setup wide = {6, 100, CONTEXT, 0, false};
    struct rig         r;
    struct request     q[6] = {request_of(PROMPT, 5)};
    struct result      found[6];
    rig_open(&r, &wide);
    what = "before the others";
    answer(&r, &q[0]);
    for (int i = 1; i < 6; i++)
        q[i] = q[0];
    q[1] = request_of(70, 6);
    q[2].set = q[4].set = 1;
    q[3].set = 2;
    q[5].prompt[100]++;
    q[5].prompt[100] %= cold.f.model->desc.n_vocab;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 6; i++)
            submit(&r, &q[i], &found[i]);
        run(&r, 1000);
        for (int i = 0; i < 6; i++) {
            what = "beside others";
            check(&q[i], &found[i]);
            int before_last =
                i == 5 && r.recurrent ? 100 : q[i].n - 1; /* where they part is too near for another snapshot */
            cached(&found[i], round || i == 0 ? before_last : i == 5 && !r.recurrent ? 100 : 0);
        }
    }
    rig_close(&r);
}

/* ---- everything at random ---- */

/* A beginning of one of three texts, and maybe some tokens of its own. */
static struct request any_request(uint32_t seed)
{
    rng_state = seed;
    int            text = rnd(3), shared = 30 * rnd(6) + rnd(2), own = rnd(3) ? rnd(40) : 0, set = rnd(6);
    int            tokens = rnd(ANSWER_MAX - 1), stop = rnd(4) ? 0 : 1 + rnd(ANSWER_MAX), plain = rnd(10);
    struct request q = request_of(shared + 1, 30 + (uint32_t)text);
    put_tokens(&q, own, seed);
    q.answer = 1 + tokens;
    q.set = set < SETS ? set : 0;
    q.cancel_at = stop < q.answer ? stop : 0;
    q.no_cache = !plain;
    return q;
}

static void any(void)
{
    enum { REQUESTS = 40, WAVE = 5 };
    const struct setup tight = {3, 23, 224, 8, false};
    struct rig         r;
    struct request     q[WAVE];
    struct result      found[WAVE];
    int                hits = 0;
    rig_open(&r, &tight);
    what = "at random";
    for (uint32_t i = 0; i < REQUESTS; i += WAVE) {
        for (uint32_t k = 0; k < WAVE; k++) {
            q[k] = any_request(1000 + i + k);
            submit(&r, &q[k], &found[k]);
        }
        rng_state = i + 7;
        run(&r, 1 + rnd(12));
        engine_cancel(r.g, found[rnd(WAVE)].id); /* in its prompt, in its answer, in the queue or done */
        run(&r, 1000);
        for (int k = 0; k < WAVE; k++) {
            check(&q[k], &found[k]);
            hits += found[k].n_cached > 0;
        }
    }
    assert_in_range(hits, REQUESTS / 8, REQUESTS);
    rig_close(&r);
}

/* ---- the families ---- */

static void test_family(void **state)
{
    struct fixture f;
    family = *state;
    model_dir = tmp_make();
    adapter_dir = tmp_make();
    family_write(model_dir, family);
    fixture_open(&f, model_dir, 1, -1, PRECISION_DEFAULT, 64);
    family_adapter_write(adapter_dir, f.model);
    fixture_close(&f);
    rig_open(&cold, &alone);
    whole_prompt();
    common_beginning();
    evicted();
    cancelled();
    beside_others();
    any();
    rig_close(&cold);
    tmp_remove(model_dir);
    tmp_remove(adapter_dir);
}

#define FAMILY(name)                                                                                                   \
    {                                                                                                                  \
        name, test_family, NULL, NULL, (void *)name                                                                    \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAMILY("mamba2"),
        FAMILY("lfm2"),
        FAMILY("qwen3_next"),
        FAMILY("kimi_linear"),
        FAMILY("longcat_flash_ngram"),
        FAMILY("deepseek_v3"),
        FAMILY("deepseek_v32"),
        FAMILY("gpt_oss"),
        FAMILY("phi3-long"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
