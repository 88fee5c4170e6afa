/* The order law (docs/order-law.md): rows in a step, chunk borders, threads, batch mates, page sizes and shared prefixes
 * change only which elements are computed together, never a bit of any.
 *
 * The reference is the plainest run: one thread, one row a step, pages of 64. Every other way must give the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/lanes.h"

#define LANES 7
#define PROMPT 40

static const char *const models[] = {
    "tests/data/arch/llama-q4-g32-f16", "tests/data/arch/qwen3-q8-g32-f32",  "tests/data/arch/llama-q3-g64-f32",
    "tests/data/arch/qwen2-untied-f16", "tests/data/arch/qwen3-untied-bf16", "tests/data/arch/llama-mixed-f32",
};
static const enum precision precisions[] = {PRECISION_DEFAULT, PRECISION_HIGH, PRECISION_EXACT};

/* Logits of a lane by the plainest run. */
static void reference(struct lane *l, const char *model, enum precision p, int n, uint32_t seed)
{
    struct rig r;
    const int  one = 1;
    rig_open(&r, model, 1, -1, p, KV_TILE, n);
    lane_init(l, &r, n, seed);
    while (l->done < n)
        step(&r, l, &one, 1);
    page_table_deinit(&l->pages, r.pool);
    rig_close(&r);
}

static void run_chunks(struct rig *r, const struct lane *want, int chunk, const char *what)
{
    struct lane l;
    lane_init(&l, r, want->n, 0);
    memcpy(l.tokens, want->tokens, (size_t)want->n * 4);
    while (l.done < l.n) {
        int rows = chunk > 0 ? MIN(chunk, l.n - l.done) : 1 + (int)rnd((uint32_t)MIN(l.n - l.done, 33));
        step(r, &l, &rows, 1);
    }
    assert_same(&l, want, r->n_vocab, what);
    lane_deinit(&l, r);
}

static void each_chunk_and_thread(const char *model, enum precision p)
{
    struct lane want;
    char        what[256];
    reference(&want, model, p, PROMPT, 1);
    for (int threads = 1; threads <= 3; threads++) {
        struct rig r;
        rig_open(&r, model, threads, -1, p, KV_TILE, PROMPT);
        for (int chunk = 1; chunk <= PROMPT; chunk++) {
            snprintf(what, sizeof what, "%s: %d threads, chunks of %d", model, threads, chunk);
            run_chunks(&r, &want, chunk, what);
        }
        for (int split = 0; threads == 2 && split < 50; split++) {
            snprintf(what, sizeof what, "%s: %d threads, random split %d", model, threads, split);
            rng_state = (uint32_t)split + 77;
            run_chunks(&r, &want, 0, what);
        }
        rig_close(&r);
    }
    free(want.tokens);
    free(want.logits);
}

static void test_chunks_threads(void **state)
{
    (void)state;
    for (size_t m = 0; m < ARRAY_LEN(models); m++)
        each_chunk_and_thread(models[m], precisions[m % ARRAY_LEN(precisions)]);
}

/* Seven sequences whose prompts and single rows are mixed at random, 1 to 33 rows a step. */
static void mixed(const char *model, enum precision p, int threads, int page_tokens)
{
    struct lane want[LANES], got[LANES];
    struct rig  r;
    char        what[256];
    for (int i = 0; i < LANES; i++)
        reference(&want[i], model, p, 20 + 17 * i, (uint32_t)i + 5);
    rig_open(&r, model, threads, -1, p, page_tokens, 200);
    for (int i = 0; i < LANES; i++)
        lane_init(&got[i], &r, want[i].n, (uint32_t)i + 5);
    rng_state = 99;
    for (bool more = true; more;) {
        int rows[LANES], room = 1 + (int)rnd(33);
        more = false;
        for (int i = 0; i < LANES; i++) {
            int left = got[i].n - got[i].done, want_rows = rnd(2) ? 1 : (int)rnd(34);
            rows[i] = MIN(MIN(left, room), want_rows);
            room -= rows[i];
            more |= left > rows[i];
        }
        step(&r, got, rows, LANES);
    }
    for (int i = 0; i < LANES; i++) {
        snprintf(what, sizeof what, "%s: %d threads, pages of %d, mixed sequence %d", model, threads, page_tokens, i);
        assert_same(&got[i], &want[i], r.n_vocab, what);
        lane_deinit(&got[i], &r);
        free(want[i].tokens);
        free(want[i].logits);
    }
    rig_close(&r);
}

static void test_mixed(void **state)
{
    static const int pages[] = {64, 128, 192};
    (void)state;
    for (size_t m = 0; m < ARRAY_LEN(models); m++)
        for (int threads = 1; threads <= 3; threads++)
            mixed(models[m], precisions[(m + (size_t)threads) % 3], threads, pages[threads - 1]);
}

