/* `bench`: tokens per second of prompts and of decoding, two separate tests as in llama-bench.
 *
 * A prompt test computes random prompts and draws nothing. A decode test begins with one token in an empty cache and
 * draws n. Every run of a test takes other tokens. With --depth N both begin behind N tokens, of each sequence its own:
 * they are computed once and then come from the prefix cache, which is otherwise off.
 *
 * With adapters it also tells how long it takes to load the first of them again beside the model, and to set scales and
 * queue a sequence with them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "cli/api.h"
#include "cli/input.h"
#include "cli/output.h"

#define PAGE 64             /* tokens of a cache page: a sequence's room is a multiple */
#define BATCH_MAX_BEHIND 32 /* sequences whose prefixes surely stay in the prefix cache */

struct bench {
    struct mlxcel     *m;
    struct mlxcel_info info;
    int                batch, runs, depth;
    int32_t           *prefix; /* [batch][depth] */
    bool               behind; /* the prefixes are in the cache */
    uint32_t           random;

    struct mlxcel_lora_info *lora; /* the adapters */
    size_t                   n_lora;
    bool                     each; /* sequence s has adapter s alone, of their number */
    struct error            *e;
};

static int random_token(struct bench *b)
{
    b->random = b->random * 1664525u + 1013904223u;
    return (int)((uint64_t)(b->random >> 8) * (uint64_t)b->info.n_vocab >> 24);
}

static void on_event(void *ctx, const struct mlxcel_event *event)
{
    struct bench *b = ctx;
    if (event->finish == MLXCEL_FAILED && event->error && !b->e->code)
        api_fault(event->error, b->e);
    if (event->finish && b->behind && event->n_cached != b->depth && !b->e->code)
        error_set(b->e, ERR_INTERNAL, NULL, "of %d tokens before the test the cache kept %d", b->depth,
                  event->n_cached);
}

static struct mlxcel_lora scale_of(const struct mlxcel_lora_info *a)
{
    return (struct mlxcel_lora){a->id, a->load_scale};
}

/* Queues all sequences: the prefix of each, then n_prompt random tokens. */
static int submit_all(struct bench *b, int32_t *ids, int n_prompt, int n_answer)
{
    struct mlxcel_params p;
    struct mlxcel_error  fault = {0};
    struct mlxcel_lora   own;
    int64_t              id;
    mlxcel_params_greedy(&p);
    p.max_tokens = n_answer;
    p.ignore_eos = true;
    for (int s = 0; s < b->batch; s++) {
        if (b->each) {
            own = scale_of(&b->lora[(size_t)s % b->n_lora]);
            p.lora = &own;
            p.n_lora = 1;
        }
        if (b->depth)
            memcpy(ids, b->prefix + (size_t)s * (size_t)b->depth, (size_t)b->depth * sizeof *ids);
        for (int i = 0; i < n_prompt; i++)
            ids[b->depth + i] = random_token(b);
        if (mlxcel_submit(b->m, ids, (size_t)b->depth + (size_t)n_prompt, &p, on_event, b, &id, &fault))
            return api_fault(&fault, b->e);
    }
    return 0;
}

/* Computes until all sequences are done. */
static int run_all(struct bench *b)
{
    struct mlxcel_error fault = {0};
    int                 active = 1;
    while (active && !b->e->code)
        if (mlxcel_step(b->m, &active, &fault))
            return api_fault(&fault, b->e);
    return b->e->code;
}

/* One run: tokens per second over the whole batch. */
static int run_once(struct bench *b, int32_t *ids, int n_prompt, int n_answer, double *rate)
{
    double began;
    if (submit_all(b, ids, n_prompt, n_answer))
        return b->e->code;
    began = clock_now();
    if (run_all(b))
        return b->e->code;
    *rate = (double)b->batch * (n_answer ? n_answer : n_prompt) / (clock_now() - began);
    return b->e->code;
}

