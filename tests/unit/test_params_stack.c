/* Stacks of matrices in the parameter table: binding them, dense and in every mode, is binding each matrix; what does not
 * fit is named; packing, releasing, describing and comparing with config.json take them like any row. */
#include <math.h>

#include "../support/scratch.h"
#include "../support/table.h"
#include "cpu/cpu.h"
#include "model/quant_config.h"

static const struct table_form forms[] = {
    {{0}, DTYPE_F32},
    {{0}, DTYPE_BF16},
    {{QUANT_AFFINE, 2, 32, DTYPE_F16}, DTYPE_F16},
    {{QUANT_AFFINE, 3, 32, DTYPE_BF16}, DTYPE_BF16},
    {{QUANT_AFFINE, 4, 32, DTYPE_F32}, DTYPE_F32},
    {{QUANT_AFFINE, 5, 32, DTYPE_F16}, DTYPE_F16},
    {{QUANT_AFFINE, 6, 32, DTYPE_BF16}, DTYPE_F32},
    {{QUANT_AFFINE, 8, 32, DTYPE_F16}, DTYPE_F16},
    {{QUANT_MXFP4, 4, 32, DTYPE_U8}, DTYPE_BF16},
    {{QUANT_MXFP8, 8, 32, DTYPE_U8}, DTYPE_BF16},
    {{QUANT_NVFP4, 4, 16, DTYPE_U8}, DTYPE_BF16},
};

static void make(struct table *t, const struct table_form *form)
{
    struct table_files f;
    table_init(t);
    table_make(&f, t, form);
    table_write(&f, dir);
}

/* Row r of all the rows of a parameter as its tensors hold it: decoded from the planes, not through the weights. */
static void stored_row(const struct table *t, const struct param *p, int64_t r, float *out)
{
    char                      name[3][256];
    const struct tensor_view *v[3];
    int64_t                   n = p->shape[p->n_dim - 1];
    const char *const         suffix[] = {".weight", ".scales", ".biases"};
    const void               *at[3];
    for (int i = 0; i < 3; i++) {
        snprintf(name[i], sizeof name[i], "%s%s", p->name, p->role == ROLE_BIAS ? "" : suffix[i]);
        v[i] = checkpoint_find(t->m.checkpoint, name[i]);
        at[i] = v[i] ? (const char *)v[i]->data + v[i]->size / (size_t)(param_elements(p) / n) * (size_t)r : NULL;
    }
    if (v[0]->dtype == DTYPE_U32)
        quant_decode_row(&p->quant, at[0], at[1], at[2], n, out);
    else
        quant_widen(v[0]->dtype, at[0], n, out);
}

static void test_every_mode(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(forms); k++) {
        struct table t;
        struct error e = {0};
        float        got[2 * T_EMBD], want[2 * T_EMBD];
        make(&t, &forms[k]);
        if (table_bind(&t, dir, false, 0, T_LAYERS, &e))
            fail_msg("%s", e.msg);
        for (size_t i = 0; i < t.m.params.n; i++) {
            const struct param *p = &t.m.params.v[i];
            int64_t             rows = param_elements(p) / p->shape[p->n_dim - 1], each = rows / param_stack(p);
            assert_true(p->bytes > 0);
            assert_int_equal(p->quant.mode, param_is_matrix(p) ? forms[k].quant.mode : QUANT_NONE);
            for (int64_t r = 0; p->role != ROLE_BIAS && r < rows; r++) {
                const struct weight *w = &p->weight[r / each];
                stored_row(&t, p, r, want);
                weight_row(w, r % each, got);
                assert_memory_equal(got, want, (size_t)w->n_in * sizeof *got);
                assert_int_equal(w->quant.bits, p->quant.bits);
            }
        }
        table_deinit(&t);
    }
}

/* Every matrix has an index of its own; those of a stack follow one another. */
static void test_indices(void **state)
{
    (void)state;
    struct table t;
    int          next = 0;
    table_init(&t);
    for (size_t i = 0; i < t.m.params.n; i++) {
        const struct param *p = &t.m.params.v[i];
        assert_ptr_equal(params_find(&t.m.params, p->name), p);
        for (int k = 0; p->role != ROLE_BIAS && k < param_stack(p); k++) {
            assert_int_equal(p->weight[k].index, next++);
            assert_string_equal(p->weight[k].name, p->name);
        }
    }
    assert_int_equal(next, t.m.params.n_weight);
    assert_null(params_find(&t.m.params, "model.layers.0"));
    assert_null(params_find(&t.m.params, ""));
    table_deinit(&t);
}

