/* How the original layouts' tensors become parameters: every kind of rule, dense and quantized, by values. */
#include "../support/layout.h"
#include "cpu/cpu.h"
#include "model/planes.h"

/* What one row of values becomes when it is stored in the form. */
static void as_stored(const struct table_form *form, const float *v, int64_t n, float *out)
{
    char planes[3][1024];
    if (form->quant.mode == QUANT_NONE) {
        quant_narrow(form->dtype, v, n, planes[0]);
        quant_widen(form->dtype, planes[0], n, out);
        return;
    }
    quant_encode_row(&form->quant, v, n, planes[0], planes[1], planes[2]);
    quant_decode_row(&form->quant, planes[0], planes[1], planes[2], n, out);
}

/* Row k of the table holds value(i, o, c) as the form stores rows of it. */
static void check_rows(struct fixture *x, size_t k, const struct table_form *form,
                       float (*value)(size_t k, int64_t i, int64_t o, int64_t c))
{
    const struct param *p = &x->m.params.v[k];
    struct error        e = {0};
    for (int i = 0; i < param_stack(p); i++) {
        struct weight w;
        void         *memory;
        float         v[4 * K], want[4 * K], got[4 * K];
        if (planes_open(p, i, &w, &memory, &e))
            fail_msg("%s", e.msg);
        for (int64_t o = 0; o < w.n_out; o++) {
            for (int64_t c = 0; c < w.n_in; c++)
                v[c] = value(k, i, o, c);
            as_stored(form, v, w.n_in, want);
            weight_row(&w, o, got);
            for (int64_t c = 0; c < w.n_in; c++)
                if (got[c] != want[c])
                    fail_msg("%s, matrix %d [%lld, %lld] is %g, not %g", p->name, i, (long long)o, (long long)c,
                             (double)got[c], (double)want[c]);
        }
        free(memory);
    }
}

/* Packing every row leaves nothing in memory but what lookups read. */
static void prepare(struct fixture *x)
{
    struct error       e = {0};
    struct cpu_options o = {.threads = 1, .level = -1};
    if (cpu_backend_new(&x->m.backend, &o, &e) || params_prepare(&x->m.params, x->m.backend, NULL, &e))
        fail_msg("%s", e.msg);
    assert_null(x->m.params.held);
}

/* Rows: 0 and 1 a stack each [E, O, K], or matrices [O, K] where E does not come in. */
static float stack_value(size_t k, int64_t i, int64_t o, int64_t c)
{
    return table_value(k, (i * O + o) * K + c);
}

static void each_form(void (*run)(const struct table_form *form), bool quantized)
{
    for (size_t i = 0; i < ARRAY_LEN(dense); i++)
        run(&dense[i]);
    for (size_t i = 0; i < ARRAY_LEN(coded) && quantized; i++)
        run(&coded[i]);
}

/* --- stacks ------------------------------------------------------------------------------------------------------- */

static void experts_one_by_one(const struct table_form *form)
{
    struct fixture x;
    begin(&x);
    add_stacks(&x);
    x.m.desc.layout = experts_apart;
    x.m.desc.layout_prefix = renamed;
    put_experts(&x, form);
    bind_well(&x);
    check_rows(&x, 0, form, stack_value);
    check_rows(&x, 1, form, stack_value);
    assert_false(x.m.params.v[0].source.made); /* views of the files */
    prepare(&x);
    end(&x);
}

static void test_experts_one_by_one(void **state)
{
    (void)state;
    each_form(experts_one_by_one, true);
}

static void fused(const struct table_form *form, const struct layout_rule *rules, const int64_t shape[3], where *at,
                  bool made)
{
    struct fixture x;
    begin(&x);
    add_stacks(&x);
    x.m.desc.layout = rules;
    put(&x, "model.layers.0.mlp.gate_up", form->quant.mode ? ".weight" : "", form, 3, shape, at);
    bind_well(&x);
    check_rows(&x, 0, form, stack_value);
    check_rows(&x, 1, form, stack_value);
    assert_int_equal(x.m.params.v[0].source.made, made);
    prepare(&x);
    end(&x);
}

