/* Loaded adapters: the arrays have the layouts of tensor/lora.h, DoRA's vectors are the norms that its definition asks
 * for, sets do not depend on the order in which adapters are given, and everything is freed. */
#include <math.h>

#include "../support/adapter.h"
#include "../support/table.h"
#include "adapt/adapt.h"
#include "adapt/bind.h"
#include "arch/arch.h"
#include "cpu/cpu.h"

#define L0 "model.layers.0."
#define L1 "model.layers.1."
#define BASE "base_model.model."
#define MLX(name, in, out) name ".lora_a:F32:" #in "x4 " name ".lora_b:BF16:4x" #out
#define PEFT(name, in, out) BASE name ".lora_A.weight:F16:4x" #in " " BASE name ".lora_B.weight:F32:" #out "x4"

static char           *dir, *adapter_dir;
static struct backend *backend;
static struct table    t;

static const struct table_form dense = {{0}, DTYPE_F32};
static const struct table_form q4 = {{QUANT_AFFINE, 4, 32, DTYPE_F16}, DTYPE_F16};

static void load_table(const struct table_form *form)
{
    struct table_files f;
    struct error       e = {0};
    table_init(&t);
    table_make(&f, &t, form);
    table_write(&f, dir);
    if (table_bind(&t, dir, false, 0, T_LAYERS, &e))
        fail_msg("%s", e.msg);
}

static struct adapter *load(const char *config, const char *spec)
{
    struct adapter *a;
    struct error    e = {0};
    adapter_write(adapter_dir, config, spec);
    if (adapter_load(&a, adapter_dir, &t.m, backend, NULL, &e))
        fail_msg("%s", e.msg);
    return a;
}

static const struct lora_delta *delta_of(const struct adapter *a, const struct weight *w)
{
    const struct lora *l = adapter_lora(a);
    assert_int_equal(l->n_weight, t.m.params.n_weight);
    return l->delta[w->index];
}

/* --- layouts ------------------------------------------------------------------------------------------------------ */

static float a_at(const struct lora_pair *p, int64_t j, int64_t i)
{
    int64_t width = (p->n_in + LORA_LANES - 1) / LORA_LANES * LORA_LANES;
    return dtype_load(p->a_type, p->a, j * width + i);
}

/* Output o of the weight, whose lane is o % LORA_LANES. */
static float b_at(const struct lora_pair *p, int64_t o, int64_t j)
{
    int64_t tile = o / LORA_LANES - p->row / LORA_LANES;
    return dtype_load(p->b_type, p->b, (tile * p->rank + j) * LORA_LANES + o % LORA_LANES);
}

/* The pair is the bound one, and zero where nothing is. */
static void check_pair(const struct lora_pair *p, const struct adapter_pair *q)
{
    int64_t end = (q->weight->n_in + LORA_LANES - 1) / LORA_LANES * LORA_LANES;
    assert_int_equal(p->n_in, q->weight->n_in);
    assert_int_equal(p->n_out, q->b.n_row);
    assert_int_equal(p->rank, q->a.n_row);
    assert_int_equal(p->row, q->row);
    assert_int_equal(p->uses, q->uses);
    assert_int_equal(p->a_type, q->a.dtype);
    assert_int_equal(p->b_type, q->b.dtype);
    assert_true(p->scale == (float)q->scale);
    assert_int_equal((uintptr_t)p->a % 64, 0);
    assert_int_equal((uintptr_t)p->b % 64, 0);
    for (int64_t j = 0; j < p->rank; j++)
        for (int64_t i = 0; i < end; i++) {
            bool inside = i >= q->col && i < q->col + q->a.n_col;
            assert_true(a_at(p, j, i) == (inside ? adapter_matrix_at(&q->a, j, i - q->col) : 0));
        }
    int64_t first = p->row / LORA_LANES * LORA_LANES,
            last = (p->row + p->n_out + LORA_LANES - 1) / LORA_LANES * LORA_LANES;
    for (int64_t j = 0; j < p->rank; j++)
        for (int64_t o = first; o < last; o++) {
            bool inside = o >= p->row && o < p->row + p->n_out;
            assert_true(b_at(p, o, j) == (inside ? adapter_matrix_at(&q->b, o - p->row, j) : 0));
        }
    assert_int_equal(p->extra != NULL, q->extra.data != NULL);
    for (int64_t o = 0; p->extra && o < p->n_out; o++)
        assert_true(p->extra[o] == adapter_matrix_at(&q->extra, o, 0));
}

