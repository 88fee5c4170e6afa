/* Binding adapters to a table that has every kind of parameter: each layout's delta lands where the module's rows are,
 * and what does not fit is told with the layer and the tensor. */
#include "../support/adapter.h"
#include "../support/table.h"
#include "adapt/bind.h"

#define BASE "base_model.model."
#define L0 "model.layers.0."
#define L1 "model.layers.1."
#define SCALE 2.0 /* of every config here */

static char *dir, *adapter_dir;

struct bound {
    struct table           t;
    struct adapter_file   *f;
    struct adapter_binding b;
};

static void load_table(struct table *t, const struct table_form *form, int lo, int hi)
{
    struct table_files f;
    struct error       e = {0};
    table_init(t);
    table_make(&f, t, form);
    table_write(&f, dir);
    if (table_bind(t, dir, false, lo, hi, &e))
        fail_msg("%s", e.msg);
}

static int bind(struct bound *b, const char *config, const char *spec, struct error *e)
{
    struct faults faults = {0};
    adapter_write(adapter_dir, config, spec);
    assert_int_equal(adapter_file_open(&b->f, adapter_dir, &faults, e), 0);
    assert_non_null(b->f);
    assert_int_equal(faults.n, 0);
    assert_int_equal(adapter_bind(&b->b, b->f, &b->t.m, &faults, e), 0);
    int code = faults_report(&faults, e);
    faults_deinit(&faults);
    return code;
}

static void release(struct bound *b)
{
    adapter_binding_deinit(&b->b);
    adapter_file_free(b->f);
}

static const struct table_form dense = {{0}, DTYPE_F32};
static const struct table_form q4 = {{QUANT_AFFINE, 4, 32, DTYPE_F16}, DTYPE_F16};

/* --- deltas ------------------------------------------------------------------------------------------------------- */

/* Element [o][i] of what the adapter adds to the weight, over all its pairs. */
static double delta_of(const struct adapter_binding *b, const struct weight *w, int64_t o, int64_t i)
{
    double sum = 0;
    for (size_t k = 0; k < b->n_pair; k++) {
        const struct adapter_pair *p = &b->pair[k];
        if (p->weight != w || o < p->row || o >= p->row + p->b.n_row || i < p->col || i >= p->col + p->a.n_col)
            continue;
        assert_int_equal(p->a.n_row, p->b.n_col);
        for (int64_t j = 0; j < p->a.n_row; j++)
            sum += p->scale * (double)adapter_matrix_at(&p->b, o - p->row, j) *
                   (double)adapter_matrix_at(&p->a, j, i - p->col);
    }
    return sum;
}

/* Element (i, j) of a tensor of two dimensions that the test has written, n columns wide. */
static double stored(const char *name, int64_t i, int64_t j, int64_t n)
{
    return (double)adapter_value(name, i * n + j);
}

/* Element [o][i] of the module's delta by the format's own definition: x lora_a lora_b, or lora_B lora_A x. */
typedef double module_delta(const char *name, int64_t o, int64_t i, int64_t n_out, int64_t n_in);

static double mlx_delta(const char *name, int64_t o, int64_t i, int64_t n_out, int64_t n_in)
{
    char   a[128], b[128];
    double sum = 0;
    (void)n_in;
    snprintf(a, sizeof a, "%s.lora_a", name);
    snprintf(b, sizeof b, "%s.lora_b", name);
    for (int j = 0; j < 4; j++)
        sum += SCALE * stored(a, i, j, 4) * stored(b, j, o, n_out);
    return sum;
}

static double mlx_embedding_delta(const char *name, int64_t o, int64_t i, int64_t n_out, int64_t n_in)
{
    (void)n_out; /* lookup: lora_a[id] lora_b */
    return mlx_delta(name, i, o, n_in, 0);
}

static double peft_delta(const char *name, int64_t o, int64_t i, int64_t n_out, int64_t n_in)
{
    char   a[128], b[128];
    double sum = 0;
    (void)n_out;
    snprintf(a, sizeof a, BASE "%s.lora_A.weight", name);
    snprintf(b, sizeof b, BASE "%s.lora_B.weight", name);
    for (int j = 0; j < 4; j++)
        sum += SCALE * stored(b, o, j, 4) * stored(a, j, i, n_in);
    return sum;
}

