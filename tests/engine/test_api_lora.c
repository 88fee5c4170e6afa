/* Adapters through mlxcel.h: ids, names, the list, default scales and their atomicity, what a sequence chooses, loading over
 * fused weights, and what a change costs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/num.h"
#include "mlxcel.h"

#define MODEL "tests/data/arch/llama-tied-f32"
#define ADAPTERS "tests/data/lora/mlx/"
#define PLAIN ADAPTERS "plain"
#define OLD ADAPTERS "old-layers"
#define DORA ADAPTERS "dora"
#define VOCAB 131
#define N 5

static const int32_t ids[N] = {1, 5, 9, 2, 77};

struct logits {
    float v[N * VOCAB];
};

static struct mlxcel *open_with(const struct mlxcel_lora_source *lora, size_t n)
{
    struct mlxcel_options o = {.threads = 1, .weights_only = true, .parallel = 2, .lora = lora, .n_lora = n};
    struct mlxcel_error   e = {0};
    struct mlxcel        *m = NULL;
    if (mlxcel_open(&m, MODEL, &o, &e))
        fail_msg("%s", e.message);
    return m;
}

static struct logits logits_of(struct mlxcel *m)
{
    struct logits      l;
    struct mlxcel_info info;
    mlxcel_get_info(m, &info);
    assert_int_equal(info.n_vocab, VOCAB);
    assert_int_equal(mlxcel_logits(m, ids, N, 0, l.v, NULL), 0);
    return l;
}

static void assert_same(struct logits a, struct logits b)
{
    assert_memory_equal(a.v, b.v, sizeof a.v);
}

static void assert_differ(struct logits a, struct logits b)
{
    assert_memory_not_equal(a.v, b.v, sizeof a.v);
}

static int load(struct mlxcel *m, struct mlxcel_lora_source s)
{
    struct mlxcel_error e = {0};
    int                 id = -1;
    if (mlxcel_lora_load(m, &s, &id, &e))
        fail_msg("%s", e.message);
    return id;
}

/* The list as a text: "ID NAME SCALE;" for each. */
static const char *list_of(struct mlxcel *m)
{
    static char              out[1024];
    struct mlxcel_lora_info *list;
    size_t                   n;
    assert_int_equal(mlxcel_lora_list(m, &list, &n, NULL), 0);
    out[0] = '\0';
    for (size_t i = 0; i < n; i++)
        snprintf(out + strlen(out), sizeof out - strlen(out), "%d %s %g;", list[i].id, list[i].name,
                 (double)list[i].scale);
    mlxcel_free(list);
    return out;
}

static void refused(int code, int want, const struct mlxcel_error *e, const char *says)
{
    assert_int_equal(code, want);
    if (!strstr(e->message, says))
        fail_msg("\"%s\" does not say \"%s\"", e->message, says);
}

static void test_names_and_ids(void **state)
{
    struct mlxcel      *m = open_with(NULL, 0);
    struct mlxcel_error e;
    (void)state;
    assert_string_equal(list_of(m), "");
    assert_int_equal(load(m, (struct mlxcel_lora_source){.path = PLAIN "///"}), 0);
    assert_int_equal(load(m, (struct mlxcel_lora_source){.path = PLAIN, .idle = true}), 1);
    assert_int_equal(load(m, (struct mlxcel_lora_source){.path = PLAIN, .name = "x", .scale = 0.5f}), 2);
    assert_string_equal(list_of(m), "0 plain 1;1 plain-1 0;2 x 0.5;");
    assert_int_equal(mlxcel_lora_unload(m, 1, NULL), 0);
    refused(mlxcel_lora_unload(m, 1, &e), MLXCEL_ENOTFOUND, &e, "id 1");
    assert_int_equal(load(m, (struct mlxcel_lora_source){.path = OLD}), 3);
    assert_int_equal(load(m, (struct mlxcel_lora_source){.path = OLD, .name = "x", .replace = true, .scale = 9}), 2);
    assert_string_equal(list_of(m), "0 plain 1;2 x 0.5;3 old-layers 1;");
    mlxcel_close(m);
}