/* Each matrix of a stack, packed on its own, multiplies as its rows say, its bias added. */
static void test_products(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(forms); k++) {
        struct table       t;
        struct error       e = {0};
        struct cpu_options o = {.threads = 1, .level = -1, .precision = PRECISION_EXACT};
        float              x[T_EMBD], y[T_EMBD], row[T_EMBD];
        struct step        step = {.n_row = 1};
        make(&t, &forms[k]);
        assert_int_equal(table_bind(&t, dir, false, 0, T_LAYERS, &e), 0);
        assert_int_equal(cpu_backend_new(&t.m.backend, &o, &e), 0);
        struct run_limits lim = {
            .n_row = 1, .n_in = T_EMBD, .n_out = 2 * T_EMBD, .n_head = 1, .n_kv_head = 1, .head_dim = 64};
        assert_int_equal(t.m.backend->reserve(t.m.backend, &lim, &e), 0);
        if (params_prepare(&t.m.params, t.m.backend, NULL, &e))
            fail_msg("%s", e.msg);
        struct run          r = {.backend = t.m.backend, .step = &step};
        const struct param *bias = params_find(&t.m.params, "model.layers.1.mlp.switch_mlp.down_proj.bias");
        for (int i = 0; i < T_FF; i++)
            x[i] = table_value(1000, i);
        for (int n = 0; n < T_EXPERTS; n++) {
            const struct weight *w = &t.layer[1].down[n];
            float                b[T_EMBD];
            op_linear(&r, w, (struct tensor){x, 1, T_FF, T_FF}, (struct tensor){y, 1, T_EMBD, T_EMBD});
            stored_row(&t, bias, n, b);
            for (int o_row = 0; o_row < T_EMBD; o_row++) {
                double want = (double)b[o_row];
                weight_row(w, o_row, row);
                for (int i = 0; i < T_FF; i++)
                    want += (double)row[i] * (double)x[i];
                assert_true(fabs((double)y[o_row] - want) < 1e-5);
            }
        }
        table_deinit(&t);
        for (int n = 0; n < T_EXPERTS; n++)
            assert_null(t.layer[1].down[n].packed);
        t.m.backend->free(t.m.backend);
    }
}

/* --- what does not fit --------------------------------------------------------------------------------------------- */

#define GATE "model.layers.0.mlp.switch_mlp.gate_proj"
#define BIAS "model.layers.0.mlp.switch_mlp.down_proj.bias"

static const struct {
    const char *tensor;
    int         form, n_dim;
    int64_t     shape[4];
    const char *words[3];
} misfits[] = {
    {GATE ".weight",
     0,
     3,
     {2, 32, 64},
     {GATE ".weight is F32 [2, 32, 64], needed", "[3, 32, 64]", "experts of config.json"}},
    {GATE ".weight", 0, 3, {3, 64, 32}, {"[3, 64, 32]", "[3, 32, 64]"}},
    {GATE ".weight", 0, 2, {96, 64}, {"F32 [96, 64]", "[3, 32, 64]"}},
    {GATE ".weight", 0, 4, {1, 3, 32, 64}, {"F32 [1, 3, 32, 64]", "[3, 32, 64]"}},
    {GATE ".weight", 4, 3, {2, 32, 8}, {"'" GATE ".scales' is F32 [3, 32, 2]", "the same leading dimensions"}},
    {GATE ".weight", 4, 2, {96, 8}, {"'" GATE ".scales' is F32 [3, 32, 2]", "the same leading dimensions"}},
    {GATE ".weight", 4, 3, {3, 32, 7}, {"'" GATE ".weight' [3, 32, 7]", "rows of 64 inputs"}},
    {GATE ".scales", 4, 3, {3, 16, 2}, {"'" GATE ".scales' is F32 [3, 16, 2]", "the same leading dimensions"}},
    {GATE ".biases", 4, 3, {1, 32, 2}, {"'" GATE ".biases' is F32 [1, 32, 2]", "shape of the scales"}},
    {BIAS, 0, 2, {2, 64}, {BIAS " is F32 [2, 64]", "[3, 64]", "bias of config.json"}},
    {BIAS, 0, 1, {192}, {"F32 [192]", "[3, 64]"}},
    {GATE ".weight", 0, 4, {3, 32, 64, 1}, {"F32 [3, 32, 64, 1]", "[3, 32, 64]"}},
    {"model.layers.0.self_attn.qkv_proj.weight", 0, 3, {1, 88, 64}, {"F32 [1, 88, 64]", "F32, F16 or BF16 [88, 64]"}},
};