static void halves(const struct table_form *form)
{
    static const struct layout_rule rules[] = {{.param = "*.gate", .from = "*.gate_up", .part = 0, .parts = 2},
                                               {.param = "*.up", .from = "*.gate_up", .part = 1, .parts = 2},
                                               {0}};
    fused(form, rules, (int64_t[]){E, 2 * O, K}, of_halves, false);
}

static void turns(const struct table_form *form)
{
    static const struct layout_rule rules[] = {
        {.param = "*.gate", .from = "*.gate_up", .part = 0, .parts = 2, .interleaved = true},
        {.param = "*.up", .from = "*.gate_up", .part = 1, .parts = 2, .interleaved = true},
        {0}};
    fused(form, rules, (int64_t[]){E, 2 * O, K}, of_turns, true);
}

static void columns(const struct table_form *form)
{
    fused(form, column_turns, (int64_t[]){E, K, 2 * O}, of_columns, true);
}

static void test_fused(void **state)
{
    (void)state;
    each_form(halves, true);
    each_form(turns, true);
    each_form(columns, false);
}

/* gpt-oss: the same rules, but mxfp4 in blocks, whose rows are outputs. */
static void test_blocks(void **state)
{
    const struct table_form *form = &coded[2];
    struct fixture           x;
    (void)state;
    begin(&x);
    add_stacks(&x);
    x.m.desc.layout = column_turns;
    put(&x, "model.layers.0.mlp.gate_up", "", form, 3, (int64_t[]){E, 2 * O, K}, of_turns);
    x.f.v[0].name = "model.layers.0.mlp.gate_up_blocks";
    x.f.v[0].dtype = DTYPE_U8;
    x.f.v[0].n_dim = 4;
    x.f.v[0].shape[2] = K / 32;
    x.f.v[0].shape[3] = 16;
    x.f.v[1].name = "model.layers.0.mlp.gate_up_scales";
    bind_well(&x);
    assert_int_equal(x.m.params.v[0].quant.mode, QUANT_MXFP4);
    check_rows(&x, 0, form, stack_value);
    check_rows(&x, 1, form, stack_value);
    prepare(&x);
    end(&x);
}

/* --- heads -------------------------------------------------------------------------------------------------------- */

static void head_by_head(const struct table_form *form)
{
    struct fixture x;
    struct error   e = {0};
    begin(&x);
    add_heads(&x);
    put(&x, "model.layers.0.kv_b", ".weight", form, 2, (int64_t[]){E * (NOPE + DV), R}, of_heads);
    bind_well(&x);
    for (int h = 0; h < E; h++) {
        struct weight q, v;
        void         *memory[2];
        float         x_row[R], want[R], got[R], column[NOPE];
        if (planes_open(&x.m.params.v[0], h, &q, &memory[0], &e) ||
            planes_open(&x.m.params.v[1], h, &v, &memory[1], &e))
            fail_msg("%s", e.msg);
        for (int r = 0; r < NOPE + DV; r++) {
            for (int c = 0; c < R; c++)
                x_row[c] = table_value(r < NOPE ? 0 : 1, (r < NOPE ? h * NOPE + r : h * DV + r - NOPE) * R + c);
            as_stored(form, x_row, R, want);
            if (r >= NOPE)
                weight_row(&v, r - NOPE, got);
            for (int c = 0; c < R && r < NOPE; c++) {
                weight_row(&q, c, column);
                got[c] = column[r];
            }
            assert_memory_equal(got, want, sizeof want);
        }
        free(memory[0]);
        free(memory[1]);
    }
    prepare(&x);
    end(&x);
}

static void test_heads(void **state)
{
    (void)state;
    each_form(head_by_head, true);
}

/* --- vectors, biases, arithmetic ---------------------------------------------------------------------------------- */