/* All pairs of the adapter that was written last. */
static void check_pairs(const struct adapter *a)
{
    struct adapter_file   *f;
    struct adapter_binding b;
    struct faults          faults = {0};
    assert_int_equal(adapter_file_open(&f, adapter_dir, &faults, NULL), 0);
    assert_int_equal(adapter_bind(&b, f, &t.m, &faults, NULL), 0);
    assert_int_equal(faults.n, 0);
    for (size_t i = 0, k = 0; i < b.n_pair; i++) {
        const struct lora_delta *d = delta_of(a, b.pair[i].weight);
        k = i && b.pair[i].weight == b.pair[i - 1].weight ? k + 1 : 0;
        assert_non_null(d);
        assert_true((int)k < d->n_pair);
        check_pair(&d->pair[k], &b.pair[i]);
    }
    adapter_binding_deinit(&b);
    adapter_file_free(f);
}

static void test_layouts(void **state)
{
    static const struct {
        const char *config, *spec;
        int         n_pair;
    } cases[] = {
        {MLX_CONFIG, MLX(L0 "cross.q_proj", 64, 40) " " MLX(L1 "cross.k_proj", 64, 24), 2},
        {PEFT_CONFIG(", \"lora_bias\": true"),
         PEFT(L0 "self_attn.k_proj", 64, 24) " " BASE L0 "self_attn.k_proj.lora_B.bias:F16:24", 1},
        {MLX_CONFIG,
         MLX(L0 "self_attn.q_proj", 64, 40) " " MLX(L0 "self_attn.k_proj", 64, 24) " " MLX(L0 "self_attn.v_proj", 64,
                                                                                           24),
         3},
        {MLX_CONFIG, MLX(L0 "cross.qkv_proj", 64, 88), 3},
        {MLX_CONFIG, "model.embed_tokens.lora_a:F16:72x4 model.embed_tokens.lora_b:F32:4x64 " MLX("lm_head", 64, 72),
         2},
        {PEFT_CONFIG(""),
         BASE "model.embed_tokens.lora_embedding_A:F16:4x72 " BASE "model.embed_tokens.lora_embedding_B:BF16:64x4", 1},
        {MLX_CONFIG, L0 "mlp.switch_mlp.up_proj.lora_a:BF16:3x4x64 " L0 "mlp.switch_mlp.up_proj.lora_b:F32:3x32x4", 3},
        {PEFT_CONFIG(", \"target_parameters\": [\"experts.gate_up_pairs\"]"),
         BASE L0 "mlp.experts.lora_A.weight:F32:12x64 " BASE L0 "mlp.experts.lora_B.weight:F16:64x12", 6},
        {PEFT_CONFIG(""), PEFT(L0 "mla.kv_b_proj", 64, 104), 4},
    };
    (void)state;
    load_table(&dense);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct adapter     *a = load(cases[i].config, cases[i].spec);
        struct adapter_info info;
        int                 n = 0, most = 0;
        check_pairs(a);
        for (int w = 0; w < t.m.params.n_weight; w++) {
            const struct lora_delta *d = adapter_lora(a)->delta[w];
            n += d ? d->n_pair : 0;
            most = MAX(most, d ? 4 * d->n_pair : 0);
        }
        assert_int_equal(n, cases[i].n_pair);
        assert_int_equal(adapter_lora(a)->rank, most);
        adapter_get_info(a, &info);
        assert_string_equal(info.path, adapter_dir);
        assert_int_equal(info.rank_min, 4);
        assert_int_equal(info.rank_max, 4);
        adapter_unref(a);
    }
    table_deinit(&t);
}