static double peft_embedding_delta(const char *name, int64_t o, int64_t i, int64_t n_out, int64_t n_in)
{
    char   a[128], b[128];
    double sum = 0;
    (void)n_in;
    snprintf(a, sizeof a, BASE "%s.lora_embedding_A", name);
    snprintf(b, sizeof b, BASE "%s.lora_embedding_B", name);
    for (int j = 0; j < 4; j++)
        sum += SCALE * stored(a, j, o, n_out) * stored(b, i, j, 4);
    return sum;
}

/* The weight's rows [row, row + n) change by the module's rows from, from + step, ...; its other rows do not. */
static void check_delta(const struct bound *b, const struct weight *w, int64_t row, int64_t n, int64_t from,
                        int64_t step, module_delta *f, const char *name, int64_t n_out)
{
    for (int64_t o = 0; o < w->n_out; o++)
        for (int64_t i = 0; i < w->n_in; i++) {
            bool   inside = o >= row && o < row + n;
            double want = inside ? f(name, from + (o - row) * step, i, n_out, w->n_in) : 0;
            double got = delta_of(&b->b, w, o, i);
            if (!(want - got < 1e-5 && got - want < 1e-5))
                fail_msg("%s [%d][%d]: %g, not %g", name, (int)o, (int)i, got, want);
        }
}

#define MLX(name, in, out) name ".lora_a:F32:" #in "x4 " name ".lora_b:F32:4x" #out
#define PEFT(name, in, out) BASE name ".lora_A.weight:F32:4x" #in " " BASE name ".lora_B.weight:F32:" #out "x4"

static void good(struct bound *b, const char *config, const char *spec)
{
    struct error e = {0};
    if (bind(b, config, spec, &e))
        fail_msg("%s", e.msg);
}

static void test_linear(void **state)
{
    struct bound b;
    (void)state;
    for (int i = 0; i < 2; i++) {
        load_table(&b.t, i ? &q4 : &dense, 0, T_LAYERS);
        struct table_layer *l = &b.t.layer[1];
        good(&b, MLX_CONFIG, MLX(L1 "cross.q_proj", 64, 40));
        assert_int_equal(b.b.n_pair, 1);
        assert_int_equal(b.b.pair->uses, WEIGHT_LINEAR);
        check_delta(&b, &l->q, 0, T_Q, 0, 1, mlx_delta, L1 "cross.q_proj", T_Q);
        release(&b);
        good(&b, PEFT_CONFIG(""), PEFT(L1 "cross.q_proj", 64, 40));
        check_delta(&b, &l->q, 0, T_Q, 0, 1, peft_delta, L1 "cross.q_proj", T_Q);
        release(&b);
        table_deinit(&b.t);
    }
}

static void test_parts(void **state)
{
    struct bound b;
    (void)state;
    load_table(&b.t, &q4, 0, T_LAYERS);
    struct table_layer *l = &b.t.layer[0];
    /* stored as one: a part of it, the whole */
    good(&b, MLX_CONFIG, MLX(L0 "self_attn.v_proj", 64, 24));
    check_delta(&b, &l->qkv, T_Q + T_KV, T_KV, 0, 1, mlx_delta, L0 "self_attn.v_proj", T_KV);
    release(&b);
    good(&b, PEFT_CONFIG(""), PEFT(L0 "self_attn.qkv_proj", 64, 88));
    check_delta(&b, &l->qkv, 0, T_Q + 2 * T_KV, 0, 1, peft_delta, L0 "self_attn.qkv_proj", T_Q + 2 * T_KV);
    release(&b);
    /* stored apart: the fused name */
    good(&b, MLX_CONFIG, MLX(L0 "cross.qkv_proj", 64, 88));
    assert_int_equal(b.b.n_pair, 3);
    check_delta(&b, &l->q, 0, T_Q, 0, 1, mlx_delta, L0 "cross.qkv_proj", 88);
    check_delta(&b, &l->k, 0, T_KV, T_Q, 1, mlx_delta, L0 "cross.qkv_proj", 88);
    check_delta(&b, &l->v, 0, T_KV, T_Q + T_KV, 1, mlx_delta, L0 "cross.qkv_proj", 88);
    release(&b);
    good(&b, PEFT_CONFIG(""), PEFT(L0 "cross.qkv_proj", 64, 88));
    check_delta(&b, &l->v, 0, T_KV, T_Q + T_KV, 1, peft_delta, L0 "cross.qkv_proj", 88);
    release(&b);
    table_deinit(&b.t);
}