static void test_misfits(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(misfits); i++) {
        struct table       t;
        struct table_files f;
        struct error       e = {0};
        table_init(&t);
        table_make(&f, &t, &forms[misfits[i].form]);
        struct tensor_view *v = table_tensor(&f, misfits[i].tensor);
        v->n_dim = misfits[i].n_dim;
        memcpy(v->shape, misfits[i].shape, sizeof misfits[i].shape);
        dtype_bytes(v->dtype, v->shape, v->n_dim, &v->size);
        table_write(&f, dir);
        if (table_bind(&t, dir, true, 0, T_LAYERS, &e) != ERR_MISFIT)
            fail_msg("%zu: %s", i, e.msg);
        for (int k = 0; k < 3 && misfits[i].words[k]; k++)
            if (!strstr(e.msg, misfits[i].words[k]))
                fail_msg("%zu: %s", i, e.msg);
        assert_null(strstr(e.msg, "; ")); /* one fault */
        assert_null(t.layer[0].gate[0].data);
        table_deinit(&t);
    }
}

/* All planes of a stack are of two experts or of three rows: then codes and scales agree, and the table decides. */
static void test_whole_stack_misfits(void **state)
{
    static const char *const suffix[] = {".weight", ".scales", ".biases"};
    (void)state;
    for (int dim = 0; dim < 2; dim++) {
        struct table       t;
        struct table_files f;
        struct error       e = {0};
        table_init(&t);
        table_make(&f, &t, &forms[4]);
        for (int i = 0; i < 3; i++) {
            char name[256];
            snprintf(name, sizeof name, "%s%s", GATE, suffix[i]);
            struct tensor_view *v = table_tensor(&f, name);
            v->shape[dim] -= 1;
            dtype_bytes(v->dtype, v->shape, v->n_dim, &v->size);
        }
        table_write(&f, dir);
        assert_int_equal(table_bind(&t, dir, false, 0, T_LAYERS, &e), ERR_MISFIT);
        if (!strstr(e.msg, "needed 3 matrices of 32 rows (experts of config.json)"))
            fail_msg("%s", e.msg);
        table_deinit(&t);
    }
}

/* Layers outside the range are neither needed nor bound. */
static void test_range(void **state)
{
    (void)state;
    struct table t;
    struct error e = {0};
    make(&t, &forms[4]);
    assert_int_equal(table_bind(&t, dir, false, 1, 2, &e), 0);
    assert_int_equal(params_find(&t.m.params, GATE)->bytes, 0);
    assert_null(t.layer[0].gate[0].data);
    assert_non_null(t.layer[1].gate[2].data);
    assert_non_null(t.embed.data); /* the head */
    table_deinit(&t);
}

static void keep_warning(void *ctx, enum log_level level, const char *msg)
{
    (void)level;
    snprintf(ctx, 512, "%s", msg);
}

static void test_compare(void **state)
{
    (void)state;
    static const char *const config[] = {"{\"quantization\": {\"group_size\": 32, \"bits\": 4}}",
                                         "{\"quantization\": {\"group_size\": 32, \"bits\": 4, \"" GATE
                                         "\": {\"group_size\": 32, \"bits\": 8}}}"};
    static const char *const want[] = {"",
                                       GATE " is declared affine 8 bits group 32 but stored affine 4 bits group 32"};
    for (int i = 0; i < 2; i++) {
        struct table   t;
        struct error   e = {0};
        struct config *c = NULL;
        char           said[512] = "";
        struct log     log = {.write = keep_warning, .ctx = said, .level = LOG_WARNING};
        make(&t, &forms[4]);
        assert_int_equal(table_bind(&t, dir, true, 0, T_LAYERS, &e), 0);
        assert_int_equal(config_parse(&c, str_of(config[i]), "config.json", &e), 0);
        quant_config_compare(c, &t.m.params, &log);
        if (!strstr(said, want[i]) || (!*want[i] && *said))
            fail_msg("%s", said);
        config_free(c);
        table_deinit(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mode),
        cmocka_unit_test(test_indices),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_misfits),
        cmocka_unit_test(test_whole_stack_misfits),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_compare),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