#define SQUARE_MODEL "tests/data/arch/llama-tied-f32"
#define SQUARE L0 "self_attn.q_proj" /* 60 by 60 */

/* A square layer with square halves, in both formats: only the format tells which is which. */
static void test_square(void **state)
{
    static const struct {
        const char *config, *spec, *a, *b;
        bool        mlx;
    } cases[] = {
        {"{\"lora_parameters\": {\"rank\": 60, \"scale\": 1}}", SQUARE ".lora_a:F32:60x60 " SQUARE ".lora_b:F32:60x60",
         SQUARE ".lora_a", SQUARE ".lora_b", true},
        {"{\"peft_type\": \"LORA\", \"r\": 60}",
         BASE SQUARE ".lora_A.weight:F32:60x60 " BASE SQUARE ".lora_B.weight:F32:60x60", BASE SQUARE ".lora_A.weight",
         BASE SQUARE ".lora_B.weight", false},
    };
    struct model        *m;
    struct model_options o = {.page_tokens = 16};
    struct error         e = {0};
    (void)state;
    if (model_load(&m, SQUARE_MODEL, arch_describe, NULL, &o, &e))
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct adapter *a;
        adapter_write(adapter_dir, cases[i].config, cases[i].spec);
        if (adapter_load(&a, adapter_dir, m, NULL, NULL, &e))
            fail_msg("%s", e.msg);
        const struct lora_pair *p = adapter_lora(a)->delta[params_find(&m->params, SQUARE)->weight->index]->pair;
        bool                    across = cases[i].mlx; /* its halves are [in, rank] and [rank, out] */
        assert_true(a_at(p, 5, 9) == adapter_value(cases[i].a, across ? 9 * 60 + 5 : 5 * 60 + 9));
        assert_true(b_at(p, 5, 9) == adapter_value(cases[i].b, across ? 9 * 60 + 5 : 5 * 60 + 9));
        adapter_unref(a);
    }
    model_free(m);
}

/* --- DoRA --------------------------------------------------------------------------------------------------------- */

/* |W[o] + s d[o]| of a module whose rows begin at `row`, by the definition. */
static double norm_of(const struct weight *w, int64_t o, const struct lora_pair *p, double s)
{
    float  row[T_EMBD];
    double sum = 0;
    assert_true(w->n_in <= T_EMBD);
    weight_row(w, o, row);
    for (int64_t i = 0; i < w->n_in; i++) {
        double d = 0;
        for (int64_t j = 0; j < p->rank; j++)
            d += (double)b_at(p, o, j) * (double)a_at(p, j, i);
        sum += ((double)row[i] + s * (double)p->scale * d) * ((double)row[i] + s * (double)p->scale * d);
    }
    return sqrt(sum);
}

static void check_dora(const struct adapter *a, const struct weight *w, const char *m_name, enum dtype m_type)
{
    const struct lora_delta *d = adapter_lora(a)->delta[w->index];
    assert_non_null(d->dora);
    for (int64_t o = 0; o < w->n_out; o++) {
        const struct lora_pair *p = d->pair;
        bool                    inside = o >= p->row && o < p->row + p->n_out;
        float                   m = adapter_value(m_name, o - p->row);
        quant_narrow(m_type, &m, 1, &m);
        m = dtype_load(m_type, &m, 0);
        assert_true(d->dora->m[o] == (inside ? m : 1));
        for (double s = -1; s <= 2; s += 0.5) {
            double f = sqrt((double)d->dora->ww[o] + 2 * s * (double)d->dora->wd[o] + s * s * (double)d->dora->dd[o]);
            double want = inside ? norm_of(w, o, p, s) : 1;
            if (!(fabs(f - want) <= 1e-5 * (want + 1)))
                fail_msg("%s row %d at %g: %g, not %g", w->name, (int)o, s, f, want);
        }
    }
}