static void test_refused_loads(void **state)
{
    static const struct {
        struct mlxcel_lora_source s;
        int                       code;
        const char               *says;
    } bad[] = {
        {{.path = NULL}, MLXCEL_EINVALID, "path"},
        {{.path = ""}, MLXCEL_EINVALID, "path"},
        {{.path = ADAPTERS "none"}, MLXCEL_ENOTFOUND, "none"},
        {{.path = OLD, .name = "plain"}, MLXCEL_EINVALID, "plain is loaded already"},
        {{.path = OLD, .name = ""}, MLXCEL_EINVALID, "1 to 256 bytes"},
        {{.path = OLD, .scale = NAN}, MLXCEL_EINVALID, "finite"},
        {{.path = OLD, .scale = -INFINITY}, MLXCEL_EINVALID, "finite"},
        {{.path = OLD, .fuse = true}, MLXCEL_EUNSUPPORTED, "opened"},
        {{.path = ADAPTERS "rank-1"}, MLXCEL_EMISFIT, "takes"},
        {{.path = ADAPTERS "rank-1", .name = "plain", .replace = true}, MLXCEL_EMISFIT, "takes"},
    };
    static const struct mlxcel_lora_source plain = {.path = PLAIN};
    struct mlxcel                         *m = open_with(&plain, 1);
    struct logits                          before = logits_of(m);
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct mlxcel_error e = {0};
        refused(mlxcel_lora_load(m, &bad[i].s, NULL, &e), bad[i].code, &e, bad[i].says);
        assert_string_equal(list_of(m), "0 plain 1;");
    }
    assert_same(logits_of(m), before);
    assert_int_equal(load(m, (struct mlxcel_lora_source){.path = OLD}), 1); /* no id was lost */
    mlxcel_close(m);
}

static void test_default_scales(void **state)
{
    static const struct mlxcel_lora_source two[] = {{.path = PLAIN}, {.path = OLD, .idle = true}};
    static const struct mlxcel_lora        good[] = {{1, 0.5f}}, swapped[] = {{1, 0}, {0, 1}};
    static const struct mlxcel_lora        bad[][2] = {
               {{1, 1}, {2, 1}}, {{0, 1}, {0, 1}}, {{0, NAN}, {1, 1}}, {{-1, 1}, {1, 1}}};
    struct mlxcel *m = open_with(two, 2);
    struct logits  plain = logits_of(m), old;
    (void)state;
    assert_int_equal(mlxcel_lora_set_scales(m, good, 1, NULL), 0);
    assert_string_equal(list_of(m), "0 plain 0;1 old-layers 0.5;");
    old = logits_of(m);
    assert_differ(old, plain);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(mlxcel_lora_set_scales(m, bad[i], 2, NULL), MLXCEL_EINVALID);
        assert_string_equal(list_of(m), "0 plain 0;1 old-layers 0.5;");
    }
    assert_same(logits_of(m), old);
    assert_int_equal(mlxcel_lora_set_scales(m, swapped, 2, NULL), 0);
    assert_same(logits_of(m), plain);
    assert_int_equal(mlxcel_lora_set_scales(m, NULL, 0, NULL), 0);
    struct mlxcel *base = open_with(NULL, 0);
    assert_same(logits_of(m), logits_of(base));
    mlxcel_close(base);
    mlxcel_close(m);
}

/* Two adapters with DoRA on the same modules: each may be loaded, not both in one set. */
static void test_what_cannot_be_combined(void **state)
{
    static const struct mlxcel_lora_source dora = {.path = DORA}, again = {.path = DORA, .name = "d"};
    static const struct mlxcel_lora        both[] = {{0, 1}, {1, 0.5f}}, second = {1, 1};
    struct mlxcel                         *m = open_with(&dora, 1);
    struct mlxcel_params                   p = {.max_tokens = 0, .lora = both, .n_lora = 2};
    struct mlxcel_error                    e = {0};
    struct logits                          before = logits_of(m);
    (void)state;
    assert_true(mlxcel_lora_load(m, &again, NULL, &e) != 0); /* its default scale would add it */
    assert_string_equal(list_of(m), "0 dora 1;");
    assert_int_equal(load(m, (struct mlxcel_lora_source){.path = DORA, .name = "d", .idle = true}), 1);
    assert_true(mlxcel_lora_set_scales(m, both, 2, &e) != 0);
    assert_string_equal(list_of(m), "0 dora 1;1 d 0;");
    assert_true(mlxcel_generate(m, ids, N, &p, NULL, NULL, &e) != 0);
    assert_same(logits_of(m), before);
    assert_int_equal(mlxcel_lora_set_scales(m, &second, 1, NULL), 0);
    assert_same(logits_of(m), before); /* the same contents */
    mlxcel_close(m);
}

