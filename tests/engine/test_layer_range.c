/* Two stages of one model, layers [0, k) and [k, n), give the bits of the whole: the load path takes a range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/stage.h"

static void open_stage(struct stage *s, const char *dir, int lo, int hi)
{
    struct error e = {0};
    if (stage_open(s, dir, NULL, 2, lo, hi, &e))
        fail_msg("%s", e.msg);
}

static void split(const char *dir)
{
    struct stage whole;
    open_stage(&whole, dir, 0, 0);
    stage_run(&whole, NULL, 0, STAGE_ROWS);
    int n_layer = whole.f.model->desc.n_layer, n_vocab = whole.f.model->desc.n_vocab;
    for (int k = 1; k < n_layer; k++) {
        struct stage a, b;
        open_stage(&a, dir, 0, k);
        open_stage(&b, dir, k, n_layer);
        stage_run(&a, NULL, 0, STAGE_ROWS);
        stage_run(&b, &a, 0, STAGE_ROWS);
        for (int i = 0; i < STAGE_ROWS; i++)
            assert_memory_equal(tensor_row(b.act.logits, i), tensor_row(whole.act.logits, i),
                                (size_t)n_vocab * sizeof(float));
        assert_true(a.f.model->page_bytes + b.f.model->page_bytes == whole.f.model->page_bytes);
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