static void test_embedding(void **state)
{
    struct bound b;
    (void)state;
    load_table(&b.t, &dense, 0, T_LAYERS);
    good(&b, MLX_CONFIG, "model.embed_tokens.lora_a:F32:72x4 model.embed_tokens.lora_b:F32:4x64");
    assert_int_equal(b.b.pair->uses, WEIGHT_EMBED | WEIGHT_LINEAR);
    check_delta(&b, &b.t.embed, 0, T_VOCAB, 0, 1, mlx_embedding_delta, "model.embed_tokens", T_VOCAB);
    release(&b);
    good(&b, PEFT_CONFIG(""),
         BASE "model.embed_tokens.lora_embedding_A:F32:4x72 " BASE "model.embed_tokens.lora_embedding_B:F32:64x4");
    assert_int_equal(b.b.pair->uses, WEIGHT_EMBED | WEIGHT_LINEAR);
    check_delta(&b, &b.t.embed, 0, T_VOCAB, 0, 1, peft_embedding_delta, "model.embed_tokens", T_VOCAB);
    release(&b);
    /* the tied head is a linear layer of its own */
    good(&b, MLX_CONFIG, MLX("lm_head", 64, 72));
    assert_int_equal(b.b.pair->uses, WEIGHT_LINEAR);
    check_delta(&b, &b.t.embed, 0, T_VOCAB, 0, 1, mlx_delta, "lm_head", T_VOCAB);
    release(&b);
    table_deinit(&b.t);
}

/* --- stacks ------------------------------------------------------------------------------------------------------- */

static double switch_delta(const char *name, int e, int64_t o, int64_t i, int64_t n_out, int64_t n_in)
{
    char   a[128], b[128];
    double sum = 0;
    snprintf(a, sizeof a, "%s.lora_a", name);
    snprintf(b, sizeof b, "%s.lora_b", name);
    for (int j = 0; j < 4; j++)
        sum += SCALE * (double)adapter_value(b, (e * n_out + o) * 4 + j) *
               (double)adapter_value(a, (e * 4 + j) * n_in + i);
    return sum;
}

/* A expert by expert, B with the expert innermost. */
static double stack_delta(const char *name, int e, int64_t o, int64_t i, int64_t n_in)
{
    char   a[128], b[128];
    double sum = 0;
    snprintf(a, sizeof a, BASE "%s.lora_A.weight", name);
    snprintf(b, sizeof b, BASE "%s.lora_B.weight", name);
    for (int j = 0; j < 4; j++)
        sum += SCALE * stored(b, o, j * T_EXPERTS + e, 4 * T_EXPERTS) * stored(a, e * 4 + j, i, n_in);
    return sum;
}

static void near(double got, double want)
{
    if (!(got - want < 1e-5 && want - got < 1e-5))
        fail_msg("%g, not %g", got, want);
}

static void test_switch(void **state)
{
    struct bound      b;
    const char *const name = L1 "mlp.switch_mlp.up_proj";
    (void)state;
    load_table(&b.t, &q4, 0, T_LAYERS);
    for (int old = 0; old < 2; old++) {
        good(&b, MLX_CONFIG,
             old ? L1 "mlp.switch_mlp.up_proj.lora_a:F32:12x64 " L1 "mlp.switch_mlp.up_proj.lora_b:F32:3x32x4"
                 : L1 "mlp.switch_mlp.up_proj.lora_a:F32:3x4x64 " L1 "mlp.switch_mlp.up_proj.lora_b:F32:3x32x4");
        assert_int_equal(b.b.n_pair, T_EXPERTS);
        for (int e = 0; e < T_EXPERTS; e++)
            for (int64_t o = 0; o < T_FF; o++)
                for (int64_t i = 0; i < T_EMBD; i++)
                    near(delta_of(&b.b, &b.t.layer[1].up[e], o, i), switch_delta(name, e, o, i, T_FF, T_EMBD));
        release(&b);
    }
    table_deinit(&b.t);
}

#define X L1 "mlp.experts"