/* Median, least and greatest of the runs; all 0 when the test is left out. */
struct rates {
    double median, min, max;
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct rates spread(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return (struct rates){(v[n / 2] + v[(n - 1) / 2]) / 2, v[0], v[n - 1]};
}

static int run_test(struct bench *b, int n_prompt, int n_answer, struct rates *r)
{
    int32_t *ids = malloc(((size_t)b->depth + (size_t)n_prompt) * sizeof *ids);
    double  *rates = malloc((size_t)b->runs * sizeof *rates), warm_up;
    int      rc;
    if (!ids || !rates) {
        rc = error_nomem(b->e, "the benchmark");
        goto out;
    }
    rc = run_once(b, ids, n_prompt, n_answer, &warm_up);
    for (int i = 0; i < b->runs && !rc; i++)
        rc = run_once(b, ids, n_prompt, n_answer, &rates[i]);
    if (!rc)
        *r = spread(rates, b->runs);
out:
    free(rates);
    free(ids);
    return rc;
}

/* Draws the prefixes and brings them into the prefix cache. */
static int prefix_fill(struct bench *b)
{
    size_t   n = (size_t)b->batch * (size_t)b->depth;
    int32_t *ids = malloc((size_t)b->depth * sizeof *ids);
    int      rc = 0;
    b->prefix = malloc(n * sizeof *b->prefix);
    if (!ids || !b->prefix)
        rc = error_nomem(b->e, "the benchmark");
    for (size_t i = 0; i < n && !rc; i++)
        b->prefix[i] = random_token(b);
    if (!rc)
        rc = submit_all(b, ids, 0, 0);
    if (!rc)
        rc = run_all(b);
    b->behind = true;
    free(ids);
    return rc;
}

/* Loads the first adapter once more, and lets it go. */
static int time_load(struct bench *b, double *seconds)
{
    struct mlxcel_lora_source source = {.path = b->lora[0].path, .name = "once more", .idle = true};
    struct mlxcel_error       fault = {0};
    double                    began = clock_now();
    int                       id;
    if (mlxcel_lora_load(b->m, &source, &id, &fault))
        return api_fault(&fault, b->e);
    *seconds = clock_now() - began;
    return mlxcel_lora_unload(b->m, id, &fault) ? api_fault(&fault, b->e) : 0;
}

/* Gives all adapters another scale, and queues a sequence that runs with it. */
static int time_scale(struct bench *b, float factor, double *seconds)
{
    struct mlxcel_error  fault = {0};
    struct mlxcel_params p;
    int32_t              token = random_token(b);
    int64_t              id;
    struct mlxcel_lora  *v = malloc(b->n_lora * sizeof *v);
    if (!v)
        return error_nomem(b->e, "the benchmark");
    for (size_t i = 0; i < b->n_lora; i++) {
        v[i] = scale_of(&b->lora[i]);
        v[i].scale *= factor;
    }
    mlxcel_params_greedy(&p);
    p.max_tokens = 0;
    double began = clock_now();
    int    code = mlxcel_lora_set_scales(b->m, v, b->n_lora, &fault);
    if (!code)
        code = mlxcel_submit(b->m, &token, 1, &p, on_event, b, &id, &fault);
    *seconds = clock_now() - began;
    free(v);
    return code ? api_fault(&fault, b->e) : run_all(b);
}

/* Seconds of both, over the runs. */
static int time_adapters(struct bench *b, struct rates *load, struct rates *scale)
{
    double *loads = malloc((size_t)b->runs * sizeof *loads), *scales = malloc((size_t)b->runs * sizeof *scales);
    int     rc = loads && scales ? 0 : error_nomem(b->e, "the benchmark");
    for (int i = 0; i < b->runs && !rc; i++) {
        rc = time_load(b, &loads[i]);
        if (!rc)
            rc = time_scale(b, i % 2 ? 1 : 0.5f, &scales[i]);
    }
    if (!rc) {
        *load = spread(loads, b->runs);
        *scale = spread(scales, b->runs);
    }
    free(loads);
    free(scales);
    return rc;
}

struct results {
    struct rates prefill, decode;       /* tokens per second */
    struct rates lora_load, lora_scale; /* seconds */
};

static int report(const struct options *o, const struct bench *b, const struct results *r)
{
    const struct rates       *prefill = &r->prefill, *decode = &r->decode;
    const struct mlxcel_info *i = &b->info;
    if (o->json)
        return output_json(
            json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:i, s:i, s:s, s:s, s:s, "
                      "s:s, s:s}",
                      "prefill_tok_s", prefill->median, "prefill_tok_s_min", prefill->min, "prefill_tok_s_max",
                      prefill->max, "decode_tok_s", decode->median, "decode_tok_s_min", decode->min, "decode_tok_s_max",
                      decode->max, "load_s", i->load_seconds, "peak_rss_bytes", (json_int_t)process_peak_rss(),
                      "weights_bytes", (json_int_t)i->weights_bytes, "active_bytes", (json_int_t)i->active_bytes,
                      "kv_bytes_per_token", (json_int_t)i->kv_bytes_per_token, "lora_bytes", (json_int_t)i->lora_bytes,
                      "lora_load_s", r->lora_load.median, "lora_scale_s", r->lora_scale.median, "depth", b->depth,
                      "threads", i->threads, "cpu_level", i->cpu_level, "precision", i->precision, "cache_type",
                      i->cache_type, "model", i->name, "version", mlxcel_version()),
            b->e);
    out_printf("%s, %d threads, %s, precision %s, cache %s", i->name, i->threads, i->cpu_level, i->precision,
               i->cache_type);
    out_printf(b->depth ? ", behind %d tokens\n" : "\n", b->depth);
    if (o->bench_prompt)
        out_printf("prompt %5lld x %d  %9.1f tok/s  (%.1f to %.1f)\n", (long long)o->bench_prompt, b->batch,
                   prefill->median, prefill->min, prefill->max);
    if (o->bench_decode)
        out_printf("decode %5lld x %d  %9.1f tok/s  (%.1f to %.1f); a token: %.1f MB of weights, %.1f KB of cache\n",
                   (long long)o->bench_decode, b->batch, decode->median, decode->min, decode->max,
                   1e-6 * (double)i->active_bytes, 1e-3 * (double)i->kv_bytes_per_token);
    if (r->lora_load.median > 0)
        out_printf("adapters of %.1f MB; the first loads in %.1f ms, scales are set and a sequence queued in %.2f ms\n",
                   1e-6 * (double)i->lora_bytes, 1e3 * r->lora_load.median, 1e3 * r->lora_scale.median);
    return 0;
}