static struct cell of_conv(const int64_t *i)
{
    return (struct cell){3, i[0] * 4 + i[1] + i[2]};
}
static struct cell of_matrix(const int64_t *i)
{
    return (struct cell){0, i[0] * K + i[1]};
}

static float plus_one(size_t k, int64_t i, int64_t o, int64_t c)
{
    (void)k, (void)i, (void)o;
    return table_value(2, c) + 1;
}
static float plain(size_t k, int64_t i, int64_t o, int64_t c)
{
    (void)k, (void)i, (void)o;
    return table_value(2, c);
}
static float conv_value(size_t k, int64_t i, int64_t o, int64_t c)
{
    (void)k, (void)i, (void)o;
    return table_value(3, c);
}

/* A norm of w where the MLX layout has 1 + w: the convolution's shape tells. */
static void test_marker(void **state)
{
    static const struct layout_rule rules[] = {{.param = "*.norm", .marker = "*.conv.weight", .plus = 1}, {0}};
    (void)state;
    for (int original = 0; original < 2; original++) {
        struct fixture x;
        int64_t        mlx[] = {K, 4, 1}, hf[] = {K, 1, 4};
        begin(&x);
        params_add(&x.m.params, ROLE_NORM, SHARD_NONE, 0, "model.layers.%d.norm", K, 0, "width", x.w[0]);
        params_add_vector(&x.m.params, 0, "model.layers.%d.conv", ".weight", 3, mlx, "width", x.w[1]);
        x.m.desc.layout = rules;
        put(&x, "model.layers.0.norm", ".weight", &dense[0], 1, (int64_t[]){K}, of_vector);
        put(&x, "model.layers.0.conv", ".weight", &dense[1], 3, original ? hf : mlx, of_conv);
        bind_well(&x);
        check_rows(&x, 0, &dense[0], original ? plus_one : plain);
        check_rows(&x, 1, &dense[1], conv_value);
        prepare(&x);
        end(&x);
    }
}

static float scaled(size_t k, int64_t i, int64_t o, int64_t c)
{
    float v;
    (void)k, (void)i;
    v = table_value(0, o * K + c);
    quant_narrow(DTYPE_BF16, &v, 1, &v);
    quant_widen(DTYPE_BF16, &v, 1, &v);
    return v * (o < 5 ? 0.3f : 7.0f);
}

/* Factors of rows: what they make is kept in float32, unrounded. */
static void test_scale(void **state)
{
    static const struct layout_scale factors[] = {{5, 0.3f}, {O - 5, 7.0f}, {0, 0}};
    static const struct layout_rule  rules[] = {{.param = "*.in", .from = "*.in_proj", .scale = factors}, {0}};
    struct fixture                   x;
    (void)state;
    begin(&x);
    params_add(&x.m.params, ROLE_LINEAR, SHARD_NONE, 0, "model.layers.%d.in", O, K, "width", x.w[0]);
    x.m.desc.layout = rules;
    put(&x, "model.layers.0.in_proj", ".weight", &dense[1], 2, (int64_t[]){O, K}, of_matrix);
    bind_well(&x);
    assert_int_equal(x.m.params.v[0].dtype, DTYPE_F32);
    check_rows(&x, 0, &dense[0], scaled);
    end(&x);
}

static struct cell of_bias_turns(const int64_t *i)
{
    return (struct cell){(size_t)(i[1] % 2), i[0] * O + i[1] / 2};
}
static struct cell of_bias_apart(const int64_t *i)
{
    return (struct cell){kind, expert * O + i[0]};
}