static void test_dora(void **state)
{
    static const struct table_form *const forms[] = {&dense, &q4};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        load_table(forms[i]);
        struct adapter *a = load(DORA_CONFIG, MLX(L0 "cross.q_proj", 64, 40) " " L0 "cross.q_proj.m:F32:40 " MLX(
                                                  L1 "self_attn.k_proj", 64, 24) " " L1 "self_attn.k_proj.m:BF16:24");
        check_dora(a, &t.layer[0].q, L0 "cross.q_proj.m", DTYPE_F32);
        check_dora(a, &t.layer[1].qkv, L1 "self_attn.k_proj.m", DTYPE_BF16);
        adapter_unref(a);
        a = load(PEFT_CONFIG(", \"use_dora\": true"),
                 PEFT(L0 "cross.q_proj", 64, 40) " " BASE L0 "cross.q_proj.lora_magnitude_vector:F32:40");
        check_dora(a, &t.layer[0].q, BASE L0 "cross.q_proj.lora_magnitude_vector", DTYPE_F32);
        adapter_unref(a);
        a = load(DORA_CONFIG, "model.embed_tokens.lora_a:F32:72x4 model.embed_tokens.lora_b:F32:4x64 "
                              "model.embed_tokens.m:F32:72");
        check_dora(a, &t.embed, "model.embed_tokens.m", DTYPE_F32);
        adapter_unref(a);
        table_deinit(&t);
    }
}

/* A width that is no multiple of what is summed at once. */
static void test_dora_odd(void **state)
{
    struct model        *m;
    struct adapter      *a;
    struct model_options o = {.page_tokens = 16};
    (void)state;
    assert_int_equal(model_load(&m, SQUARE_MODEL, arch_describe, NULL, &o, NULL), 0);
    adapter_write(adapter_dir, DORA_CONFIG, MLX(SQUARE, 60, 60) " " SQUARE ".m:F32:60");
    assert_int_equal(adapter_load(&a, adapter_dir, m, NULL, NULL, NULL), 0);
    check_dora(a, params_find(&m->params, SQUARE)->weight, SQUARE ".m", DTYPE_F32);
    adapter_unref(a);
    model_free(m);
}

/* A rank beyond the width, whose norms come from B A itself. */
static void test_dora_wide(void **state)
{
    (void)state;
    load_table(&dense);
    struct adapter *a =
        load("{\"fine_tune_type\": \"dora\", \"lora_parameters\": {\"rank\": 70, \"scale\": 0.5}}",
             L0 "cross.q_proj.lora_a:F32:64x70 " L0 "cross.q_proj.lora_b:F16:70x40 " L0 "cross.q_proj.m:F32:40");
    check_dora(a, &t.layer[0].q, L0 "cross.q_proj.m", DTYPE_F32);
    adapter_unref(a);
    table_deinit(&t);
}

/* --- replaced parameters ------------------------------------------------------------------------------------------ */

static void test_replaced(void **state)
{
    float row[T_EMBD];
    (void)state;
    load_table(&dense);
    struct adapter *a =
        load(FULL_CONFIG, L0 "norm.weight:F32:64 " L0 "cross.qkv_proj.weight:BF16:88x64 " L1
                             "mlp.switch_mlp.down_proj.bias:F16:3x64 model.embed_tokens.weight:F32:72x64");
    const struct lora_delta *d = delta_of(a, &t.layer[0].v);
    assert_int_equal(d->n_pair, 0);
    assert_int_equal(d->replace->n_out, T_KV);
    assert_non_null(d->replace->packed);
    assert_null(d->replace->data); /* nothing of the file is kept but what lookups read */
    weight_row(delta_of(a, &t.embed)->replace, 71, row);
    assert_true(row[63] == adapter_value("model.embed_tokens.weight", 71 * 64 + 63));
    assert_non_null(delta_of(a, &t.layer[0].norm)->replace->packed);
    d = delta_of(a, &t.layer[1].down[2]);
    assert_null(d->replace);
    float want = adapter_value(L1 "mlp.switch_mlp.down_proj.bias", 2 * T_EMBD + 9);
    quant_narrow(DTYPE_F16, &want, 1, &want);
    assert_true(d->bias[9] == dtype_load(DTYPE_F16, &want, 0));
    adapter_unref(a);
    table_deinit(&t);
}