/* A second sequence that begins like a finished one takes over its pages at any token. */
static void shared_prefix(const char *model, enum precision p, int page_tokens)
{
    enum { N = 150 };
    struct lane want;
    struct rig  r;
    char        what[256];
    reference(&want, model, p, N, 3);
    rig_open(&r, model, 2, -1, p, page_tokens, N);
    for (int shared = 1; shared < N; shared += 7) {
        struct lane a, b;
        int         rows = shared;
        lane_init(&a, &r, N, 3);
        a.tokens[shared] = (a.tokens[shared] + 1) % r.n_vocab; /* the texts part here */
        while (a.done < N) {
            rows = MIN(33, N - a.done);
            step(&r, &a, &rows, 1);
        }
        lane_init(&b, &r, N, 3);
        assert_int_equal(page_table_fork(&b.pages, r.pool, &a.pages, shared, NULL), 0);
        b.done = shared;
        memcpy(b.logits, want.logits, (size_t)shared * (size_t)r.n_vocab * sizeof(float));
        while (b.done < N) {
            rows = MIN(16, N - b.done);
            step(&r, &b, &rows, 1);
        }
        snprintf(what, sizeof what, "%s: pages of %d, %d shared tokens", model, page_tokens, shared);
        assert_same(&b, &want, r.n_vocab, what);
        lane_deinit(&a, &r);
        lane_deinit(&b, &r);
    }
    rig_close(&r);
    free(want.tokens);
    free(want.logits);
}

static void test_shared_prefix(void **state)
{
    (void)state;
    shared_prefix(models[0], PRECISION_DEFAULT, 64);
    shared_prefix(models[1], PRECISION_EXACT, 128);
    shared_prefix(models[4], PRECISION_DEFAULT, 192);
}

/* Weights of bfloat16 in the default precision: where the level multiplies bfloat16 pairs, these are its products. The
 * other levels compute them in float32 and agree. */
static void test_bfloat16(void **state)
{
    enum { N = 50 };
    const char *model = "tests/data/arch/qwen3-untied-bf16";
    struct lane want, other;
    struct rig  r;
    (void)state;
    each_chunk_and_thread(model, PRECISION_DEFAULT);
    reference(&want, model, PRECISION_DEFAULT, N, 11);
    rig_open(&r, model, 2, CPU_SCALAR, PRECISION_DEFAULT, 64, N);
    lane_init(&other, &r, N, 11);
    for (int rows = 10; other.done < N;)
        step(&r, &other, &rows, 1);
    bool same = memcmp(want.logits, other.logits, (size_t)N * (size_t)r.n_vocab * sizeof(float)) == 0;
    assert_int_equal(same, cpu_level_detect() != CPU_AVX512BF16);
    lane_deinit(&other, &r);
    rig_close(&r);
    free(want.tokens);
    free(want.logits);
}

/* Beyond one span of 512 keys, and at every level that this machine has. */
static void long_and_levels(size_t n_model)
{
    enum { N = 600 };
    for (size_t m = 0; m < n_model; m++) {
        struct lane want;
        char        what[256];
        reference(&want, models[m], PRECISION_DEFAULT, N, 11);
        for (int level = 0; level < CPU_LEVELS; level++) {
            if (!cpu_level_runs((enum cpu_level)level))
                continue;
            struct rig r;
            rig_open(&r, models[m], 2, level, PRECISION_DEFAULT, 64, N);
            snprintf(what, sizeof what, "%s: level %s, 600 tokens", models[m], cpu_level_name((enum cpu_level)level));
            rng_state = 5;
            run_chunks(&r, &want, 0, what);
            rig_close(&r);
        }
        free(want.tokens);
        free(want.logits);
    }
}

static void test_long_and_levels(void **state)
{
    (void)state;
    long_and_levels(2);
}

/* All of it with an 8-bit cache: another cache, so other logits, but the same law. */
static void test_int8_cache(void **state)
{
    struct lane f16, int8;
    (void)state;
    reference(&f16, models[0], PRECISION_DEFAULT, PROMPT, 1);
    kv_elem_size = 1;
    reference(&int8, models[0], PRECISION_DEFAULT, PROMPT, 1);
    assert_memory_not_equal(f16.logits + PROMPT, int8.logits + PROMPT, sizeof(float) * PROMPT);
    each_chunk_and_thread(models[0], PRECISION_DEFAULT);
    mixed(models[1], PRECISION_HIGH, 3, 128);
    shared_prefix(models[4], PRECISION_DEFAULT, 64);
    long_and_levels(1);
    kv_elem_size = 0;
    free(f16.tokens);
    free(f16.logits);
    free(int8.tokens);
    free(int8.logits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_threads),  cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_shared_prefix),   cmocka_unit_test(test_bfloat16),
        cmocka_unit_test(test_long_and_levels), cmocka_unit_test(test_int8_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
