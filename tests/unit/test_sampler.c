/* The sampler against a plain one that sorts the whole vocabulary and keeps a flag per token, on random rows with ties
 * and planted extremes; the laws of its header; every refused parameter. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "sample/sampler.h"

enum { N = 1000 };

/* ---- the plain sampler ---- */

static const float *sort_row;

static int by_logit(const void *a, const void *b)
{
    int   x = *(const int *)a, y = *(const int *)b;
    float lx = sort_row[x], ly = sort_row[y];
    return lx > ly ? -1 : lx < ly ? 1 : x - y;
}

static void plain_adjust(const struct mlxcel_params *p, float *x, int n, const int32_t *history, size_t n_history)
{
    size_t from =
        p->penalty_window >= 0 && n_history > (size_t)p->penalty_window ? n_history - (size_t)p->penalty_window : 0;
    float r = p->repetition_penalty > 0 ? p->repetition_penalty : 1;
    for (size_t i = 0; i < p->n_logit_bias; i++)
        x[p->logit_bias[i].token] += p->logit_bias[i].bias;
    for (int t = 0; t < n; t++) {
        int count = 0;
        for (size_t i = from; i < n_history; i++)
            count += history[i] == t;
        if (count)
            x[t] = (x[t] <= 0 ? x[t] * r : x[t] / r) - (float)count * p->frequency_penalty - p->presence_penalty;
    }
}

/* order[]: all ids, most likely first; returns how many of them the filters keep. */
static int plain_filter(const struct mlxcel_params *p, const float *x, int n, int *order)
{
    int    keep = 0;
    double sum = 0, run = 0, max;
    for (int i = 0; i < n; i++)
        if (x[i] > -INFINITY)
            order[keep++] = i;
    sort_row = x;
    qsort(order, (size_t)keep, sizeof *order, by_logit);
    max = (double)x[order[0]];
    if (p->top_k > 0 && p->top_k < keep)
        keep = p->top_k;
    for (int i = 0; i < keep; i++)
        sum += exp((double)x[order[i]] - max);
    if (p->top_p > 0 && p->top_p < 1)
        for (int i = 0; i < keep; i++) {
            run += exp((double)x[order[i]] - max);
            if (run >= (double)p->top_p * sum)
                keep = i + 1;
        }
    while (p->min_p > 0 && keep > 1 && exp((double)x[order[keep - 1]] - max) < (double)p->min_p * (1 - 1e-12))
        keep--;
    return keep;
}