/* --- sets --------------------------------------------------------------------------------------------------------- */

static void test_sets(void **state)
{
    struct adapter *a[3];
    (void)state;
    load_table(&q4);
    a[0] = load(MLX_CONFIG, MLX(L0 "cross.q_proj", 64, 40));
    a[1] = load(MLX_CONFIG, MLX(L0 "cross.k_proj", 64, 24));
    a[2] = load(MLX_CONFIG " ", MLX(L0 "cross.q_proj", 64, 40));
    struct adapter_set *s[4];
    struct error        e = {0};
    assert_int_equal(adapter_set_new(&s[0], (struct adapter_use[]){{a[0], 1}, {a[1], 0.5f}, {a[2], 2}}, 3, &e), 0);
    assert_int_equal(adapter_set_new(&s[1], (struct adapter_use[]){{a[2], 2}, {a[0], 1}, {a[1], 0.5f}}, 3, &e), 0);
    assert_int_equal(adapter_set_new(&s[2], (struct adapter_use[]){{a[2], 2}, {a[0], 1}, {a[1], 0.25f}}, 3, &e), 0);
    assert_int_equal(adapter_set_new(&s[3], (struct adapter_use[]){{a[2], 0}, {a[0], 1}, {a[1], -0.0f}}, 3, &e), 0);
    assert_memory_equal(s[0]->key, s[1]->key, sizeof s[0]->key);
    assert_memory_not_equal(s[0]->key, s[2]->key, sizeof s[0]->key);
    assert_memory_not_equal(s[0]->key, s[3]->key, sizeof s[0]->key);
    assert_int_equal(s[0]->lora->n, 3);
    assert_int_equal(s[0]->lora->rank, 12);
    assert_int_equal(s[3]->lora->n, 1);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(s[0]->lora->use[i].lora, s[1]->lora->use[i].lora);
        assert_true(s[0]->lora->use[i].scale == s[1]->lora->use[i].scale);
        adapter_unref(a[i]); /* the sets hold them */
    }
    assert_int_equal(delta_of(a[0], &t.layer[0].q)->n_pair, 1);
    adapter_set_ref(s[3]);
    adapter_set_unref(s[3]);
    for (int i = 0; i < 4; i++)
        adapter_set_unref(s[i]);
    adapter_set_unref(NULL);
    table_deinit(&t);
}

static void check_set_refused(struct adapter *a, float x, struct adapter *b, float y, const char *words)
{
    struct adapter_set *s;
    struct error        e = {0};
    struct adapter_use  use[] = {{a, x}, {b, y}};
    assert_int_equal(adapter_set_new(&s, use, 2, &e), words ? ERR_INVALID : 0);
    if (words && !strstr(e.msg, words))
        fail_msg("'%s' lacks '%s'", e.msg, words);
    adapter_set_unref(s);
}