static void test_peft_stack(void **state)
{
    struct bound b;
    (void)state;
    load_table(&b.t, &dense, 0, T_LAYERS);
    good(&b, PEFT_CONFIG(", \"target_parameters\": [\"experts.gate_up_proj\", \"experts.down_proj\"]"),
         BASE X ".lora_A.weight:F32:12x32 " BASE X ".lora_B.weight:F32:64x12 " BASE X
                ".base_layer.lora_A.weight:F32:12x64 " BASE X ".base_layer.lora_B.weight:F32:64x12");
    assert_int_equal(b.b.n_pair, 3 * T_EXPERTS);
    struct table_layer *l = &b.t.layer[1];
    for (int e = 0; e < T_EXPERTS; e++)
        for (int64_t o = 0; o < 64; o++)
            for (int64_t i = 0; i < 64; i++) {
                const char *const wrapped = X ".base_layer"; /* 2 * T_FF rows, gates before ups */
                if (i < T_FF)
                    near(delta_of(&b.b, &l->down[e], o, i), stack_delta(X, e, o, i, T_FF));
                near(delta_of(&b.b, o < T_FF ? &l->gate[e] : &l->up[e], o % T_FF, i),
                     stack_delta(wrapped, e, o, i, T_EMBD));
            }
    release(&b);
    /* gates and ups row by row */
    good(&b, PEFT_CONFIG(", \"target_parameters\": [\"experts.gate_up_pairs\"]"),
         BASE X ".lora_A.weight:F32:12x64 " BASE X ".lora_B.weight:F32:64x12");
    for (int e = 0; e < T_EXPERTS; e++)
        for (int64_t o = 0; o < 64; o++)
            for (int64_t i = 0; i < 64; i++)
                near(delta_of(&b.b, o % 2 ? &l->up[e] : &l->gate[e], o / 2, i), stack_delta(X, e, o, i, T_EMBD));
    release(&b);
    /* one expert's own module */
    good(&b, PEFT_CONFIG(""), PEFT(L1 "mlp.experts.2.down_proj", 32, 64));
    assert_int_equal(b.b.n_pair, 1);
    check_delta(&b, &l->down[2], 0, T_EMBD, 0, 1, peft_delta, L1 "mlp.experts.2.down_proj", T_EMBD);
    release(&b);
    table_deinit(&b.t);
}

/* Heads of kv_b_proj: its rows are some heads' columns, others' rows. */
static void test_heads(void **state)
{
    struct bound b;
    (void)state;
    load_table(&b.t, &dense, 0, T_LAYERS);
    good(&b, PEFT_CONFIG(""), PEFT(L0 "mla.kv_b_proj", 64, 104));
    assert_int_equal(b.b.n_pair, 2 * T_HEADS);
    for (int h = 0; h < T_HEADS; h++) {
        const int64_t from = h * (T_NOPE + T_V);
        for (int64_t i = 0; i < T_RANK; i++) {
            for (int64_t o = 0; o < T_NOPE; o++)
                near(delta_of(&b.b, &b.t.layer[0].embed_q[h], i, o),
                     peft_delta(L0 "mla.kv_b_proj", from + o, i, 104, T_RANK));
            for (int64_t o = 0; o < T_V; o++)
                near(delta_of(&b.b, &b.t.layer[0].unembed_out[h], o, i),
                     peft_delta(L0 "mla.kv_b_proj", from + T_NOPE + o, i, 104, T_RANK));
        }
    }
    release(&b);
    table_deinit(&b.t);
}

/* --- other things a file can hold --------------------------------------------------------------------------------- */

static void test_vectors(void **state)
{
    struct bound b;
    (void)state;
    load_table(&b.t, &dense, 0, T_LAYERS);
    good(&b, DORA_CONFIG, MLX(L0 "cross.qkv_proj", 64, 88) " " L0 "cross.qkv_proj.m:F16:88");
    for (size_t i = 0; i < 3; i++) {
        const struct adapter_pair *p = &b.b.pair[i];
        int64_t from = p->weight == &b.t.layer[0].q ? 0 : p->weight == &b.t.layer[0].k ? T_Q : T_Q + T_KV;
        assert_int_equal(p->magnitude.n_row, p->b.n_row);
        for (int64_t o = 0; o < p->b.n_row; o++)
            assert_true(adapter_matrix_at(&p->magnitude, o, 0) ==
                        dtype_load(DTYPE_F16, b.f->module->magnitude->data, from + o));
    }
    release(&b);
    good(&b, PEFT_CONFIG(", \"lora_bias\": true"),
         PEFT(L0 "self_attn.k_proj", 64, 24) " " BASE L0 "self_attn.k_proj.lora_B.bias:F32:24");
    assert_int_equal(b.b.pair->row, T_Q);
    assert_true(adapter_matrix_at(&b.b.pair->extra, 5, 0) == adapter_value(BASE L0 "self_attn.k_proj.lora_B.bias", 5));
    release(&b);
    table_deinit(&b.t);
}