static void test_stack_biases(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        struct fixture x;
        float          got[O];
        begin(&x);
        add_stacks(&x);
        params_add(&x.m.params, ROLE_BIAS, SHARD_NONE, 0, "model.layers.%d.mlp.gate.bias", E, O, "experts", x.w[0]);
        params_add(&x.m.params, ROLE_BIAS, SHARD_NONE, 0, "model.layers.%d.mlp.up.bias", E, O, "experts", x.w[1]);
        x.m.desc.layout = apart ? experts_apart : column_turns;
        x.m.desc.layout_prefix = renamed;
        if (apart)
            put_experts(&x, &dense[1]);
        else
            put(&x, "model.layers.0.mlp.gate_up", "", &dense[1], 3, (int64_t[]){E, K, 2 * O}, of_columns);
        if (!apart)
            put(&x, "model.layers.0.mlp.gate_up", "_bias", &dense[0], 2, (int64_t[]){E, 2 * O}, of_bias_turns);
        for (kind = 0; kind < 2 && apart; kind++)
            for (expert = 0; expert < E; expert++)
                put(&x, arena_printf(&x.f.arena, "original.layers.0.experts.%d.%s", (int)expert, kind ? "up" : "gate"),
                    ".bias", &dense[0], 1, (int64_t[]){O}, of_bias_apart);
        bind_well(&x);
        prepare(&x);
        for (size_t k = 0; k < 2; k++)
            for (int i = 0; i < E; i++) {
                planes_vector(&x.m.params.v[2 + k], i, got);
                for (int o = 0; o < O; o++) {
                    assert_true(got[o] == table_value(k, i * O + o));
                    assert_true(x.w[k][i].bias[o] == got[o]);
                }
            }
        end(&x);
    }
}

/* --- FP8 ---------------------------------------------------------------------------------------------------------- */

enum { F8 = 200 }; /* rows of a half: no whole tiles */

/* Halves of a matrix of FP8: one begins within a tile, so it is decoded; its values are the same. */
static void test_fp8_halves(void **state)
{
    static const struct layout_rule rules[] = {{.param = "*.gate", .from = "*.gate_up", .part = 0, .parts = 2},
                                               {.param = "*.up", .from = "*.gate_up", .part = 1, .parts = 2},
                                               {0}};
    struct fixture                  x;
    struct param                    p = {.name = "model.layers.0.gate_up", .n_dim = 2, .shape = {2 * F8, K}};
    struct quant                    q = {QUANT_FP8, 8, QUANT_FP8_TILE, DTYPE_F32};
    char                           *codes, *scales;
    float                           scale[4] = {0.5f, 2, 1, 3};
    (void)state;
    begin(&x);
    params_add(&x.m.params, ROLE_LINEAR, SHARD_ROWS, 0, "model.layers.%d.gate", F8, K, "width", x.w[0]);
    params_add(&x.m.params, ROLE_LINEAR, SHARD_ROWS, 0, "model.layers.%d.up", F8, K, "width", x.w[1]);
    x.m.desc.layout = rules;
    table_put(&x.f, &p, ".weight", DTYPE_F8_E4M3, K, K, &codes);
    for (int i = 0; i < 2 * F8 * K; i++)
        codes[i] = (char)(i * 7 % 120);
    p.shape[0] = 4;
    table_put(&x.f, &p, PLANE_FP8_SCALES, DTYPE_F32, 1, sizeof(float), &scales);
    memcpy(scales, scale, sizeof scale);
    char *copy = malloc(2 * F8 * K);
    assert_non_null(copy);
    memcpy(copy, codes, 2 * F8 * K);
    bind_well(&x);
    assert_int_equal(x.m.params.v[0].quant.mode, QUANT_FP8);
    assert_int_equal(x.m.params.v[1].quant.mode, QUANT_NONE);
    for (int k = 0; k < 2; k++) {
        struct weight w;
        struct error  e = {0};
        void         *memory;
        float         got[K], want[K];
        if (planes_open(&x.m.params.v[k], 0, &w, &memory, &e))
            fail_msg("%s", e.msg);
        for (int o = 0; o < F8; o++) {
            int row = k * F8 + o;
            weight_row(&w, o, got);
            quant_decode_row(&q, copy + row * K, &scale[row / QUANT_FP8_TILE], NULL, K, want);
            assert_memory_equal(got, want, sizeof got);
        }
        free(memory);
    }
    free(copy);
    prepare(&x);
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_experts_one_by_one),
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_marker),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_stack_biases),
        cmocka_unit_test(test_fp8_halves),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