static int by_id(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static int plain_pick(const struct mlxcel_params *p, const float *raw, int n, const int32_t *history, size_t n_history,
                      uint64_t index)
{
    static float x[N];
    static int   order[N];
    double       sum = 0, run = 0, u = rng_uniform(p->seed, (uint32_t)p->choice, index);
    memcpy(x, raw, (size_t)n * sizeof *x);
    plain_adjust(p, x, n, history, n_history);
    int    keep = plain_filter(p, x, n, order);
    double max = (double)x[order[0]];
    if (p->temperature == 0)
        return order[0];
    if (!(p->top_k > 0 && p->top_k < n) && !(p->top_p > 0 && p->top_p < 1))
        qsort(order, (size_t)keep, sizeof *order, by_id); /* unsorted lists are drawn from in order of id */
    for (int i = 0; i < keep; i++)
        sum += exp(((double)x[order[i]] - max) / (double)p->temperature);
    for (int i = 0; i < keep; i++)
        if ((run += exp(((double)x[order[i]] - max) / (double)p->temperature)) > u * sum)
            return order[i];
    return order[keep - 1];
}

/* ---- helpers ---- */

static void random_row(float *x, int n, uint64_t seed)
{
    double step = seed % 3 ? 0.1 : 0.01; /* every third row is nearly flat */
    for (int i = 0; i < n; i++) {
        double u = rng_uniform(seed, 1, (uint64_t)i);
        x[i] = (float)(floor(u * 200 - 100) * step); /* many ties */
        if (u < 0.01)
            x[i] = -INFINITY;
    }
}

static struct sampler *make(const struct mlxcel_params *p, int n)
{
    struct sampler *s = NULL;
    struct error    e = {0};
    assert_int_equal(sampler_new(&s, p, n, &e), 0);
    return s;
}

static int32_t pick(const struct mlxcel_params *p, float *x, int n, const int32_t *history, size_t n_history,
                    uint64_t index)
{
    struct sample   out;
    struct sampler *s = make(p, n);
    assert_int_equal(sampler_pick(s, x, history, n_history, index, &out), 0);
    sampler_free(s);
    return out.token;
}

/* ---- tests ---- */

static void agrees_with_the_plain_sampler(void **state)
{
    static const float temperatures[] = {0, 0.8f, 1.7f}, top_ps[] = {0, 0.3f, 0.95f, 1}, min_ps[] = {0, 0.05f, 1};
    static const int   top_ks[] = {0, 1, 40, N - 1, N, 2 * N}, windows[] = {0, 5, -1};
    float              x[N];
    int32_t            history[30];
    int                cases = 0;
    (void)state;
    for (int i = 0; i < 30; i++)
        history[i] = i * i % 17;
    const struct mlxcel_logit_bias bias[] = {{3, 4.5f}, {4, -INFINITY}, {3, 1}, {N - 1, 9}};
    for (int combination = 0; combination < 3 * 6 * 4 * 3 * 3; combination++) {
        int                  c = combination;
        struct mlxcel_params p = {.n_probs = -1, .seed = 99, .choice = 2};
        p.temperature = temperatures[c % 3], c /= 3;
        p.top_k = top_ks[c % 6], c /= 6;
        p.top_p = top_ps[c % 4], c /= 4;
        p.min_p = min_ps[c % 3], c /= 3;
        p.penalty_window = windows[c];
        p.repetition_penalty = 1.3f;
        p.presence_penalty = 0.25f;
        p.frequency_penalty = 0.5f;
        p.logit_bias = bias;
        p.n_logit_bias = 4;
        for (uint64_t index = 0; index < 8; index++, cases++) {
            int n = index % 2 ? N : N - 37; /* with and without a last short block */
            p.n_logit_bias = n == N ? 4 : 3;
            random_row(x, n, (uint64_t)combination * 8 + index);
            assert_int_equal(pick(&p, x, n, history, 30, index), plain_pick(&p, x, n, history, 30, index));
        }
    }
    assert_int_equal(cases, 648 * 8);
}

static void argmax_takes_the_lowest_id(void **state)
{
    float                x[N] = {0};
    struct mlxcel_params p = {.n_probs = -1};
    (void)state;
    assert_int_equal(pick(&p, x, N, NULL, 0, 0), 0);
    for (int i = 0; i < N; i += 7) {
        memset(x, 0, sizeof x);
        x[i] = x[N - 1] = 1;
        x[(i + 500) % N] = 1;
        int32_t lowest = (i + 500) % N < i ? (i + 500) % N : i;
        assert_int_equal(pick(&p, x, N, NULL, 0, 0), lowest);
    }
    x[0] = -0.0f;
    for (int i = 1; i < N; i++)
        x[i] = 0.0f;
    struct sample out;
    p.n_probs = 2; /* in the list of the most likely, too, -0 equals +0 */
    struct sampler *s = make(&p, N);
    assert_int_equal(sampler_pick(s, x, NULL, 0, 0, &out), 0);
    assert_int_equal(out.top[0].token, 0);
    assert_int_equal(out.top[1].token, 1);
    sampler_free(s);
}

static void logits_come_back_unchanged(void **state)
{
    static const struct mlxcel_logit_bias bias[] = {{1, 2}, {1, 3}, {5, -INFINITY}};
    static const int32_t                  history[] = {1, 1, 5, 9, -1, N, INT32_MAX, INT32_MIN, 9};
    float                                 x[N], before[N];
    struct mlxcel_params                  p = {.temperature = 1, .top_k = 40, .top_p = 0.9f, .n_probs = 3};
    (void)state;
    p.logit_bias = bias;
    p.n_logit_bias = 3;
    p.repetition_penalty = 1.5f;
    p.penalty_window = -1;
    random_row(x, N, 1);
    memcpy(before, x, sizeof x);
    pick(&p, x, N, history, 9, 0);
    assert_memory_equal(x, before, sizeof x);
}

static void penalties_see_the_window(void **state)
{
    static const int32_t history[] = {2, 0, 1};
    float                x[3] = {1.0f, 1.0f, 1.1f};
    struct mlxcel_params p = {.n_probs = -1, .presence_penalty = 0.5f};
    (void)state;
    assert_int_equal(pick(&p, x, 3, history, 3, 0), 2); /* window 0: none */
    p.penalty_window = 2;
    assert_int_equal(pick(&p, x, 3, history, 3, 0), 2);
    p.penalty_window = 3;
    x[0] = 0.9f;
    x[1] = 0.8f;
    x[2] = 1.1f;
    assert_int_equal(pick(&p, x, 3, history, 3, 0), 2); /* all lose the same */
    p.presence_penalty = 0;
    p.frequency_penalty = 1;
    assert_int_equal(pick(&p, x, 3, (const int32_t[]){2, 2, 1}, 3, 0), 0);
    p.frequency_penalty = 0;
    p.repetition_penalty = 2;
    x[0] = -4;
    x[1] = -3;
    x[2] = -1.6f; /* penalised: -3.2, so 1 wins; divided it would win itself */
    assert_int_equal(pick(&p, x, 3, (const int32_t[]){2}, 1, 0), 1);
}

/* A pick depends on its own seed, choice and index only. */
static void draws_do_not_depend_on_earlier_ones(void **state)
{
    float                x[N];
    struct mlxcel_params p = {.temperature = 1, .n_probs = -1, .seed = 5};
    struct sample        out;
    struct sampler      *s = make(&p, N);
    int32_t              first[20];
    (void)state;
    random_row(x, N, 3);
    for (uint64_t i = 0; i < 20; i++) {
        sampler_pick(s, x, NULL, 0, i, &out);
        first[i] = out.token;
    }
    for (uint64_t i = 20; i-- > 0;) {
        sampler_pick(s, x, NULL, 0, i, &out);
        assert_int_equal(out.token, first[i]);
    }
    sampler_free(s);
    p.choice = 1;
    int same = 0;
    for (uint64_t i = 0; i < 20; i++)
        same += pick(&p, x, N, NULL, 0, i) == first[i];
    assert_true(same < 10);
}

/* Chi-square with 3 degrees of freedom: 99.9 % point 16.27. */
static void draws_follow_the_distribution(void **state)
{
    static const double  want[4] = {0.4, 0.3, 0.2, 0.1};
    struct mlxcel_params p = {.temperature = 1, .n_probs = -1, .seed = 8};
    float                x[4];
    int                  count[4] = {0};
    double               chi = 0;
    struct sample        out;
    (void)state;
    for (int i = 0; i < 4; i++)
        x[i] = (float)log(want[i]) + 30;
    struct sampler *s = make(&p, 4);
    for (uint64_t i = 0; i < 20000; i++) {
        sampler_pick(s, x, NULL, 0, i, &out);
        count[out.token]++;
    }
    sampler_free(s);
    for (int i = 0; i < 4; i++)
        chi += (count[i] - 20000 * want[i]) * (count[i] - 20000 * want[i]) / (20000 * want[i]);
    assert_true(chi < 16.27);
}

static void log_probabilities_are_raw(void **state)
{
    static const struct mlxcel_logit_bias bias[] = {{7, 100}, {0, -INFINITY}};
    float                                 x[N];
    double                                sum = 0;
    struct sample                         out;
    struct mlxcel_params                  p = {.n_probs = 5, .logit_bias = bias, .n_logit_bias = 2};
    (void)state;
    random_row(x, N, 6);
    x[0] = x[500] = 12; /* a tie at the top: the lower id first */
    x[7] = 1.5f;
    for (int i = 0; i < N; i++)
        sum += exp((double)x[i]);
    struct sampler *s = make(&p, N);
    assert_int_equal(sampler_pick(s, x, NULL, 0, 0, &out), 0);
    assert_int_equal(out.token, 7);
    assert_int_equal(out.prob.token, 7);
    assert_true(fabs((double)out.prob.logprob - (1.5 - log(sum))) < 1e-5);
    assert_int_equal(out.n_top, 5);
    assert_int_equal(out.top[0].token, 0);
    assert_int_equal(out.top[1].token, 500);
    for (int i = 0; i < 5; i++) {
        assert_true(fabs((double)out.top[i].logprob - ((double)x[out.top[i].token] - log(sum))) < 1e-5);
        assert_true(i == 0 || out.top[i].logprob <= out.top[i - 1].logprob);
    }
    sampler_free(s);
    p.n_probs = 0;
    s = make(&p, N);
    sampler_pick(s, x, NULL, 0, 0, &out);
    assert_int_equal(out.n_top, 0);
    assert_true(fabs((double)out.prob.logprob - (1.5 - log(sum))) < 1e-5);
    sampler_free(s);
}

static void hostile_rows(void **state)
{
    static const float temperatures[] = {0, 1e-30f, 1, 3e38f}, top_ps[] = {0, 0.5f};
    static const int   top_ks[] = {0, 1, 10};
    float              x[200];
    struct sample      out;
    (void)state;
    for (int c = 0; c < 4 * 2 * 3; c++) {
        struct mlxcel_params p = {
            .temperature = temperatures[c % 4], .top_p = top_ps[c / 4 % 2], .top_k = top_ks[c / 8]};
        struct sampler *s = make(&p, 200);
        for (int i = 0; i < 200; i++)
            x[i] = i % 2 ? NAN : -INFINITY;
        assert_int_not_equal(sampler_pick(s, x, NULL, 0, 0, &out), 0);
        x[77] = -3e38f; /* the only one left */
        for (uint64_t i = 0; i < 10; i++) {
            assert_int_equal(sampler_pick(s, x, NULL, 0, i, &out), 0);
            assert_int_equal(out.token, 77);
            assert_true(out.prob.logprob == 0);
        }
        x[13] = INFINITY;
        x[14] = FLT_MAX; /* as good as infinity, but a higher id */
        x[15] = INFINITY;
        assert_int_equal(sampler_pick(s, x, NULL, 0, 1, &out), 0);
        assert_true(out.token == 13 || (p.temperature > 0 && p.top_k != 1 && out.token > 13 && out.token <= 15) ||
                    (p.temperature > 1 && out.token == 77));
        for (int i = 0; i < 200; i++)
            x[i] = INFINITY;
        assert_int_equal(sampler_pick(s, x, NULL, 0, 1, &out), 0);
        assert_in_range(out.token, 0, 199);
        sampler_free(s);
    }
}

static void one_token_vocabulary(void **state)
{
    float                x[1] = {-5};
    struct mlxcel_params p = {.temperature = 1, .top_k = 40, .top_p = 0.5f, .min_p = 0.5f, .n_probs = 20};
    (void)state;
    assert_int_equal(pick(&p, x, 1, NULL, 0, 0), 0);
}

static void refused(struct mlxcel_params p, const char *field)
{
    struct sampler *s = NULL;
    struct error    e = {0};
    assert_int_equal(sampler_new(&s, &p, 100, &e), ERR_INVALID);
    assert_string_equal(e.param, field);
    assert_non_null(strstr(e.msg, field));
    assert_null(s);
}

static void bad_parameters_are_named(void **state)
{
    static const struct mlxcel_logit_bias far = {100, 1}, negative = {-1, 1}, nan = {0, NAN}, inf = {0, INFINITY};
    (void)state;
    refused((struct mlxcel_params){.temperature = -0.1f}, "temperature");
    refused((struct mlxcel_params){.temperature = NAN}, "temperature");
    refused((struct mlxcel_params){.temperature = INFINITY}, "temperature");
    refused((struct mlxcel_params){.top_k = -1}, "top_k");
    refused((struct mlxcel_params){.top_p = 1.01f}, "top_p");
    refused((struct mlxcel_params){.top_p = -0.01f}, "top_p");
    refused((struct mlxcel_params){.min_p = NAN}, "min_p");
    refused((struct mlxcel_params){.min_p = 2}, "min_p");
    refused((struct mlxcel_params){.repetition_penalty = -1}, "repetition_penalty");
    refused((struct mlxcel_params){.presence_penalty = INFINITY}, "presence_penalty");
    refused((struct mlxcel_params){.frequency_penalty = NAN}, "frequency_penalty");
    refused((struct mlxcel_params){.penalty_window = -2}, "penalty_window");
    refused((struct mlxcel_params){.choice = -1}, "choice");
    refused((struct mlxcel_params){.n_probs = 21}, "n_probs");
    refused((struct mlxcel_params){.n_probs = -2}, "n_probs");
    refused((struct mlxcel_params){.logit_bias = &far, .n_logit_bias = 1}, "logit_bias");
    refused((struct mlxcel_params){.logit_bias = &negative, .n_logit_bias = 1}, "logit_bias");
    refused((struct mlxcel_params){.logit_bias = &nan, .n_logit_bias = 1}, "logit_bias");
    refused((struct mlxcel_params){.logit_bias = &inf, .n_logit_bias = 1}, "logit_bias");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_plain_sampler),
        cmocka_unit_test(argmax_takes_the_lowest_id),
        cmocka_unit_test(logits_come_back_unchanged),
        cmocka_unit_test(penalties_see_the_window),
        cmocka_unit_test(draws_do_not_depend_on_earlier_ones),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(log_probabilities_are_raw),
        cmocka_unit_test(hostile_rows),
        cmocka_unit_test(one_token_vocabulary),
        cmocka_unit_test(bad_parameters_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