static int run_tests(const struct options *o, struct bench *b)
{
    struct results r = {0};
    int            rc = b->depth ? prefix_fill(b) : 0;
    if (!rc && o->bench_prompt)
        rc = run_test(b, (int)o->bench_prompt, 0, &r.prefill);
    if (!rc && o->bench_decode)
        rc = run_test(b, 1, (int)o->bench_decode, &r.decode);
    if (!rc && b->n_lora && !b->lora[0].fused)
        rc = time_adapters(b, &r.lora_load, &r.lora_scale);
    return rc ? rc : report(o, b, &r);
}

/* Once the model is open. */
static int run_opened(const struct options *o, struct bench *b)
{
    struct mlxcel_error fault = {0};
    mlxcel_get_info(b->m, &b->info);
    if (mlxcel_lora_list(b->m, &b->lora, &b->n_lora, &fault))
        return api_fault(&fault, b->e);
    b->each = o->lora_each;
    if (b->each && (!b->n_lora || b->lora[0].fused))
        return error_set(b->e, ERR_USAGE, NULL, "--lora-each needs adapters that are not fused (--lora PATH)");
    return run_tests(o, b);
}

int cmd_bench(const struct options *o, struct error *e)
{
    struct mlxcel_options options;
    struct bench          b = {
                 .batch = (int)o->bench_batch, .runs = (int)o->bench_runs, .depth = (int)o->bench_depth, .random = 1, .e = e};
    int64_t longest = o->bench_depth + MAX(o->bench_prompt, o->bench_decode) + 1, total;
    int     rc;
    total = (longest + PAGE - 1) / PAGE * PAGE * b.batch;
    if (total > INT32_MAX)
        return error_set(e, ERR_USAGE, NULL, "--batch %d times %lld tokens is beyond %d", b.batch, (long long)longest,
                         INT32_MAX);
    if (b.depth && b.batch > BATCH_MAX_BEHIND)
        return error_set(e, ERR_USAGE, NULL, "--depth works with a --batch of at most %d, not %d", BATCH_MAX_BEHIND,
                         b.batch);
    rc = api_options(o, &options, e);
    if (rc)
        return rc;
    options.weights_only = true;
    options.no_prefix_cache = !b.depth;
    options.parallel = b.batch;
    options.context = (int)total;
    rc = api_open(&b.m, o->model, &options, e);
    if (!rc)
        rc = run_opened(o, &b);
    mlxcel_close(b.m);
    mlxcel_free(b.lora);
    free(b.prefix);
    return rc;
}