static void test_over_fused(void **state)
{
    static const struct mlxcel_lora_source fused[] = {{.path = PLAIN, .fuse = true, .scale = 0.5f}};
    static const struct mlxcel_lora_source with_dora[] = {{.path = DORA}, {.path = PLAIN, .fuse = true}};
    static const struct mlxcel_lora        half = {0, 0.5f}, whole = {0, 1};
    struct mlxcel_options                  o = {.weights_only = true, .lora = with_dora, .n_lora = 2};
    struct mlxcel_error                    e = {0};
    struct mlxcel                         *m = open_with(fused, 1), *none = NULL;
    struct mlxcel_params                   p = {.max_tokens = 0};
    (void)state;
    assert_string_equal(list_of(m), "0 plain 0.5;");
    struct logits before = logits_of(m);
    refused(mlxcel_lora_set_scales(m, &whole, 1, &e), MLXCEL_EINVALID, &e, "its scale stays 0.5");
    refused(mlxcel_lora_set_scales(m, NULL, 0, &e), MLXCEL_EINVALID, &e, "its scale stays 0.5");
    assert_int_equal(mlxcel_lora_set_scales(m, &half, 1, NULL), 0);
    refused(mlxcel_lora_unload(m, 0, &e), MLXCEL_EINVALID, &e, "stays");
    p.lora = &half; /* an empty list */
    refused(mlxcel_generate(m, ids, N, &p, NULL, NULL, &e), MLXCEL_EINVALID, &e, "its scale stays 0.5");
    p.n_lora = 1;
    assert_int_equal(mlxcel_generate(m, ids, N, &p, NULL, NULL, NULL), 0);
    refused(mlxcel_lora_load(m, &(struct mlxcel_lora_source){.path = DORA}, NULL, &e), MLXCEL_EUNSUPPORTED, &e,
            "has DoRA");
    refused(mlxcel_open(&none, MODEL, &o, &e), MLXCEL_EUNSUPPORTED, &e, "has DoRA");
    assert_same(logits_of(m), before);
    assert_int_equal(load(m, (struct mlxcel_lora_source){.path = OLD}), 1);
    assert_differ(logits_of(m), before);
    mlxcel_close(m);
}

static void collect(void *ctx, const struct mlxcel_event *ev)
{
    float *logprob = ctx;
    if (ev->token >= 0)
        *logprob += ev->prob.logprob * (float)(1 + ev->n_answer);
}

/* Sequences keep what they chose, whatever is set, replaced or unloaded before they are computed. */
static void test_taken_at_submission(void **state)
{
    static const struct mlxcel_lora_source two[] = {{.path = PLAIN, .name = "x"}, {.path = OLD, .idle = true}};
    static const struct mlxcel_lora        choice = {1, 2};
    struct mlxcel                         *m = open_with(two, 2);
    float                                  got[2][2] = {{0}};
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct mlxcel_params p;
        mlxcel_params_greedy(&p);
        p.max_tokens = 8;
        p.ignore_eos = p.no_cache_prompt = true;
        p.n_probs = 0;
        assert_int_equal(mlxcel_submit(m, ids, N, &p, collect, &got[late][0], NULL, NULL), 0);
        p.lora = &choice;
        p.n_lora = 1;
        assert_int_equal(mlxcel_submit(m, ids, N, &p, collect, &got[late][1], NULL, NULL), 0);
        if (late) {
            load(m, (struct mlxcel_lora_source){.path = OLD, .name = "x", .replace = true});
            assert_int_equal(mlxcel_lora_set_scales(m, NULL, 0, NULL), 0);
            assert_int_equal(mlxcel_lora_unload(m, 1, NULL), 0);
        }
        for (int active = 1; active;)
            assert_int_equal(mlxcel_step(m, &active, NULL), 0);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    assert_true(got[0][0] != got[0][1] && got[0][0] != 0);
    mlxcel_close(m);
}

/* A new scale and a choice cost far below a millisecond; the limit here is for busy machines. */
static void test_changes_are_cheap(void **state)
{
    static const struct mlxcel_lora_source two[] = {{.path = PLAIN}, {.path = DORA, .idle = true}};
    struct mlxcel                         *m = open_with(two, 2);
    double                                 start = clock_now();
    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(mlxcel_lora_set_scales(m, &(struct mlxcel_lora){i % 2, 1 + (float)i}, 1, NULL), 0);
    assert_true(clock_now() - start < 1.0);
    mlxcel_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_ids),     cmocka_unit_test(test_refused_loads),
        cmocka_unit_test(test_default_scales),    cmocka_unit_test(test_what_cannot_be_combined),
        cmocka_unit_test(test_over_fused),        cmocka_unit_test(test_taken_at_submission),
        cmocka_unit_test(test_changes_are_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
