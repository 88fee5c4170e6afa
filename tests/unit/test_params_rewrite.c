/* Quantizing and dequantizing rows that are stacks: every matrix comes out as it would alone, under the names and shapes
 * that the table binds again. */
#include "../support/table.h"
#include "convert/rewrite.h"

static char *dir;

/* Rewrites the table's checkpoint, bound in `from`, and binds the output as `to`. */
static void rewrite(struct table *from, struct table *to, struct convert_options *o, struct rewrite_counts *counts)
{
    struct error   e = {0};
    struct dir_out out = {0};
    struct rewrite r = {.o = o, .dir = dir, .model = &from->m};
    char           path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, o->quantize ? "quantized" : "dense");
    arena_init(&r.arena, (size_t)16 << 20);
    if (config_parse(&from->m.config, str_of("{}"), "config.json", &e) || rewrite_plan(&r, &e) ||
        dir_out_begin(&out, path, dir, true, &e) || rewrite_weights(&r, &out, &e) || dir_out_finish(&out, &e))
        fail_msg("%s", e.msg);
    dir_out_abort(&out);
    *counts = r.counts;
    config_free(from->m.config);
    arena_deinit(&r.arena);
    table_init(to);
    if (table_bind(to, path, false, 0, T_LAYERS, &e))
        fail_msg("%s", e.msg);
}

static void open_table(struct table *t, const struct table_form *form)
{
    struct table_files f;
    struct error       e = {0};
    table_init(t);
    table_make(&f, t, form);
    table_write(&f, dir);
    if (table_bind(t, dir, false, 0, T_LAYERS, &e))
        fail_msg("%s", e.msg);
}

static void test_quantize(void **state)
{
    (void)state;
    struct table           from, to;
    struct rewrite_counts  counts;
    struct convert_rule    rule = {.pattern = "switch_mlp.up_proj", .form = {QUANT_MXFP4, 4, 32, DTYPE_NONE}};
    struct convert_options o = {
        .quantize = true, .form = {QUANT_AFFINE, 4, 32, DTYPE_NONE}, .rules = &rule, .n_rules = 1};
    open_table(&from, &(struct table_form){{0}, DTYPE_F32});
    rewrite(&from, &to, &o, &counts);
    assert_int_equal(counts.indivisible, 0);
    for (size_t i = 0; i < to.m.params.n; i++) {
        const struct param *p = &to.m.params.v[i];
        bool                ruled = strstr(p->name, "switch_mlp.up_proj") != NULL;
        assert_int_equal(p->quant.mode, !param_is_matrix(p) ? QUANT_NONE : ruled ? QUANT_MXFP4 : QUANT_AFFINE);
        for (int k = 0; param_is_matrix(p) && k < param_stack(p); k++)
            for (int64_t r = 0; r < p->weight->n_out; r++) {
                float   source[T_EMBD], got[T_EMBD], want[T_EMBD];
                uint8_t codes[64], scales[16], biases[16];
                weight_row(&from.m.params.v[i].weight[k], r, source);
                weight_row(&p->weight[k], r, got);
                quant_encode_row(&p->quant, source, p->weight->n_in, codes, scales, biases);
                quant_decode_row(&p->quant, codes, scales, biases, p->weight->n_in, want);
                assert_memory_equal(got, want, (size_t)p->weight->n_in * sizeof *got);
            }
    }
    table_deinit(&from);
    table_deinit(&to);
}

static void test_dequantize(void **state)
{
    (void)state;
    struct table           from, to;
    struct rewrite_counts  counts;
    struct convert_options o = {.dequantize = true, .dtype = DTYPE_F32};
    open_table(&from, &(struct table_form){{QUANT_NVFP4, 4, 16, DTYPE_U8}, DTYPE_F32});
    rewrite(&from, &to, &o, &counts);
    for (size_t i = 0; i < to.m.params.n; i++) {
        const struct param *p = &to.m.params.v[i];
        assert_int_equal(p->quant.mode, QUANT_NONE);
        assert_int_equal(p->bytes, (size_t)param_elements(p) * 4);
        for (int k = 0; param_is_matrix(p) && k < param_stack(p); k++)
            for (int64_t r = 0; r < p->weight->n_out; r++) {
                float got[T_EMBD], want[T_EMBD];
                weight_row(&from.m.params.v[i].weight[k], r, want);
                weight_row(&p->weight[k], r, got);
                assert_memory_equal(got, want, (size_t)p->weight->n_in * sizeof *got);
            }
    }
    table_deinit(&from);
    table_deinit(&to);
}

/* Groups that do not divide the width of a stack's matrices: by a rule refused by name, else left dense. */
static void test_indivisible(void **state)
{
    (void)state;
    struct table           t;
    struct error           e = {0};
    struct convert_rule    rule = {.pattern = "*down_proj", .form = {QUANT_AFFINE, 4, 64, DTYPE_NONE}};
    struct convert_options o = {.quantize = true, .form = {QUANT_AFFINE, 4, 64, DTYPE_NONE}};
    open_table(&t, &(struct table_form){{0}, DTYPE_F32});
    assert_int_equal(config_parse(&t.m.config, str_of("{}"), "config.json", &e), 0);
    for (int ruled = 0; ruled < 2; ruled++) {
        struct rewrite r = {.o = &o, .dir = dir, .model = &t.m};
        arena_init(&r.arena, (size_t)1 << 20);
        o.rules = &rule;
        o.n_rules = (size_t)ruled;
        int err = rewrite_plan(&r, &e);
        if (ruled) {
            assert_int_equal(err, ERR_INVALID);
            assert_non_null(strstr(e.msg, "mlp.switch_mlp.down_proj has 32 inputs, which groups of 64 do not divide"));
        } else {
            assert_int_equal(err, 0);
            assert_int_equal(r.counts.indivisible, 2 * T_LAYERS); /* down_proj and embed_q */
        }
        arena_deinit(&r.arena);
    }
    config_free(t.m.config);
    table_deinit(&t);
}

static int setup(void **state)
{
    (void)state;
    dir = tmp_make();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tmp_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quantize), cmocka_unit_test(test_dequantize),
                                       cmocka_unit_test(test_indivisible)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
