/* Quantizing and dequantizing rows that are stacks: every matrix comes out as it would alone, under the names and shapes
 * that the table binds again. */
#include "../support/scratch.h"
#include "../support/table.h"
#include "base/half.h"
#include "convert/rewrite.h"

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

/* --- a change in place ------------------------------------------------------------------------------------------- */

/* Turns the sign of a stack and of its bias. */
static bool turns(const void *ctx, const struct param *p)
{
    (void)ctx;
    return strstr(p->name, "switch_mlp.down_proj") != NULL;
}

static int turn_open(void *ctx, const struct param *p, struct error *e)
{
    (void)ctx, (void)p, (void)e;
    return 0;
}

static void turn_close(void *ctx)
{
    (void)ctx;
}

static int turn_rows(const void *ctx, const struct param *p, int64_t first, int64_t n, enum dtype dtype, float *values,
                     struct error *e)
{
    int64_t width = p->role == ROLE_BIAS ? param_elements(p) : p->shape[p->n_dim - 1];
    (void)ctx, (void)dtype, (void)e;
    assert_true(first >= 0 && n <= CHANGE_ROWS && (first + n) * width <= param_elements(p));
    for (int64_t i = 0; i < n * width; i++)
        values[i] = -values[i];
    return 0;
}

static const struct param_change turn = {NULL, 2, NULL, turns, turn_open, turn_close, turn_rows};

static void note_loss(void *ctx, const char *name, double loss)
{
    assert_non_null(strstr(name, "switch_mlp.down_proj"));
    assert_true(loss >= 0 && loss < 0.1);
    ++*(int *)ctx;
}

/* Row r of matrix k of p, turned: as it is stored dense, or encoded again. */
static void turned_row(const struct param *p, int k, int64_t r, float *want)
{
    uint8_t codes[64], scales[16], biases[16];
    int64_t n = p->weight->n_in;
    weight_row(&p->weight[k], r, want);
    if (!turns(NULL, p))
        return;
    for (int64_t i = 0; i < n; i++)
        want[i] = -f16_to_f32(f32_to_f16(want[i]));
    if (p->quant.mode == QUANT_NONE)
        return;
    quant_encode_row(&p->quant, want, n, codes, scales, biases);
    quant_decode_row(&p->quant, codes, scales, biases, n, want);
}

static void change_in_place(const struct table_form *form)
{
    struct table           from, to;
    struct error           e = {0};
    struct dir_out         out = {0};
    int                    told = 0;
    struct convert_options o = {.quantize = form->quant.mode != QUANT_NONE, .loss = note_loss, .ctx = &told};
    struct rewrite         r = {.o = &o, .change = &turn, .dir = dir, .model = &from.m};
    char                   path[4096];
    snprintf(path, sizeof path, "%s/changed", dir);
    open_table(&from, form);
    arena_init(&r.arena, (size_t)16 << 20);
    if (rewrite_plan(&r, &e) || dir_out_begin(&out, path, dir, true, &e) || rewrite_patch(&r, &out, &e) ||
        dir_out_write(&out, "config.json", "{}", 2, &e) || dir_out_finish(&out, &e))
        fail_msg("%s", e.msg);
    assert_true(r.in_place);
    assert_int_equal(r.counts.changed, 2 * T_LAYERS);
    assert_int_equal(told, form->quant.mode == QUANT_NONE ? 0 : T_LAYERS);
    arena_deinit(&r.arena);
    table_init(&to);
    if (table_bind(&to, path, false, 0, T_LAYERS, &e))
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < to.m.params.n; i++) {
        const struct param *p = &from.m.params.v[i], *q = &to.m.params.v[i];
        assert_int_equal(p->bytes, q->bytes);
        for (int k = 0; param_is_matrix(p) && k < param_stack(p); k++)
            for (int64_t row = 0; row < p->weight->n_out; row++) {
                float got[T_EMBD], want[T_EMBD];
                turned_row(p, k, row, want);
                weight_row(&q->weight[k], row, got);
                assert_memory_equal(got, want, (size_t)p->weight->n_in * sizeof *got);
            }
        if (p->role != ROLE_BIAS)
            continue;
        const char *a = checkpoint_find(from.m.checkpoint, p->name)->data;
        const char *b = checkpoint_find(to.m.checkpoint, p->name)->data;
        for (int64_t j = 0; j < param_elements(p); j++)
            assert_true(dtype_load(p->dtype, b, j) == -dtype_load(p->dtype, a, j));
    }
    table_deinit(&from);
    table_deinit(&to);
}

static void test_in_place(void **state)
{
    (void)state;
    change_in_place(&(struct table_form){{0}, DTYPE_F16});
    change_in_place(&(struct table_form){{QUANT_AFFINE, 4, 32, DTYPE_F16}, DTYPE_F16});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quantize), cmocka_unit_test(test_dequantize),
                                       cmocka_unit_test(test_indivisible), cmocka_unit_test(test_in_place)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