static void test_replaced(void **state)
{
    struct bound b;
    (void)state;
    load_table(&b.t, &dense, 0, T_LAYERS);
    good(&b, FULL_CONFIG,
         L0 "norm.weight:F32:64 " L0 "cross.qkv_proj.weight:F32:88x64 " L1 "mlp.switch_mlp.down_proj.bias:F32:3x64 " L1
            "mlp.switch_mlp.up_proj.weight:F32:3x32x64 model.embed_tokens.weight:BF16:72x64");
    assert_int_equal(b.b.n_replaced, 1 + 1 + 3 + T_EXPERTS + T_EXPERTS);
    for (size_t i = 0; i < b.b.n_replaced; i++) {
        const struct adapter_replaced *r = &b.b.replaced[i];
        struct table_layer            *l = b.t.layer;
        if (r->weight == &l[0].v)
            assert_true(dtype_load(r->dtype, r->data, 3) == adapter_value(r->name, (T_Q + T_KV) * T_EMBD + 3));
        if (r->weight == &l[1].up[2])
            assert_true(dtype_load(r->dtype, r->data, 3) == adapter_value(r->name, 2 * T_FF * T_EMBD + 3));
        if (r->weight == &l[1].down[1])
            assert_true(r->bias && dtype_load(r->dtype, r->data, 3) == adapter_value(r->name, T_EMBD + 3));
        assert_true(i == 0 || r->weight->index >= r[-1].weight->index);
    }
    release(&b);
    table_deinit(&b.t);
}

/* A copy of the base's embedding that PEFT leaves in the file. */
static void write_copy(const struct table *t, const char *name, float off)
{
    struct adapter_tensors a;
    char                   spec[512];
    snprintf(spec, sizeof spec, PEFT(L0 "cross.q_proj", 64, 40) " %s:F32:72x64", name);
    adapter_begin(&a, spec);
    float *v = (float *)(uintptr_t)adapter_tensor(&a, name)->data;
    for (int64_t i = 0; i < T_VOCAB; i++)
        weight_row(&t->embed, i, v + i * T_EMBD);
    v[100] += off;
    adapter_end(&a, adapter_dir, "adapter_model.safetensors", PEFT_CONFIG(""));
}

static int bind_written(struct bound *b, struct error *e)
{
    struct faults faults = {0};
    assert_int_equal(adapter_file_open(&b->f, adapter_dir, &faults, e), 0);
    assert_int_equal(adapter_bind(&b->b, b->f, &b->t.m, &faults, e), 0);
    int code = faults_report(&faults, e);
    faults_deinit(&faults);
    return code;
}

static void test_copies(void **state)
{
    static const char *const names[] = {BASE "model.embed_tokens.base_layer.weight", BASE "lm_head.weight"};
    static const char *const words[] = {"is a copy of the base's weight, but this model's differs",
                                        "replaces the head alone, which this model ties to its embedding"};
    struct bound             b;
    (void)state;
    unlink(tmp_path(adapter_dir, "adapters.safetensors"));
    load_table(&b.t, &dense, 0, T_LAYERS);
    for (size_t i = 0; i < 2; i++)
        for (int off = 0; off < 2; off++) {
            struct error e = {0};
            write_copy(&b.t, names[i], off ? 1e-3f : 0);
            assert_int_equal(bind_written(&b, &e) != 0, off);
            assert_int_equal(b.b.n_replaced, 0);
            if (off && !strstr(e.msg, words[i]))
                fail_msg("%s", e.msg);
            release(&b);
        }
    table_deinit(&b.t);
    /* over a quantized base a copy of the original is near to it, and another base's is not */
    load_table(&b.t, &q4, 0, T_LAYERS);
    for (int off = 0; off < 2; off++) {
        struct error e = {0};
        write_copy(&b.t, names[0], off ? 100 : 0.05f);
        assert_int_equal(bind_written(&b, &e) != 0, off);
        release(&b);
    }
    table_deinit(&b.t);
}

