/* Two stages of one model, layers [0, k) and [k, n), give the bits of the whole: the load path takes a range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "cache/pages.h"
#include "support/fixture.h"

#define ROWS 24

struct stage {
    struct backend    *backend;
    struct model      *model;
    struct page_pool  *pool;
    struct page_table  table;
    struct activations act;
};

static void stage_open(struct stage *s, const char *dir, int lo, int hi)
{
    struct cpu_options   c = {.threads = 2, .level = -1};
    struct model_options o = {.lo = lo, .hi = hi, .page_tokens = KV_TILE};
    struct run_limits    lim = {
           .n_row = ROWS, .n_key = ROWS, .n_in = 4096, .n_out = 4096, .n_head = 64, .n_kv_head = 64, .head_dim = 128};
    struct error e = {0};
    memset(s, 0, sizeof *s);
    assert_int_equal(cpu_backend_new(&s->backend, &c, &e), 0);
    if (model_load(&s->model, dir, arch_describe, s->backend, &o, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(page_pool_new(&s->pool, s->model->page_bytes, KV_TILE, 4, &e), 0);
    assert_int_equal(page_table_grow(&s->table, s->pool, ROWS, &e), 0);
    assert_int_equal(activations_init(&s->act, s->model, ROWS, ROWS, &e), 0);
    assert_int_equal(s->backend->reserve(s->backend, &lim, &e), 0);
}

static void stage_close(struct stage *s)
{
    activations_deinit(&s->act);
    page_table_deinit(&s->table, s->pool);
    page_pool_free(s->pool);
    model_free(s->model);
    s->backend->free(s->backend);
}

/* One step of ROWS rows; the last stage also makes the logits. */
static void stage_run(struct stage *s, bool last)
{
    int32_t      token[ROWS], position[ROWS], seq[ROWS] = {0};
    void *const *pages = s->table.v;
    struct step  st = {.n_row = ROWS,
                       .token = token,
                       .position = position,
                       .seq = seq,
                       .pages = &pages,
                       .n_seq = 1,
                       .n_logit = ROWS,
                       .logit_row = position};
    struct run   run = {.backend = s->backend, .step = &st};
    for (int i = 0; i < ROWS; i++) {
        token[i] = (i * 37 + 11) % s->model->desc.n_vocab;
        position[i] = i;
    }
    model_forward(s->model, &run, &s->act);
    if (last)
        model_logits(s->model, &run, &s->act, 0, ROWS);
}

static void split(const char *dir)
{
    struct stage whole;
    stage_open(&whole, dir, 0, 0);
    stage_run(&whole, true);
    int n_layer = whole.model->desc.n_layer, n_vocab = whole.model->desc.n_vocab;
    for (int k = 1; k < n_layer; k++) {
        struct stage a, b;
        stage_open(&a, dir, 0, k);
        stage_open(&b, dir, k, n_layer);
        stage_run(&a, false);
        for (int i = 0; i < ROWS; i++)
            memcpy(tensor_row(b.act.x, i), tensor_row(a.act.x, i), (size_t)a.act.x.n_col * sizeof(float));
        stage_run(&b, true);
        for (int i = 0; i < ROWS; i++)
            assert_memory_equal(tensor_row(b.act.logits, i), tensor_row(whole.act.logits, i),
                                (size_t)n_vocab * sizeof(float));
        assert_true(a.model->page_bytes + b.model->page_bytes == whole.model->page_bytes);
        stage_close(&a);
        stage_close(&b);
    }
    stage_close(&whole);
}

static void test_two_stages(void **state)
{
    (void)state;
    split("tests/data/arch/llama-q4-g32-f16");
    split("tests/data/arch/qwen3-tied-f32");
    split("tests/data/arch/qwen2-untied-f16");
}

static void test_bad_ranges(void **state)
{
    static const int bad[][2] = {{-1, 1}, {2, 2}, {3, 1}, {0, 99}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct model_options o = {.lo = bad[i][0], .hi = bad[i][1], .page_tokens = KV_TILE};
        struct model        *m;
        struct error         e = {0};
        assert_int_equal(model_load(&m, "tests/data/arch/qwen3-tied-f32", arch_describe, NULL, &o, &e), ERR_INVALID);
        assert_non_null(strstr(e.msg, "layer range"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_stages), cmocka_unit_test(test_bad_ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