static void test_refused_sets(void **state)
{
    struct adapter_set *s;
    (void)state;
    load_table(&dense);
    struct adapter *lora = load(MLX_CONFIG, MLX(L0 "cross.q_proj", 64, 40));
    struct adapter *dora = load(DORA_CONFIG, MLX(L0 "cross.q_proj", 64, 40) " " L0 "cross.q_proj.m:F32:40");
    struct adapter *full = load(FULL_CONFIG, L0 "cross.q_proj.weight:F32:40x64");
    struct adapter *bias = load(FULL_CONFIG, L0 "mlp.switch_mlp.down_proj.bias:F32:3x64");
    check_set_refused(lora, 1, dora, 1, NULL);
    check_set_refused(lora, 1, lora, 2, NULL);
    check_set_refused(dora, 1, dora, 2, "both have DoRA on " L0 "cross.q_proj");
    check_set_refused(dora, 1, dora, 0, NULL);
    check_set_refused(full, 1, full, 2, "both replace " L0 "cross.q_proj");
    check_set_refused(bias, 1, bias, 2, "both replace the bias of " L0 "mlp.switch_mlp.down_proj");
    check_set_refused(lora, 1, dora, NAN, "is nan, it must be finite");
    check_set_refused(lora, INFINITY, dora, 1, "is inf, it must be finite");
    struct adapter *large =
        load("{\"lora_parameters\": {\"rank\": 4, \"scale\": -1e30}}", MLX(L0 "cross.q_proj", 64, 40));
    check_set_refused(lora, 1e30f, large, 1e7f, NULL);
    check_set_refused(lora, 1, large, 1e9f, "is 1e+09, which times its own of 1e+30 is beyond float32");
    adapter_unref(large);
    assert_int_equal(adapter_set_new(&s, (struct adapter_use[]){{lora, 0}}, 1, NULL), 0);
    assert_null(s);
    assert_int_equal(adapter_set_new(&s, NULL, 0, NULL), 0);
    assert_null(s);
    adapter_unref(lora);
    adapter_unref(dora);
    adapter_unref(full);
    adapter_unref(bias);
    adapter_unref(NULL);
    table_deinit(&t);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

/* Faults of the files and of the fit are one report. */
static void test_one_report(void **state)
{
    struct adapter *a = NULL;
    struct error    e = {0};
    (void)state;
    load_table(&q4);
    adapter_write(adapter_dir, MLX_CONFIG,
                  MLX(L0 "cross.q_proj", 63, 40) " " L0 "cross.k_proj.lora_a:F32:64x4 " MLX(L1 "none", 64, 40));
    assert_int_equal(adapter_load(&a, adapter_dir, &t.m, backend, NULL, &e), ERR_MISFIT);
    assert_null(a);
    const char *half = strstr(e.msg, "cross.k_proj.lora_a stands alone"), *fit = strstr(e.msg, "; lora_a is [63, 4]"),
               *none = strstr(e.msg, L1 "none is no layer");
    if (!half || !fit || !none || half > fit || fit > none)
        fail_msg("%s", e.msg);
    table_deinit(&t);
}

static void count(void *ctx, enum log_level level, const char *msg)
{
    (void)level;
    *(int *)ctx += strstr(msg, "init_lora_weights is \"olora\"") != NULL;
}

static void test_warning(void **state)
{
    struct adapter *a;
    int             n = 0;
    struct log      log = {.write = count, .ctx = &n, .level = LOG_WARNING};
    (void)state;
    load_table(&q4);
    adapter_write(adapter_dir, PEFT_CONFIG(", \"init_lora_weights\": \"olora\""), PEFT(L0 "cross.q_proj", 64, 40));
    assert_int_equal(adapter_load(&a, adapter_dir, &t.m, backend, &log, NULL), 0);
    assert_int_equal(n, 1);
    adapter_unref(a);
    table_deinit(&t);
}

/* An adapter takes the bytes of its a and b and little more. */
static void test_memory(void **state)
{
    (void)state;
    load_table(&q4);
    struct adapter     *a = load("{\"lora_parameters\": {\"rank\": 1024, \"scale\": 1}}",
                                 L0 "cross.q_proj.lora_a:F32:64x1024 " L0 "cross.q_proj.lora_b:F32:1024x40");
    struct adapter_info info;
    adapter_get_info(a, &info);
    assert_int_equal(info.n_parameter, 1024 * 104);
    assert_in_range(info.bytes, 4 * 1024 * 104, 4 * 1024 * (104 + 8) + 8192); /* 40 outputs are 48 lanes */
    adapter_unref(a);
    table_deinit(&t);
}

static int set_up(void **state)
{
    (void)state;
    dir = tmp_make();
    adapter_dir = tmp_make();
    return cpu_backend_new(&backend, &(struct cpu_options){.threads = 1, .level = -1}, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    backend->free(backend);
    tmp_remove(dir);
    tmp_remove(adapter_dir);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_layouts),    TEST(test_square),   TEST(test_dora),   TEST(test_dora_odd),
        TEST(test_dora_wide),  TEST(test_replaced), TEST(test_sets),   TEST(test_refused_sets),
        TEST(test_one_report), TEST(test_warning),  TEST(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