/* Names that wrappers of the model give it. */
static void test_wrapped_names(void **state)
{
    static const char *const prefix[] = {"language_model.", "model.language_model.", "language_model.model."};
    struct bound             b;
    (void)state;
    load_table(&b.t, &dense, 0, T_LAYERS);
    for (size_t i = 0; i < ARRAY_LEN(prefix); i++) {
        char        spec[256];
        const char *name = &L0 "cross.q_proj"[i ? strlen("model.") : 0];
        snprintf(spec, sizeof spec, "%s%s.lora_a:F32:64x4 %s%s.lora_b:F32:4x40", prefix[i], name, prefix[i], name);
        good(&b, MLX_CONFIG, spec);
        assert_ptr_equal(b.b.pair->weight, &b.t.layer[0].q);
        release(&b);
    }
    good(&b, PEFT_CONFIG(""), PEFT("layers.0.cross.q_proj", 64, 40));
    assert_ptr_equal(b.b.pair->weight, &b.t.layer[0].q);
    release(&b);
    table_deinit(&b.t);
}

/* Of a model whose layers are loaded in part, what is of the others is left aside, and the own must fit. */
static void test_range(void **state)
{
    struct bound b;
    struct error e = {0};
    (void)state;
    load_table(&b.t, &dense, 1, 2);
    good(&b, MLX_CONFIG, MLX(L0 "cross.q_proj", 64, 40) " " MLX(L1 "cross.q_proj", 64, 40));
    assert_int_equal(b.b.n_pair, 1);
    assert_ptr_equal(b.b.pair->weight, &b.t.layer[1].q);
    assert_int_equal(b.b.n_aside, 1);
    release(&b);
    good(&b, FULL_CONFIG, L0 "norm.weight:F32:63 " L0 "cross.q_proj.weight:F32:1x2 " L1 "norm.weight:F32:64");
    assert_int_equal(b.b.n_replaced, 1);
    assert_int_equal(b.b.n_aside, 2);
    release(&b);
    assert_int_equal(bind(&b, MLX_CONFIG, MLX(L0 "cross.q_proj", 63, 40) " " MLX(L1 "cross.q_proj", 63, 40), &e),
                     ERR_MISFIT);
    assert_non_null(
        strstr(e.msg, "adapters.safetensors: " L1 "cross.q_proj takes 64 input features and produces 40; lora_a"));
    assert_null(strstr(e.msg, L0));
    release(&b);
    table_deinit(&b.t);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void test_refused(void **state)
{
    static const struct {
        const struct table_form *form;
        const char              *config, *spec, *words;
    } cases[] = {
        {&q4, MLX_CONFIG, MLX(L0 "cross.q_proj", 32, 40),
         "adapters.safetensors: " L0 "cross.q_proj takes 64 input features and produces 40; lora_a is [32, 4]"},
        {&q4, MLX_CONFIG, MLX(L0 "cross.q_proj", 8, 40), "produces 40; lora_a is [8, 4]"}, /* its packed width */
        {&q4, MLX_CONFIG, MLX(L0 "cross.q_proj", 64, 39),
         L0 "cross.q_proj takes 64 input features and produces 40; lora_b is [4, 39]"},
        {&q4, MLX_CONFIG, MLX(L0 "cross.q_proj", 63, 39), "; lora_a is [63, 4] and lora_b [4, 39]"},
        {&q4, PEFT_CONFIG(""), PEFT(L0 "cross.q_proj", 63, 40),
         L0 "cross.q_proj takes 64 input features and produces 40; " BASE L0 "cross.q_proj.lora_A.weight is [4, 63]"},
        {&q4, PEFT_CONFIG(""), PEFT(L0 "cross.q_proj", 40, 64), "cross.q_proj.lora_B.weight [64, 4]"},
        {&dense, MLX_CONFIG, MLX(L0 "self_attn.k_proj", 64, 25),
         L0 "self_attn.k_proj takes 64 input features and produces 24; lora_b is [4, 25]"},
        {&dense, MLX_CONFIG, MLX(L0 "self_attn.qkv_proj", 64, 40),
         L0 "self_attn.qkv_proj takes 64 input features and produces 88; lora_b is [4, 40]"},
        {&dense, MLX_CONFIG, MLX(L0 "cross.qkv_proj", 64, 87), "produces 88; lora_b is [4, 87]"},
        {&dense, MLX_CONFIG, "model.embed_tokens.lora_a:F32:71x4 model.embed_tokens.lora_b:F32:4x64",
         "model.embed_tokens holds 72 rows of 64 features; lora_a is [71, 4]"},
        {&dense, MLX_CONFIG, "model.embed_tokens.lora_a:F32:64x4 model.embed_tokens.lora_b:F32:4x72",
         "model.embed_tokens holds 72 rows of 64 features; lora_a is [64, 4] and lora_b [4, 72]"},
        {&dense, PEFT_CONFIG(""),
         BASE "model.embed_tokens.lora_embedding_A:F32:4x71 " BASE "model.embed_tokens.lora_embedding_B:F32:64x4",
         "holds 72 rows of 64 features; " BASE "model.embed_tokens.lora_embedding_A is [4, 71]"},
        {&dense, PEFT_CONFIG(""), PEFT("model.embed_tokens", 64, 72),
         "is an embedding of the model, but has the pair of a linear layer"},
        {&dense, PEFT_CONFIG(""),
         BASE L0 "cross.q_proj.lora_embedding_A:F32:4x40 " BASE L0 "cross.q_proj.lora_embedding_B:F32:64x4",
         "is a linear layer of the model, but has the pair of an embedding"},
        {&dense, MLX_CONFIG,
         L0 "mlp.switch_mlp.up_proj.lora_a:F32:4x4x64 " L0 "mlp.switch_mlp.up_proj.lora_b:F32:4x32x4",
         "each of the 3 experts of " L0
         "mlp.switch_mlp.up_proj takes 64 input features and produces 32; lora_a is [4, 4, 64] and lora_b [4, 32, 4]"},
        {&dense, MLX_CONFIG,
         L0 "mlp.switch_mlp.up_proj.lora_a:F32:3x4x64 " L0 "mlp.switch_mlp.up_proj.lora_b:F32:3x33x4",
         "produces 32; lora_b is [3, 33, 4]"},
        {&dense, MLX_CONFIG, MLX(L0 "mlp.switch_mlp.up_proj", 64, 32), "each of the 3 experts of"},
        {&dense, MLX_CONFIG, L0 "cross.q_proj.lora_a:F32:3x4x64 " L0 "cross.q_proj.lora_b:F32:3x40x4",
         L0 "cross.q_proj takes 64"},
        {&dense, MLX_CONFIG, MLX(L0 "cross.x_proj", 64, 40),
         L0 "cross.x_proj.lora_a is [64, 4], but " L0 "cross.x_proj is no layer of the table model"},
        {&dense, PEFT_CONFIG(""), PEFT("x.y", 64, 40),
         BASE "x.y.lora_A.weight is [4, 64], but x.y is no layer of the table model"},
        {&dense, MLX_CONFIG, MLX("model.layers.2.cross.q_proj", 63, 40),
         "model.layers.2.cross.q_proj is no layer of the table model, which has layers 0 to 1; "
         "model.layers.0.cross.q_proj takes 64 "
         "input features and produces 40"},
        {&dense, MLX_CONFIG, MLX(L0 "mlp.experts.3.up_proj", 64, 32),
         "mlp.experts.3.up_proj is no layer of the table model"},
        {&dense, MLX_CONFIG, MLX(L0 "norm", 64, 64), L0 "norm is a vector of the model, which takes no pair"},
        {&dense, DORA_CONFIG, MLX(L0 "cross.q_proj", 64, 40) " " L0 "cross.q_proj.m:F32:41",
         "cross.q_proj takes 64 input features and produces 40; m is [41], needed [40]"},
        {&dense, PEFT_CONFIG(", \"lora_bias\": true"),
         PEFT(L0 "cross.q_proj", 64, 40) " " BASE L0 "cross.q_proj.lora_B.bias:F32:39",
         "lora_B.bias is [39], needed [40]"},
        {&dense, PEFT_CONFIG(", \"use_dora\": true"),
         BASE "model.embed_tokens.lora_embedding_A:F32:4x72 " BASE "model.embed_tokens.lora_embedding_B:F32:64x4 " BASE
              "model.embed_tokens.lora_magnitude_vector:F32:64",
         "has DoRA on an embedding, whose magnitude PEFT keeps by column; that is not supported"},
        {&dense, DORA_CONFIG,
         L0 "mlp.switch_mlp.up_proj.lora_a:F32:3x4x64 " L0 "mlp.switch_mlp.up_proj.lora_b:F32:3x32x4 " L0
            "mlp.switch_mlp.up_proj.m:F32:32",
         "has DoRA on a stack of experts, which is not supported"},
        {&dense, DORA_CONFIG, MLX(L0 "mla.kv_b_proj", 64, 104) " " L0 "mla.kv_b_proj.m:F32:104",
         "that the model stores head by head"},
        {&dense, DORA_CONFIG,
         MLX(L0 "self_attn.qkv_proj", 64, 88) " " L0 "self_attn.qkv_proj.m:F32:88 " MLX(
             L0 "self_attn.v_proj", 64, 24) " " L0 "self_attn.v_proj.m:F32:24",
         "are both DoRA for the same rows of " L0 "self_attn.qkv_proj"},
        {&q4, FULL_CONFIG, L0 "cross.q_proj.weight:F32:40x64",
         L0 "cross.q_proj.weight replaces " L0
            "cross.q_proj.weight, which is quantized (affine 4 bits group 32) in this model"},
        {&dense, FULL_CONFIG, L0 "cross.q_proj.weight:F32:40x63",
         L0 "cross.q_proj.weight is [40, 63], but " L0 "cross.q_proj.weight is [40, 64]"},
        {&dense, FULL_CONFIG, L0 "norm.weight:F32:63", L0 "norm.weight is [63], but " L0 "norm.weight is [64]"},
        {&dense, FULL_CONFIG, L0 "mlp.switch_mlp.down_proj.bias:F32:64",
         "down_proj.bias is [64], but " L0 "mlp.switch_mlp.down_proj.bias is [3, 64]"},
        {&dense, FULL_CONFIG, L0 "cross.q_proj.bias:F32:40",
         L0 "cross.q_proj.bias is a bias, but the model's layer has none"},
        {&dense, FULL_CONFIG, L0 "cross.q_proj.scales:F32:40x2",
         "is no weight and no bias; nothing else of a model can be replaced"},
        {&dense, FULL_CONFIG, L0 "self_attn.q_proj.weight:F32:40x64",
         "replaces a part of a parameter that the model stores as one"},
        {&dense, FULL_CONFIG, L0 "none.weight:F32:40x64", L0 "none is no layer of the table model"},
        {&dense, FULL_CONFIG, L0 "cross.qkv_proj.weight:F32:88x64 " L0 "cross.q_proj.weight:F32:40x64",
         "both replace " L0 "cross.q_proj"},
        {&dense, FULL_CONFIG, "model.embed_tokens.weight:F32:72x64 lm_head.weight:F32:72x64",
         "differs from the embedding that the adapter brings along, but the model's head is tied to it"},
        {&dense, PEFT_CONFIG(", \"fan_in_fan_out\": true, \"modules_to_save\": [\"gate_up_proj\"]"),
         PEFT(L0 "cross.q_proj", 64, 40) " " BASE L0 "moe.gate_up_proj.weight:F32:3x64x64",
         "is square, and with fan_in_fan_out nothing tells"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct bound b;
        struct error e = {0};
        load_table(&b.t, cases[i].form, 0, T_LAYERS);
        if (!bind(&b, cases[i].config, cases[i].spec, &e))
            fail_msg("accepted, '%s' was expected", cases[i].words);
        if (!strstr(e.msg, cases[i].words))
            fail_msg("'%s' lacks '%s'", e.msg, cases[i].words);
        release(&b);
        table_deinit(&b.t);
    }
}

static int set_up(void **state)
{
    (void)state;
    dir = tmp_make();
    adapter_dir = tmp_make();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tmp_remove(dir);
    tmp_remove(adapter_dir);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_linear),     TEST(test_parts),         TEST(test_embedding), TEST(test_switch),
        TEST(test_peft_stack), TEST(test_heads),         TEST(test_vectors),   TEST(test_replaced),
        TEST(test_copies),     TEST(test_wrapped_names), TEST(test_range),     TEST(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
